"""A context of pycuda, made a thread's own for a while.

pycuda keeps a stack of contexts for each thread, and aborts the process when a thread goes with one on it. A thread
that still runs when the interpreter ends goes as soon as it comes back from a call; so `end` waits for all to leave.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

from sightline.devices.gpu.driver import DriverError, Harm


class _Innermost(threading.local):
    """The context that this thread made its own last; None outside of all blocks."""

    context: Any = None


_HERE = _Innermost()
_INSIDE = set[int]()
"""The threads that are in a block."""
_ENDING = threading.Event()
_TIMEOUT_SECONDS = 5.0
_GLANCE_SECONDS = 0.002


class Current:
    """A block in which a context is this thread's; it may stand within others, of other GPUs, too.

    Raises DriverError where the context is gone: another library reset the GPU, or the process is a fork.
    """

    __slots__ = ("_before", "_context", "_pycuda")

    def __init__(self, context: Any, pycuda: Any) -> None:
        self._context = context
        self._pycuda = pycuda
        self._before: Any = None

    def __enter__(self) -> None:
        before = _HERE.context
        if before is None:
            _come_in()
        if before is not self._context:
            try:
                self._context.push()
            except self._pycuda.Error as error:
                if before is None:
                    _INSIDE.discard(threading.get_ident())
                raise DriverError(str(error), harm=Harm.DEVICE) from error
        self._before, _HERE.context = before, self._context

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before = _HERE.context = self._before
        try:
            if before is not self._context:
                self._pycuda.Context.pop()
        except self._pycuda.Error as failed:
            raise DriverError(str(failed), harm=Harm.DEVICE) from failed
        finally:
            if before is None:
                _INSIDE.discard(threading.get_ident())


def end(*, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
    """The interpreter ends: let no thread in any more, and wait until all have left."""
    _ENDING.set()
    deadline = time.monotonic() + timeout_seconds
    while _INSIDE - {threading.get_ident()} and time.monotonic() < deadline:
        time.sleep(_GLANCE_SECONDS)


def _come_in() -> None:
    _INSIDE.add(threading.get_ident())  # before the question: `end` answers first, and looks then
    if _ENDING.is_set():
        _INSIDE.discard(threading.get_ident())
        raise DriverError("the program ends", harm=Harm.DEVICE)
