"""Output files, one per stream: paths, errors on write, going on after them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, Message, MessageKind, Outputs, Problem, Sink, Site
from sightline.graph.fields import matching
from sightline.graph.outputs import LineFile
from sightline.graph.registry import suggest
from sightline.media import Batch, Stream

_RETRY_NS = 2_000_000_000


class Degradation:
    """Whether a sink is degraded: what it should write is lost, nothing else stops, and it tries again.

    Used by one thread.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._retry_at_ns = 0
        self.is_degraded = False

    @property
    def is_waiting(self) -> bool:
        """Whether it failed within the last two seconds, so that nothing is tried yet."""
        return self.is_degraded and self._site.clock.monotonic_ns() < self._retry_at_ns

    def failed(self, error: OutputError, *, stream: str, at_once: bool = False) -> None:
        """Writing failed; it is tried again in two seconds, or at once where room was made."""
        self._retry_at_ns = 0 if at_once else self._site.clock.monotonic_ns() + _RETRY_NS
        if not self.is_degraded:
            self.is_degraded = True
            self._post(MessageKind.SINK_DEGRADED, f"{error}; it is tried again every 2 s", stream)

    def succeeded(self, *, stream: str) -> None:
        """Something is written, and whole."""
        if self.is_degraded:
            self.is_degraded = False
            self._post(MessageKind.SINK_RECOVERED, "writing goes on", stream)

    def _post(self, kind: MessageKind, text: str, stream: str) -> None:
        self._site.post(Message(kind, text, stream=stream, element=self._site.element_id))


STREAM = "{stream}"
_WORD = re.compile(r"\{\w*\}")


def placeholder_problems(template: str, *, known: Sequence[str] = (STREAM,), key: str = "path") -> Iterator[Problem]:
    """Words in braces that stand for nothing: names of files would hold them as they are."""
    for word in dict.fromkeys(_WORD.findall(template)):
        if word not in known:
            near = suggest(word, known) or f"; there is {' and '.join(known)}"
            yield Problem(f"{word} stands for nothing here{near}", (key,))


class StreamFile:
    """A file of lines, or standard output (`path` None), opened when it is first written to; it begins with `header`.

    With a `degradation`, trouble stops nothing: lines are lost, and two seconds later writing is tried again, behind
    the last line that is whole. Without one, trouble is raised, and nothing is written after it. Used by one thread.
    """

    def __init__(
        self, path: Path | None, *, outputs: Outputs, header: bytes = b"", degradation: Degradation | None = None
    ) -> None:
        self._path = path
        self._outputs = outputs
        self._header = header
        self._degradation = degradation
        self._file: LineFile | None = None
        self._reason = ""
        self._stream = ""

    def write(self, lines: bytes, *, stream: str) -> str | None:
        """Append whole lines of a stream in one go; where they are lost, the reason. Raises OutputError."""
        trouble, self._stream = self._degradation, stream
        if trouble is not None and (trouble.is_waiting or (trouble.is_degraded and not lines)):
            return self._reason
        if trouble is None and self._file is not None and not self._file.is_open:
            return None
        try:
            self._opened().write(lines)
        except OutputError as error:
            return self._failed(error)
        if trouble is not None:
            trouble.succeeded(stream=stream)
        return None

    def restart(self) -> None:
        """Take back all that was written. Raises OutputError."""
        if self._file is not None:
            try:
                self._file.restart()
            except OutputError as error:
                self._failed(error)

    def close(self) -> None:
        """Close it; harmless when it is closed. Raises OutputError."""
        if self._file is not None:
            try:
                self._file.close()
            except OutputError as error:
                self._failed(error)

    def _failed(self, error: OutputError) -> str:
        if self._degradation is None:
            raise error
        self._degradation.failed(error, stream=self._stream)
        self._reason = error.reason
        return self._reason

    def _opened(self) -> LineFile:
        if self._file is None or not self._file.is_open:
            self._file = self._open(self._file)
        if self._header and not self._file.whole_bytes:
            self._file.write(self._header)
        return self._file

    def _open(self, before: LineFile | None) -> LineFile:
        whole_bytes = 0 if before is None else before.whole_bytes
        if self._path is None:
            return LineFile(Path("standard output"), sys.stdout.buffer, keep_open=True, whole_bytes=whole_bytes)
        if before is None:
            return self._outputs.open_lines(self._path)
        return self._outputs.open_again(self._path, whole_bytes=whole_bytes)


STANDARD_OUTPUT = "-"


class StreamFiles:
    """The open files of one sink: one for each stream where the path says `{stream}`, else one for all.

    A file is opened at the first frame that goes into it and begins with `header`. With `goes_on`, one that cannot be
    written stops nothing: its lines are lost and counted, with a warning, until it can be written again.
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
