"""Output files, one per stream: paths, write errors and recovery."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sightline.errors import OutputError
from sightline.graph import CheckContext, Element, Message, MessageKind, Outputs, Problem, Sink, Site
from sightline.graph.fields import matching
from sightline.graph.outputs import STANDARD_OUTPUT_NAME, LineFile
from sightline.graph.wording import suggest
from sightline.media import Batch, Stream
from sightline_plugins.sinks.compression import Compression
from sightline_plugins.sinks.retention import Keep
from sightline_plugins.sinks.rotation import Period, Rotate, RotatedFiles

_RETRY_NS = 2_000_000_000
STREAM = "{stream}"
STANDARD_OUTPUT = "-"
_WORD = re.compile(r"\{\w*\}")


class Degradation:
    """State of a sink that cannot write: it loses its data, stops nothing else, and tries again. Used by one thread."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._retry_at_ns = 0
        self.is_degraded = False
        self.reason = ""
        """Why the last attempt failed, in a few words."""

    @property
    def is_waiting(self) -> bool:
        """Whether it failed within the last two seconds, so that it does not try yet."""
        return self.is_degraded and self._site.clock.monotonic_ns() < self._retry_at_ns

    def failed(self, error: OutputError, *, stream: str, at_once: bool = False) -> None:
        """Report a failure; the sink tries again in two seconds, or at once where room was made."""
        self._retry_at_ns = 0 if at_once else self._site.clock.monotonic_ns() + _RETRY_NS
        self.reason = error.reason
        if not self.is_degraded:
            self.is_degraded = True
            self._post(MessageKind.SINK_DEGRADED, f"{error}; it is tried again every 2 s", stream)

    def succeeded(self, *, stream: str) -> None:
        """Report that data was written completely."""
        if self.is_degraded:
            self.is_degraded = False
            self._post(MessageKind.SINK_RECOVERED, "writing goes on", stream)

    def _post(self, kind: MessageKind, text: str, stream: str) -> None:
        self._site.post(Message(kind, text, stream=stream, element=self._site.element_id))


def placeholder_problems(template: str, *, known: Sequence[str] = (STREAM,), key: str = "path") -> Iterator[Problem]:
    """Report unknown placeholders, which would end up in file names."""
    for word in dict.fromkeys(_WORD.findall(template)):
        if word not in known:
            near = suggest(word, known) or f"; there is {' and '.join(known)}"
            yield Problem(f"{word} stands for nothing here{near}", (key,))


class StreamFile:
    """A file of lines, or standard output (`path` None), opened at the first write; it begins with `header`.

    With a `degradation`, an error stops nothing: lines are lost, and two seconds later it tries again, after the last
    complete line, or at once if `make_room` made room. Without one, the error is raised, and nothing is written after
    it. Used by one thread.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        outputs: Outputs,
        header: bytes = b"",
        degradation: Degradation | None = None,
        make_room: Callable[[], bool] | None = None,
    ) -> None:
        self._path = path
        self._make_room = make_room
        self._outputs = outputs
        self._header = header
        self._degradation = degradation
        self._file: LineFile | None = None
        self._stream = ""

    @property
    def whole_bytes(self) -> int:
        """How much of the file is whole lines."""
        return 0 if self._file is None else self._file.whole_bytes

    def write(self, lines: bytes, *, stream: str) -> str | None:
        """Append complete lines of a stream in one call; returns the reason if they are lost. Raises OutputError."""
        degradation, self._stream = self._degradation, stream
        if degradation is not None and (degradation.is_waiting or (degradation.is_degraded and not lines)):
            return degradation.reason
        if degradation is None and self._file is not None and not self._file.is_open:
            return None
        try:
            self._opened().write(lines)
        except OutputError as error:
            return self._failed(error)
        if degradation is not None:
            degradation.succeeded(stream=stream)
        return None

    def restart(self) -> None:
        """Truncate the file. Raises OutputError."""
        if self._file is not None:
            try:
                self._file.take_back(0)
            except OutputError as error:
                self._failed(error)

    def close(self) -> None:
        """Close the file; harmless when called again. Raises OutputError."""
        if self._file is not None:
            try:
                self._file.close()
            except OutputError as error:
                self._failed(error)

    def _failed(self, error: OutputError) -> str:
        if self._degradation is None:
            raise error
        has_room = self._make_room is not None and self._make_room()
        self._degradation.failed(error, stream=self._stream, at_once=has_room)
        return error.reason

    def _opened(self) -> LineFile:
        file = self._file
        if file is None or not file.is_open:
            whole_bytes = 0 if file is None else file.whole_bytes
            if self._path is None:
                output = sys.stdout.buffer
                file = LineFile(STANDARD_OUTPUT_NAME, output, keep_open=True, whole_bytes=whole_bytes)
            elif file is None:
                file = self._outputs.open_lines(self._path)
            else:
                file = self._outputs.open_again(self._path, whole_bytes=whole_bytes)
            self._file = file
        if self._header and not file.whole_bytes:
            file.write(self._header)
        return file


class RotatingFile:
    """Files of lines, one after another, as `StreamFile` writes each of them. Used by one thread."""

    def __init__(self, files: RotatedFiles, *, header: bytes, degradation: Degradation | None) -> None:
        self._files = files
        self._header = header
        self._degradation = degradation
        self._current: tuple[Path, StreamFile, Period] | None = None

    def write(self, lines: bytes, *, stream: str) -> str | None:
        """Append complete lines of a stream, to the next file if this one is full or due; as `StreamFile.write`."""
        if self._is_due(more_bytes=len(lines)):
            self.close()
        if self._current is None:
            path = self._files.begin(stream)
            file = StreamFile(
                path,
                outputs=self._files.outputs,
                header=self._header,
                degradation=self._degradation,
                make_room=self._files.make_room,
            )
            self._current = (path, file, self._files.period())
        path, file, _ = self._current
        lost_because = file.write(lines, stream=stream)
        self._files.grown(path, size_bytes=file.whole_bytes)
        return lost_because

    def restart(self) -> None:
        """Truncate the file. Raises OutputError."""
        if self._current is not None:
            self._current[1].restart()

    def close_if_due(self) -> None:
        """Finish the file if its period is over, though there is nothing to write. Raises OutputError."""
        if self._is_due(more_bytes=0):
            self.close()

    def close(self) -> None:
        """Finish the file; harmless when called again. Raises OutputError."""
        if self._current is not None:
            (path, file, _), self._current = self._current, None
            try:
                file.close()
            finally:
                self._files.finished(path)

    def _is_due(self, *, more_bytes: int) -> bool:
        if self._current is None or (self._degradation is not None and self._degradation.is_degraded):
            return False
        _, file, period = self._current
        size, whole_bytes = self._files.rotate.size, file.whole_bytes
        is_full = size is not None and whole_bytes > len(self._header) and whole_bytes + more_bytes > size
        return is_full or period.is_over


class LineSink(Sink):
    """A sink that writes lines: one file for each stream where the path has `{stream}`, else one for all.

    A file is opened at the first frame that goes into it and begins with `header`. With `on_error: skip`, a file that
    cannot be written stops nothing: its lines are lost and counted, with a warning, until it can be written again. With
    `rotate`, a file is followed by others, and finished ones are compressed with `compress` and removed with `keep`.
    """

    def __init__(
        self,
        element: Element,
        path: str,
        *,
        site: Site,
        header: bytes = b"",
        rotate: Rotate | None = None,
        compress: Compression | None = None,
        keep: Keep | None = None,
    ) -> None:
        self._site = site
        self._rotated: RotatedFiles | None = None
        if rotate is not None:
            degradation = Degradation(site)
            self._rotated = RotatedFiles(
                path, rotate=rotate, compress=compress, keep=keep, site=site, degradation=degradation
            )
        self._template = path
        self._continues = element.on_error == "skip"
        self._header = header
        self._files: dict[Stream | None, StreamFile | RotatingFile] = {}
        self._lost: dict[str, Counter[str]] = {}

    def end_stream(self, stream: Stream) -> None:
        """Close the stream's own file. Raises OutputError."""
        file = self._files.pop(stream, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files, each of them even if another fails. Raises OutputError."""
        files, self._files = self._files, {}
        with ExitStack() as stack:
            if self._rotated is not None:
                stack.callback(self._rotated.close)
            for file in files.values():
                stack.callback(file.close)

    def totals(self) -> Mapping[str, Any]:
        """The `lost_lines` of each stream by reason, where there are any."""
        return {stream: {"lost_lines": dict(lost)} for stream, lost in self._lost.items()}

    def write(self, batch: Batch, lines: Sequence[bytes]) -> None:
        """Write the lines of each frame of a batch, with one call for each file. Raises OutputError."""
        parts: dict[StreamFile | RotatingFile, list[tuple[str, bytes]]] = {}
        for frame, own in zip(batch.frames, lines, strict=True):
            parts.setdefault(self._file(frame.stream), []).append((frame.stream.name, own))
        for file, rows in parts.items():
            lost_because = file.write(b"".join(own for _, own in rows), stream=rows[0][0])
            if lost_because is not None:
                for stream, own in rows:
                    if count := own.count(b"\n"):
                        self._lost.setdefault(stream, Counter())[lost_because] += count
        if self._rotated is not None:
            for file in self._files.values():
                if isinstance(file, RotatingFile):
                    file.close_if_due()
            self._rotated.work(written_bytes=sum(map(len, lines)))

    def restart(self, stream: Stream) -> None:
        """Truncate the stream's file. Raises OutputError."""
        self._file(stream).restart()

    def _file(self, stream: Stream) -> StreamFile | RotatingFile:
        key = stream if STREAM in self._template else None
        file = self._files.get(key)
        if file is None:
            degradation = Degradation(self._site) if self._continues else None
            if self._rotated is not None:
                file = RotatingFile(self._rotated, header=self._header, degradation=degradation)
                self._files[key] = file
                return file
            outputs, path = self._site.outputs, None
            if self._template != STANDARD_OUTPUT:
                path = outputs.claim(outputs.path(self._template, stream=stream.name))
            file = StreamFile(path, outputs=outputs, header=self._header, degradation=degradation)
            self._files[key] = file
        return file


def path_problems(
    element: Element,
    template: str,
    *,
    context: CheckContext,
    shareable: bool,
    known: Sequence[str] = (STREAM,),
    key: str = "path",
) -> Iterator[Problem]:
    """Report a path, the option `key` of an element, that cannot be written, or that mixes streams up.

    `shareable` says that several streams may share a file, `known` lists the placeholders. That files stay in the
    output folder, and that no two steps write the same file, is checked for all elements alike.
    """
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
            text = f"streams {owners[path]!r} and {name!r} would write the same file {path}: rename one"
            yield Problem(text, (key,))
        elif obstacle := context.outputs.obstacle(path):
            yield Problem(obstacle, (key,))
        owners[path] = name
