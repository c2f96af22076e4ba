"""The operator of `video`: one open recording for each stream."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sightline.errors import CudaError, OutputError
from sightline.graph import RunsOn, Sink, Site
from sightline.media import Batch, Frame, Memory, Stream
from sightline_plugins.encode.recording import EncoderName, Encoders, Recording
from sightline_plugins.encode.settings import EncoderChoice, EncoderSettings, Layout


class VideoWriter(Sink):
    """Holds one open recording for each stream, written in the calling thread."""

    def __init__(self, template: str, *, settings: EncoderSettings, site: Site, encoder: EncoderName = "auto") -> None:
        """Raise DeviceUnavailable for an encoder that is missing."""
        self._template = template
        self._site = site
        self._encoders = Encoders(encoder, settings=settings, gpu=site.gpu)
        self._open: dict[Stream, Recording] = {}
        self._choices: dict[str, EncoderChoice] = {}
        self._warned: set[str] = set()

    def consume(self, batch: Batch) -> None:
        """Encode the frames of the batch. Raises OutputError, CudaError."""
        for frame in batch.frames:
            self._recording(frame).write(frame)

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's file. Raises OutputError, CudaError."""
        recording = self._open.pop(stream, None)
        if recording is not None:
            recording.finish()

    def close(self) -> None:
        """Close all files that are open; the first failure is raised when all are closed."""
        failure: OutputError | CudaError | None = None
        while self._open:
            _, recording = self._open.popitem()
            try:
                recording.finish()
            except (OutputError, CudaError) as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def totals(self) -> Mapping[str, Any]:
        """The latest `encoder` of each stream's video, with the reason for it."""
        return {stream: {"encoder": str(choice)} for stream, choice in self._choices.items()}

    def runs_on(self) -> RunsOn:
        """The GPU if it encodes any video; the reason names the videos that it does not."""
        device = next((choice.device for choice in self._choices.values() if choice.device != "cpu"), "cpu")
        reasons = dict.fromkeys(choice.reason for choice in self._choices.values() if choice.reason)
        return RunsOn(device, "; ".join(reasons))

    def _recording(self, frame: Frame) -> Recording:
        layout = Layout.of(frame.surface)
        current = self._open.get(frame.stream)
        if current is not None and current.layout == layout:
            return current
        path = self._site.outputs.claim(self._site.outputs.path(self._template, stream=frame.stream.name))
        warn = partial(self._site.warn, stream=frame.stream.name)
        if current is not None:
            current.finish()
            warn(f"the image changed from {_describe(current.layout)} to {_describe(layout)}: going on in {path}")
        opened = Recording(path, first=frame.surface, encoders=self._encoders, outputs=self._site.outputs, warn=warn)
        self._open[frame.stream] = opened
        choice = self._choices[frame.stream.name] = opened.encoder
        if choice.reason and choice.reason not in self._warned and frame.surface.memory is Memory.CUDA:
            self._warned.add(choice.reason)
            warn(f"videos are encoded on the CPU: {choice.reason}")
        return opened


def _describe(layout: Layout) -> str:
    width, height = layout.size_wh
    return f"{width}x{height} {layout.matrix} {layout.range}"
