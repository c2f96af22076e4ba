"""Which existing files may be written anew without asking: empty ones, and those that Sightline wrote.

A file that Sightline opens gets an extended attribute, where the file system has them. Without it (another system, a
copy), a file is recognised by its beginning if its format is one of ours. Everything else is somebody's file.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

ATTRIBUTE: Final = "user.sightline"
STATE_BEGINNING: Final = b'{"sightline_state":'
"""How state files begin."""
RECORDING_BEGINNING: Final = b"SLRUN\x00"
"""How recordings of runs begin."""
HARVEST_BEGINNING: Final = b'{"sightline_harvest":'
"""How the lists of harvested frames begin."""
_BEGINNINGS = (
    b'{"stream":"',
    b"stream,frame,pts_seconds,label,class_id,confidence,",
    b'{\n  "pipeline": "',
    STATE_BEGINNING,
    RECORDING_BEGINNING,
    HARVEST_BEGINNING,
)
"""How JSON lines, CSV tables and run reports begin."""
SQLITE_APPLICATION_ID: Final = 0x53474C54
"""The `application_id` of SQLite databases that hold results ("SGLT"); other databases have another."""
_SQLITE_BEGINNING = b"SQLite format 3\x00"
_SQLITE_APPLICATION_ID_AT = 68
_BEGINNING_BYTES = 100
_unmarked: set[tuple[int, int]] = set()
"""Device and inode of the files of this process on file systems without attributes."""


def mark(file: int | Path) -> None:
    """Mark a file, open or by its path, as written by Sightline. What is no plain file, such as a pipe or a link, needs
    no mark. Raises OSError where there is none of that path.
    """
    about = file.lstat() if isinstance(file, Path) else os.fstat(file)
    if not stat.S_ISREG(about.st_mode):
        return
    try:
        if isinstance(file, Path):
            os.setxattr(file, ATTRIBUTE, b"1", follow_symlinks=False)
        else:
            os.setxattr(file, ATTRIBUTE, b"1")
    except (OSError, AttributeError):  # macOS and Windows have no such function in Python
        _unmarked.add((about.st_dev, about.st_ino))


def is_foreign(path: Path) -> bool:
    """Whether a plain file stands there that is not empty and that Sightline did not write, as far as can be told."""
    try:
        about = path.lstat()
    except OSError:
        return False
    if not stat.S_ISREG(about.st_mode) or not about.st_size or (about.st_dev, about.st_ino) in _unmarked:
        return False
    with contextlib.suppress(OSError, AttributeError):
        return not os.getxattr(path, ATTRIBUTE, follow_symlinks=False)
    try:
        with path.open("rb") as file:
            return not _is_ours(file.read(_BEGINNING_BYTES))
    except OSError:
        return True


def _is_ours(beginning: bytes) -> bool:
    if beginning.startswith(_SQLITE_BEGINNING):
        at = _SQLITE_APPLICATION_ID_AT
        return beginning[at : at + 4] == SQLITE_APPLICATION_ID.to_bytes(4, "big")
    return beginning.startswith(_BEGINNINGS)
