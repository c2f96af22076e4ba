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
    """Runs an event loop from `start` until `stop`; what is to run in it is given to `call` from other threads."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.loop = asyncio.new_event_loop()

    def work(self) -> None:
        """Run the loop."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def call(self, coroutine: Coroutine[Any, Any, Result], *, timeout_seconds: float = _ANSWER_SECONDS) -> Result:
        """Run a coroutine in the loop and wait for what it returns or raises. Raises TimeoutError."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout_seconds)

    def post(self, callback: Callable[[], object]) -> None:
        """Have something called in the loop soon; nothing happens when the loop is closed."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback)

    def stop(self) -> bool:
        """End the loop and the thread, once no task is left that matters; False when it did not end in time."""
        self.post(self.loop.stop)
        return self.wait(_ANSWER_SECONDS)
