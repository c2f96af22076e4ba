"""Disks that are full: one that is made up, and what fills a real one."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from pathlib import Path
from typing import IO, Any

from sightline.graph import Outputs
from sightline.graph.outputs import LineFile


class SmallDisk(Outputs):
    """An output folder on a disk of so many bytes; of what has no room, it takes what has."""

    def __init__(self, root: Path, *, capacity: int) -> None:
        super().__init__(root)
        self.capacity = capacity

    @property
    def free(self) -> int:
        return self.capacity - sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())

    def open_binary(self, path: Path) -> IO[bytes]:
        self.prepare(path)
        return _File(self, path, "wb")

    def open_again(self, path: Path, *, whole_bytes: int) -> LineFile:
        cut = super().open_again(path, whole_bytes=whole_bytes)
        cut.close()
        return LineFile(path, _File(self, path, "ab"), whole_bytes=cut.whole_bytes)


class _File(io.FileIO):
    def __init__(self, disk: SmallDisk, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self._disk = disk

    def write(self, data: Any, /) -> int:
        free = max(self._disk.free, 0)
        if len(data) and not free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data[:free])


def fill(path: Path) -> None:
    """Take all the room there is."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
