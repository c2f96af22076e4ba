"""An event loop in a thread of its own, for servers that live beside a pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from sightline.runtime.worker import Worker

Result = TypeVar("Result")

_ANSWER_SECONDS = 30.0


class LoopThread(Worker):
    """Runs an event loop from `start` until `stop`; what is to run in it is given to `call` from other threads.

    Tasks that are left at the end are cancelled, and end before the loop closes.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

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
        """Have something called in the loop soon; nothing happens when the loop is closed."""
        with suppress(RuntimeError):
            self._runner.get_loop().call_soon_threadsafe(callback)

    def stop(self) -> bool:
        """End the loop and the thread; False when it did not end in time."""
        self.post(self._end)
        return self.wait(_ANSWER_SECONDS)

    def _end(self) -> None:
        self._runner.get_loop().stop()
