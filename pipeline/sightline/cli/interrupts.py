"""Ctrl-C and SIGTERM: the first asks to finish, the second stops at once, the third is the system's."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.pipeline import Pipeline

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """What came in; `count` signals so far. Who starts the pipeline looks at it afterwards, because a signal that
    comes while models are loaded has nothing to stop yet.

    A handler runs between two instructions of the main thread, perhaps while that holds a lock. So it only notes the
    signal (SimpleQueue is made for that), and a thread of its own acts on it.
    """

    def __init__(self, pipeline: Pipeline, *, say: Callable[[str], None]) -> None:
        self.count = 0
        self._pipeline = pipeline
        self._say = say
        self._noted: SimpleQueue[int | None] = SimpleQueue()
        self._thread = Thread(target=self._act, name="interrupts", daemon=True)

    def start(self) -> None:
        """Start to act on signals."""
        self._thread.start()

    def stop(self) -> None:
        """Act on what was noted, and on nothing more."""
        self._noted.put(None)
        self._thread.join()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        del number, frame
        self.count += 1
        self._noted.put(self.count)
        if self.count > 1:
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            if not self._pipeline.status():
                raise KeyboardInterrupt

    def _act(self) -> None:
        while (count := self._noted.get()) is not None:
            if count == 1:
                self._say("stopping: finishing what is under way and closing the outputs (again to stop at once)")
                self._pipeline.stop()
            else:
                self._say("stopping at once")
                self._pipeline.abort()


@contextmanager
def interrupts(pipeline: Pipeline, *, say: Callable[[str], None]) -> Iterator[Interrupts]:
    """Handle SIGINT and SIGTERM inside the block; only from the main thread."""
    caught = Interrupts(pipeline, say=say)
    caught.start()
    before = {number: signal.signal(number, caught.handle) for number in _SIGNALS}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        caught.stop()
