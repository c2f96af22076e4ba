"""The process: what it takes of the machine, as Linux tells."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SELF = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Process:
    """Memory, threads and files of this process; None where the machine does not tell."""

    resident_bytes: int | None
    threads: int
    open_files: int | None
    cpu_seconds: float

    @classmethod
    def now(cls) -> Process:
        """As it is now."""
        return cls(_resident_bytes(), _threads(), _open_files(), time.process_time())


def _resident_bytes() -> int | None:
    try:
        return int((_SELF / "statm").read_text().split()[1]) * _PAGE
    except OSError:
        return None


def _threads() -> int:
    """All threads of the process; those of Python where the machine does not tell."""
    try:
        return len(os.listdir(_SELF / "task"))  # noqa: PTH208  counting is all that is wanted
    except OSError:
        return threading.active_count()


def _open_files() -> int | None:
    try:
        return len(os.listdir(_SELF / "fd"))  # noqa: PTH208  counting is all that is wanted
    except OSError:
        return None
