"""Files that a worker lacks come from the head, by their content (SHA-256), part by part over the controller's port.

Each part is a request of its own that says where it begins, so a transfer goes on where it broke off, also with the
next controller. A file appears whole: it is put together beside its place, checked, and renamed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sightline.cluster.wire import Connection
from sightline.errors import ConfigurationError, SightlineError
from sightline.graph.outputs import output_error

PART_BYTES = 1 << 20
_ANSWER_SECONDS = 30.0
_GIVE_UP_SECONDS = 60.0
"""For so long, a transfer waits for a head that gives nothing."""
_AGAIN_SECONDS = 0.2


def part_of(path: Path, sha256: str, offset: int) -> Mapping[str, Any]:
    """The answer of the head: a part of a file from `offset` on, and the file's size. Raises ConfigurationError when
    the file is not there any more, or has another content by now.
    """
    try:
        if digest_of(path) != sha256:
            raise ConfigurationError(f"{path} was changed at the head since: send SIGHUP to `cluster run`")
        with path.open("rb") as file:
            file.seek(max(offset, 0))
            return {"size": path.stat().st_size, "data": file.read(PART_BYTES)}
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read at the head: {error.strerror}") from error


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, which is read once as long as it stays the same. Raises OSError."""
    found = path.stat()
    return _digest(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


@lru_cache(maxsize=256)
def _digest(path: Path, stamp: tuple[int, ...]) -> str:
    del stamp
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class HeadFiles:
    """Brings files from the head of a cluster. `is_ending` ends what is under way."""

    address: tuple[str, int]
    token: str
    is_ending: Callable[[], bool] = lambda: False

    def bring(self, sha256: str, target: Path) -> None:
        """Let a file with this content be at `target`: of processes that want it at once, one brings it. Raises
        ConfigurationError, and OutputError where it cannot be written.
        """
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked(target.with_name(f".{target.name}.lock")):
                if not (target.is_file() and digest_of(target) == sha256):
                    self._transfer(sha256, target)
        except OSError as error:
            raise output_error(target, error, doing="write") from error

    def _transfer(self, sha256: str, target: Path) -> None:
        part = target.with_name(f".{target.name}.part")
        until = time.monotonic() + _GIVE_UP_SECONDS
        problem = ""
        with part.open("ab") as file:
            while True:
                self._check_end(target)
                try:
                    for size, data in self._parts(sha256, file.tell(), name=target.name):
                        _check_room(target, size - file.tell())
                        file.write(data)
                        until = time.monotonic() + _GIVE_UP_SECONDS
                        self._check_end(target)
                    break
                except _Lost as error:
                    problem = str(error)
                if time.monotonic() > until:
                    file.flush()
                    raise ConfigurationError(f"{target.name} does not come from the head: {problem}")
                time.sleep(_AGAIN_SECONDS)
            file.flush()
            os.fsync(file.fileno())
        if digest_of(part) != sha256:
            part.unlink()
            raise ConfigurationError(f"{target.name} came from the head with another content: it was removed")
        part.replace(target)

    def _parts(self, sha256: str, offset: int, *, name: str) -> Iterator[tuple[int, bytes]]:
        """The size of a file, and its parts from an offset on. Raises _Lost when the connection is, and
        ConfigurationError when the head has no such file.
        """
        try:
            connection = Connection.to_controller(self.address, token=self.token, timeout_seconds=_ANSWER_SECONDS)
        except (OSError, SightlineError) as error:
            raise _Lost(str(error) or type(error).__name__) from error
        try:
            size = offset + 1
            while offset < size:
                try:
                    connection.send({"ask": "part", "sha256": sha256, "offset": offset})
                    answer = connection.receive(timeout_seconds=_ANSWER_SECONDS)
                except OSError as error:
                    raise _Lost(str(error) or type(error).__name__) from error
                if "error" in answer:
                    raise ConfigurationError(f"{name} does not come from the head: {answer['error']}")
                size, data = int(answer["size"]), b64decode(answer["data"])
                if not data and offset < size:
                    raise _Lost("an empty part came")
                offset += len(data)
                yield size, data
        finally:
            connection.close()

    def _check_end(self, target: Path) -> None:
        if self.is_ending():
            raise ConfigurationError(f"{target.name} was not brought from the head: the worker ends")

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        """Hold the lock of a file. Raises OSError, and ConfigurationError when this process is to end meanwhile."""
        with path.open("a") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self._check_end(path)
                    time.sleep(_AGAIN_SECONDS)
            yield


class _Lost(Exception):
    """The connection to the head is."""


def _check_room(target: Path, needed: int) -> None:
    """Raises ConfigurationError where the disk has no room for the rest of a file."""
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise ConfigurationError(
            f"{target.name} does not fit into {target.parent}: {needed:,} bytes are missing of it, {free:,} are free"
        )
