"""What sinks that write lines have in common: their open files, and what a check says of their paths."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, Outputs, Problem
from sightline.graph.outputs import LineFile
from sightline.graph.streams import matching
from sightline.media import Batch, Stream

STANDARD_OUTPUT = "-"


class StreamFiles:
    """The open files of one sink: one for each stream where the path says `{stream}`, else one for all.

    A file is opened at the first frame that goes into it and begins with `header`.
    """

    def __init__(self, outputs: Outputs, template: str, *, header: bytes = b"") -> None:
        self._outputs = outputs
        self._template = template
        self._header = header
        self._is_shared = "{stream}" not in template
        self._files: dict[Stream | None, LineFile] = {}

    def of(self, stream: Stream) -> LineFile:
        """The file that lines of this stream go to. Raises OutputError when it can not be opened."""
        key = None if self._is_shared else stream
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = self._open(stream)
            if self._header:
                file.write(self._header)
        return file

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's own file. Raises OutputError."""
        file = self._files.pop(stream, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files, each of them even if another fails. Raises OutputError."""
        files, self._files = self._files, {}
        with ExitStack() as stack:
            for file in files.values():
                stack.callback(file.close)

    def _open(self, stream: Stream) -> LineFile:
        if self._template == STANDARD_OUTPUT:
            return LineFile(Path("standard output"), sys.stdout.buffer, keep_open=True)
        return self._outputs.open_lines(self._outputs.claim(self._outputs.path(self._template, stream=stream.name)))


def write_by_frame(files: StreamFiles, batch: Batch, lines: Sequence[bytes]) -> None:
    """Write the lines of each frame of a batch, in one go for each file. Raises OutputError."""
    parts: dict[LineFile, list[bytes]] = {}
    for frame, own in zip(batch.frames, lines, strict=True):
        parts.setdefault(files.of(frame.stream), []).append(own)
    for file, together in parts.items():
        file.write(b"".join(together))


def path_problems(
    element: Element, template: str, *, context: CheckContext, shareable: bool, key: str = "path"
) -> Iterator[Problem]:
    """What is wrong with a path template: it can not be written, or mixes streams up.

    `shareable` says that lines of several streams may stand in one file. (That it stays in the output folder, and that
    no two steps write the same file, is checked for all elements alike.)
    """
    if template == STANDARD_OUTPUT:
        return
    names = matching(element.streams, context.streams)
    if not shareable and len(names) > 1 and "{stream}" not in template:
        text = f"{len(names)} streams would write the same file {template!r}: put {{stream}} into the path"
        yield Problem(text, (key,))
        return
    owners: dict[Path, str] = {}
    for name in names if "{stream}" in template else names[:1]:
        try:
            path = context.outputs.path(template, stream=name)
        except OutputError:
            return
        if path in owners:
            yield Problem(f"streams {owners[path]!r} and {name!r} would write the same file {path}: rename one", (key,))
        elif obstacle := context.outputs.obstacle(path):
            yield Problem(obstacle, (key,))
        owners[path] = name
