"""The threads of a run."""

from __future__ import annotations

import threading


class Worker(threading.Thread):
    """A thread that can be waited for where Ctrl-C may interrupt the waiting.

    Python before 3.13 takes a running thread for dead when `join` is interrupted, so nobody joins one: `wait` waits
    for the end of `work` first.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=f"sightline-{name}", daemon=True)
        self._over = threading.Event()

    def work(self) -> None:
        """What the thread does; it must not raise."""
        raise NotImplementedError

    def run(self) -> None:
        """The thread's own face of `work`."""
        try:
            self.work()
        finally:
            self._over.set()

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.ident is not None and not self._over.is_set()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the end of a thread that was started; False when the time was not enough."""
        over = self._over.wait(timeout_seconds)
        if over:
            self.join()
        return over
