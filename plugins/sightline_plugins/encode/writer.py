"""The operator of `video`: one open recording for each stream."""

from __future__ import annotations

from collections.abc import Callable

from sightline.errors import OutputError
from sightline.graph import Sink, Site
from sightline.media import Batch, Frame, Stream
from sightline_plugins.encode.recording import EncoderSettings, Layout, Recording


class VideoWriter(Sink):
    """Holds one open recording for each stream; they are written by whichever thread calls."""

    def __init__(self, template: str, *, settings: EncoderSettings, site: Site) -> None:
        self._template = template
        self._settings = settings
        self._site = site
        self._open: dict[Stream, Recording] = {}

    def consume(self, batch: Batch) -> None:
        """Encode the frames of the batch. Raises OutputError."""
        for frame in batch.frames:
            self._recording(frame).write(frame)

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's file. Raises OutputError."""
        recording = self._open.pop(stream, None)
        if recording is not None:
            recording.finish()

    def close(self) -> None:
        """Close all files that are open; the first failure is raised when all are closed."""
        failure: OutputError | None = None
        while self._open:
            _, recording = self._open.popitem()
            try:
                recording.finish()
            except OutputError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _recording(self, frame: Frame) -> Recording:
        layout = Layout.of(frame.surface)
        current = self._open.get(frame.stream)
        if current is not None and current.layout == layout:
            return current
        path = self._site.outputs.claim(self._site.outputs.path(self._template, stream=frame.stream.name))
        warn = self._warner(frame.stream)
        if current is not None:
            current.finish()
            warn(f"the picture changed from {_describe(current.layout)} to {_describe(layout)}: going on in {path}")
        opened = Recording(path, first=frame.surface, settings=self._settings, outputs=self._site.outputs, warn=warn)
        self._open[frame.stream] = opened
        return opened

    def _warner(self, stream: Stream) -> Callable[[str], None]:
        return lambda text: self._site.warn(text, stream=stream.name)


def _describe(layout: Layout) -> str:
    width, height = layout.size_wh
    return f"{width}x{height} {layout.matrix} {layout.range}"
