"""Ctrl-C and SIGTERM: the first asks to finish, the second stops at once, the third is the system's."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """What came in; `count` signals so far."""

    def __init__(self, *, stop: Callable[[], None], abort: Callable[[], None], say: Callable[[str], None]) -> None:
        self.count = 0
        self._stop = stop
        self._abort = abort
        self._say = say

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler; runs in the main thread, between two of its instructions."""
        del frame
        self.count += 1
        if self.count == 1:
            self._say("stopping: finishing what is under way and closing the outputs (again to stop at once)")
            self._stop()
            return
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self._say(f"stopping at once on signal {signal.Signals(number).name}")
        self._abort()


@contextmanager
def interrupts(
    *, stop: Callable[[], None], abort: Callable[[], None], say: Callable[[str], None]
) -> Iterator[Interrupts]:
    """Handle SIGINT and SIGTERM inside the block; only from the main thread."""
    caught = Interrupts(stop=stop, abort=abort, say=say)
    before = {number: signal.signal(number, caught.handle) for number in _SIGNALS}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
