"""Give memory that is free back to the system.

Every session with a camera allocates and frees blocks of all sizes, in threads that come and go. glibc keeps what lies
between blocks that are still used, so the resident set of a process that reconnects for days would grow although
nothing leaks (`benchmarks/memory.py`).
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

EVERY_SECONDS = 10.0
"""How often a run gives memory back; it takes 0.3 ms with four streams and a detector, on a Xeon."""


def give_back() -> None:
    """Let the C library return free pages of all heaps; nothing where it cannot (other systems than Linux with glibc).

    Threads that allocate meanwhile wait for the part of the heap that they share.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
