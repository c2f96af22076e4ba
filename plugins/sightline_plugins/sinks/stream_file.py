"""One file of lines, and what becomes of it when it cannot be written."""

from __future__ import annotations

import sys
from pathlib import Path

from sightline.errors import OutputError
from sightline.graph import Outputs
from sightline.graph.outputs import LineFile
from sightline_plugins.sinks.degradation import Degradation


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
