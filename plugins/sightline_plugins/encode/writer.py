"""The operator of `video`: one open recording for each stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
        self._taken: set[Path] = set()

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
        path = self._free_path(frame.stream)
        warn = self._warner(frame.stream)
        if current is not None:
            current.finish()
            warn(f"the picture changed from {_describe(current.layout)} to {_describe(layout)}: going on in {path}")
        opened = Recording(path, first=frame.surface, settings=self._settings, outputs=self._site.outputs, warn=warn)
        self._taken.add(path)
        self._open[frame.stream] = opened
        return opened

    def _warner(self, stream: Stream) -> Callable[[str], None]:
        return lambda text: self._site.warn(text, stream=stream.name)

    def _free_path(self, stream: Stream) -> Path:
        """The stream's file, or `name-2`, `name-3` and so on where this run has written that one already."""
        first = path = self._site.outputs.path(self._template, stream=stream.name)
        number = 1
        while path in self._taken:
            number += 1
            path = first.with_stem(f"{first.stem}-{number}")
        return path


def _describe(layout: Layout) -> str:
    width, height = layout.size_wh
    return f"{width}x{height} {layout.matrix} {layout.range}"
