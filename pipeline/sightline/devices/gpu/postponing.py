"""What a thread may not do while it captures a graph, and nobody can keep it from: the collector of garbage runs in
whatever thread it likes, and frees memory there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sightline.errors import GpuError


class _Postponed(threading.local):
    """What a thread does later; None where it captures nothing, on whatever GPU."""

    works: deque[Callable[[], None]] | None = None


_HERE = _Postponed()


@contextmanager
def postponing() -> Iterator[None]:
    """A block in which this thread captures; at its end it does what was postponed."""
    _HERE.works = works = deque[Callable[[], None]]()
    try:
        yield
    finally:
        _HERE.works = None
        for work in works:
            with suppress(GpuError):  # the guard keeps the cause, and names it to whoever uses the GPU next
                work()


def when_allowed(work: Callable[[], None]) -> None:
    """Do it now, or behind the capture of this thread: what CUDA refuses to a thread that captures, and spoils it."""
    if _HERE.works is None:
        work()
    else:
        _HERE.works.append(work)
