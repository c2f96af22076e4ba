"""The threads that the runtime starts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from sightline.runtime.call_scope import entered_scopes


class Worker(threading.Thread):
    """A thread that can be waited for where Ctrl-C may interrupt the waiting.

    Python before 3.13 takes a running thread for dead when `join` is interrupted. So `wait` first waits for the end of
    `work`, and joins then.

    It belongs to the pipeline whose code has made it (see `CallScope`).
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=f"sightline-{name}", daemon=True)
        self._over = threading.Event()
        self._scopes = entered_scopes()[-1:]

    def work(self) -> None:
        """What the thread does; it must not raise."""
        raise NotImplementedError

    def run(self) -> None:
        """Call `work` in the thread."""
        with ExitStack() as inside:
            inside.callback(self._over.set)
            for scope in self._scopes:
                inside.enter_context(scope.entered())
            self.work()

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.ident is not None and not self._over.is_set()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the end of a thread that was started; return whether it ended in time."""
        over = self._over.wait(timeout_seconds)
        if over:
            self.join()
        return over


Result = TypeVar("Result")

_ANSWER_SECONDS = 30.0


class LoopThread(Worker):
    """Runs an event loop from `start` until `stop`; what is to run in it is given to `call` from other threads.

    Tasks that are left at the end are cancelled, and end before the loop closes.
    """

    def __init__(
        self, name: str, *, loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    ) -> None:
        super().__init__(name)
        self._runner = asyncio.Runner(loop_factory=loop_factory)

    def start(self) -> None:
        """Make the loop and run it."""
        self._runner.get_loop()
        super().start()

    def work(self) -> None:
        """Run the loop."""
        with self._runner as runner:
            runner.get_loop().run_forever()

    def call(self, coroutine: Coroutine[Any, Any, Result], *, timeout_seconds: float = _ANSWER_SECONDS) -> Result:
        """Run a coroutine in the loop and wait for what it returns or raises. Raises TimeoutError."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._runner.get_loop()).result(timeout_seconds)

    def post(self, callback: Callable[[], object]) -> None:
        """Call something in the loop soon; do nothing when the loop is closed."""
        with suppress(RuntimeError):
            self._runner.get_loop().call_soon_threadsafe(callback)

    def stop(self) -> bool:
        """End the loop and the thread; return whether they ended in time."""
        self.post(self._end)
        return self.wait(_ANSWER_SECONDS)

    def _end(self) -> None:
        self._runner.get_loop().stop()
