"""Ctrl-C and SIGTERM: the first finishes the run, the second stops at once, the third kills. SIGHUP reloads."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING

from sightline.cli.entry import EARLY, has_terminal

if TYPE_CHECKING:
    from sightline.pipeline import Pipeline

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_HANGUP = 0


class Interrupts:
    """The signals so far: `count` of them. Check it after the pipeline has started, because a signal that arrives while
    models are loaded has nothing to stop yet.

    A handler runs between two instructions of the main thread, perhaps while that holds a lock. So it only notes the
    signal (SimpleQueue is made for that), and a thread of its own acts on it.
    """

    def __init__(
        self, pipeline: Pipeline, *, say: Callable[[str], None], reload: Callable[[], object] | None = None
    ) -> None:
        self.count = 0
        self.is_termination = False
        """Whether there was one signal, a SIGTERM: whoever runs the program asked for its regular end."""
        self._pipeline = pipeline
        self._say = say
        self._reload = reload
        self._has_terminal = has_terminal()
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
        del frame
        self.count += 1
        self.is_termination = self.count == 1 and number == signal.SIGTERM
        self._noted.put(self.count)
        if self.count > 1:
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            if not self._pipeline.has_begun:
                raise KeyboardInterrupt

    def handle_hangup(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGHUP."""
        del number, frame
        self._noted.put(_HANGUP)

    def _act(self) -> None:
        while (count := self._noted.get()) is not None:
            if count == _HANGUP and self._has_terminal and not has_terminal():
                self.count += 1
                self._pipeline.stop()
            elif count == _HANGUP and self._reload is not None:
                self._reload()
            elif count == 1:
                self._say("stopping: finishing what is under way and closing the outputs (again to stop at once)")
                self._pipeline.stop()
            else:
                self._say("stopping at once")
                self._pipeline.abort()


@contextmanager
def interrupts(
    pipeline: Pipeline, *, say: Callable[[str], None], reload: Callable[[], object] | None = None
) -> Iterator[Interrupts]:
    """Handle SIGINT and SIGTERM inside the block, and SIGHUP where it is to `reload` (which must be quick); only from
    the main thread. A hangup of the terminal, which arrives in the same way, finishes as Ctrl-C does; under `nohup`
    SIGHUP stays ignored.
    """
    caught = Interrupts(pipeline, say=say, reload=reload)
    caught.start()
    before = {number: signal.signal(number, caught.handle) for number in _SIGNALS}
    if reload is not None and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, caught.handle_hangup)
    if EARLY.pass_on() and reload is not None:
        caught.handle_hangup(signal.SIGHUP, None)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        caught.stop()
