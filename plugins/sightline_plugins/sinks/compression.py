"""Compression of finished files, in steps that are short enough for a thread that frames wait for."""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from sightline.errors import MissingExtra, OutputError
from sightline.graph import Outputs
from sightline.graph.outputs import LineFile, output_error, take_over
from sightline.graph.ownership import is_foreign

Compression = Literal["gzip", "zstd"]
ENDINGS: dict[Compression, str] = {"gzip": ".gz", "zstd": ".zst"}
"""What the name of a compressed file ends in."""
PART = ".part"
_STEP_BYTES = 1 << 16
_SYNCHRONIZED_BYTES = 1 << 20
"""What is waited for to be on the disk at once; all of a file would be a long wait."""
_GZIP_LEVEL = 6
_GZIP_BITS = 16 + zlib.MAX_WBITS


class Encoder(Protocol):
    """Compresses a file, piece by piece."""

    def compress(self, data: bytes, /) -> bytes:
        """Return what can be written after this piece, perhaps nothing."""
        ...

    def flush(self) -> bytes:
        """Return the rest, with the end of the file."""
        ...


def zstd_module() -> Any:
    """Return the module for Zstandard: of Python itself from 3.14 on, before that of a package. Raises MissingExtra."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as error:
        raise MissingExtra("backports.zstd", extra="zstd", purpose="zstd") from error
    return zstd


def make_encoder(compression: Compression) -> Encoder:
    """Make the encoder of one file. Raises MissingExtra."""
    if compression == "gzip":
        return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_BITS)
    encoder: Encoder = zstd_module().ZstdCompressor()
    return encoder


@dataclass(slots=True)
class _Job:
    """A file that is being compressed; `rest` is what follows the last whole line so far."""

    path: Path
    source: IO[bytes]
    part: LineFile
    encoder: Encoder
    modified_ns: int
    rest: bytes = b""
    synchronized_bytes: int = 0


class FileCompressor:
    """Compresses finished files of lines, one after another; each is replaced when its compressed one is complete.

    A torn last line, as a killed run leaves it, is left out. A kill during the work leaves the file as it was and one
    with `.part` behind its name, which the next attempt removes. Used by one thread.
    """

    def __init__(self, compression: Compression, *, outputs: Outputs, done: Callable[[Path, Path, int], None]) -> None:
        """`done` is called with the file that is no more, the compressed one, and its size in bytes."""
        self.ending = ENDINGS[compression]
        self._compression = compression
        self._outputs = outputs
        self._done = done
        self._waiting: deque[Path] = deque()
        self._job: _Job | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return self._job is None and not self._waiting

    @property
    def waiting_bytes(self) -> int:
        """The size of the files that are still to be compressed."""
        paths = [*self._waiting, *([] if self._job is None else [self._job.path])]
        return sum(path.stat().st_size for path in paths if path.exists())

    def add(self, path: Path) -> None:
        """Compress a file when its turn comes."""
        self._waiting.append(path)

    def work(self, *, at_least_bytes: int = 0) -> None:
        """Do a step, of the size of what was written meanwhile if that is more. Raises OutputError: the file is kept,
        and its turn comes again.
        """
        if self._job is None and self._waiting:
            self._begin(self._waiting.popleft())
        if (job := self._job) is None:
            return
        try:
            self._continue(job, max(_STEP_BYTES, at_least_bytes))
        except OutputError:
            self._give_up(job)
            raise

    def finish(self, *, limit_seconds: float) -> None:
        """Do what is left, as far as the time suffices; the rest stays uncompressed. Raises OutputError."""
        until = time.monotonic() + limit_seconds
        while not self.is_idle and time.monotonic() < until:
            self.work()
        if self._job is not None:
            self._give_up(self._job)
        self._waiting.clear()

    def _begin(self, path: Path) -> None:
        source = take_over(path)
        if source is None:
            return
        final = _with_ending(path, self.ending)
        if final.exists():
            source.close()
            if not is_foreign(final):  # a kill came between the last two steps
                self._outputs.remove(path)
            return
        try:
            part_path = _with_ending(final, PART)
            if part_path.exists():  # a kill came before: nobody else has the lock
                self._outputs.remove(part_path)
            part = self._outputs.open_lines(part_path)
        except OutputError:
            source.close()
            self._waiting.append(path)
            raise
        self._job = _Job(path, source, part, make_encoder(self._compression), os.fstat(source.fileno()).st_mtime_ns)

    def _continue(self, job: _Job, size_bytes: int) -> None:
        try:
            data = job.source.read(size_bytes)
        except OSError as error:
            raise output_error(job.path, error, doing="read") from error
        if data:
            lines, newline, rest = (job.rest + data).rpartition(b"\n")
            job.rest = rest
            job.part.write(job.encoder.compress(lines + newline))
            if job.part.whole_bytes - job.synchronized_bytes >= _SYNCHRONIZED_BYTES:
                job.part.synchronize()
                job.synchronized_bytes = job.part.whole_bytes
            return
        job.part.write(job.encoder.flush())
        job.part.synchronize()
        job.part.close()
        final = _with_ending(job.path, self.ending)
        self._outputs.rename(job.part.path, to=final)
        os.utime(final, ns=(job.modified_ns, job.modified_ns))
        if job.path.exists():
            self._outputs.remove(job.path)
        job.source.close()
        self._job = None
        self._done(job.path, final, job.part.whole_bytes)

    def _give_up(self, job: _Job) -> None:
        self._job = None
        self._waiting.append(job.path)
        job.source.close()
        job.part.close()
        if job.part.path.exists():
            self._outputs.remove(job.part.path)


def _with_ending(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
