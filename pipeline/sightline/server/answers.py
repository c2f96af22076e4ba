"""Answers that take time to make: made one at a time, and kept for a moment for all who ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property

from anyio import CapacityLimiter, to_thread

_FRESH_SECONDS = 0.25
_THREADS = 8


class Kept:
    """An answer that is made again at most four times a second, however many ask for it. Used in one event loop.

    However fast clients ask, the pipeline loses the time of four answers a second.
    """

    def __init__(self, make: Callable[[], Awaitable[bytes]]) -> None:
        self._make = make
        self._lock = asyncio.Lock()
        self._made: bytes | None = None
        self._until = 0.0

    async def get(self) -> bytes:
        """The answer as it is now, or was a moment ago."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            if self._made is None or loop.time() >= self._until:
                self._made = await self._make()
                self._until = loop.time() + _FRESH_SECONDS
            return self._made


class Threads:
    """A few threads for answers that wait, so that they do not take those of others. Used in one event loop."""

    @cached_property
    def _limiter(self) -> CapacityLimiter:
        return CapacityLimiter(_THREADS)

    async def run(self, make: Callable[[], bytes | None]) -> bytes | None:
        """Return what `make` returns, from a thread."""
        return await to_thread.run_sync(make, limiter=self._limiter)
