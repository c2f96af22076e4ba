"""What sinks that write lines have in common: their open files, and what a check says of their paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, Problem, Sink, Site
from sightline.graph.fields import matching
from sightline.media import Batch, Stream
from sightline_plugins.sinks.degradation import Degradation
from sightline_plugins.sinks.placeholders import STREAM, placeholder_problems
from sightline_plugins.sinks.stream_file import StreamFile

STANDARD_OUTPUT = "-"


class StreamFiles:
    """The open files of one sink: one for each stream where the path says `{stream}`, else one for all.

    A file is opened at the first frame that goes into it and begins with `header`. With `goes_on`, one that cannot be
    written stops nothing: its lines are lost and counted, which is told, until it can be written again.
    """

    def __init__(self, site: Site, template: str, *, goes_on: bool, header: bytes = b"") -> None:
        self._site = site
        self._template = template
        self._goes_on = goes_on
        self._header = header
        self._is_shared = STREAM not in template
        self._files: dict[Stream | None, StreamFile] = {}
        self._lost: dict[str, Counter[str]] = {}

    def write(self, batch: Batch, lines: Sequence[bytes]) -> None:
        """Write the lines of each frame of a batch, in one go for each file. Raises OutputError."""
        parts: dict[StreamFile, list[tuple[str, bytes]]] = {}
        for frame, own in zip(batch.frames, lines, strict=True):
            parts.setdefault(self._of(frame.stream), []).append((frame.stream.name, own))
        for file, rows in parts.items():
            lost_because = file.write(b"".join(own for _, own in rows), stream=rows[0][0])
            if lost_because is not None:
                self._count(rows, lost_because)

    def restart(self, stream: Stream) -> None:
        """Take back what was written to the stream's file. Raises OutputError."""
        self._of(stream).restart()

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

    def totals(self) -> Mapping[str, Any]:
        """The `lost_lines` of each stream by reason, where there are any."""
        return {stream: {"lost_lines": dict(lost)} for stream, lost in self._lost.items()}

    def _of(self, stream: Stream) -> StreamFile:
        key = None if self._is_shared else stream
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = self._make(stream)
        return file

    def _make(self, stream: Stream) -> StreamFile:
        outputs, path = self._site.outputs, None
        if self._template != STANDARD_OUTPUT:
            path = outputs.claim(outputs.path(self._template, stream=stream.name))
        degradation = Degradation(self._site) if self._goes_on else None
        return StreamFile(path, outputs=outputs, header=self._header, degradation=degradation)

    def _count(self, rows: Sequence[tuple[str, bytes]], reason: str) -> None:
        for stream, lines in rows:
            if count := lines.count(b"\n"):
                self._lost.setdefault(stream, Counter())[reason] += count


class LineSink(Sink):
    """A sink that writes lines to files of its streams."""

    def __init__(self, files: StreamFiles) -> None:
        self._files = files

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's own file. Raises OutputError."""
        self._files.end_stream(stream)

    def close(self) -> None:
        """Close all files. Raises OutputError."""
        self._files.close()

    def totals(self) -> Mapping[str, Any]:
        """The `lost_lines` of each stream by reason, where there are any."""
        return self._files.totals()


def path_problems(
    element: Element, template: str, *, context: CheckContext, shareable: bool, known: Sequence[str] = (STREAM,)
) -> Iterator[Problem]:
    """What is wrong with the template in an element's `path`: it cannot be written, or mixes streams up.

    `shareable` says that lines of several streams may stand in one file, `known` which words in braces stand for
    something. (That it stays in the output folder, and that no two steps write the same file, is checked for all
    elements alike.)
    """
    key = "path"
    if template == STANDARD_OUTPUT:
        return
    yield from placeholder_problems(template, known=known, key=key)
    names = matching(element.streams, context.streams)
    if not shareable and len(names) > 1 and STREAM not in template:
        text = f"{len(names)} streams would write the same file {template!r}: put {{stream}} into the path"
        yield Problem(text, (key,))
        return
    owners: dict[Path, str] = {}
    for name in names if STREAM in template else names[:1]:
        try:
            path = context.outputs.path(template, stream=name)
        except OutputError:
            return
        if path in owners:
            yield Problem(f"streams {owners[path]!r} and {name!r} would write the same file {path}: rename one", (key,))
        elif obstacle := context.outputs.obstacle(path):
            yield Problem(obstacle, (key,))
        owners[path] = name
