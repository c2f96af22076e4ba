"""Feeds: where finished batches leave a pipeline for Python code, in a thread or in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

from sightline.errors import EndOfLink
from sightline.media import Batch
from sightline.runtime.link import Link
from sightline.runtime.parcel import Item, Parcel

_AHEAD = 2


class Feed:
    """Batches for a thread; `link` is what the pipeline sends to."""

    def __init__(self) -> None:
        self.link: Link[Item] = Link(_AHEAD)

    def batches(self) -> Iterator[Batch]:
        """Every batch, waiting for it, until the pipeline has ended."""
        while True:
            try:
                item = self.link.receive()
            except EndOfLink:
                return
            if isinstance(item, Parcel):
                yield item.batch()


class LoopFeed:
    """Batches for an event loop, which goes on while none is there; made inside that loop. No thread waits for it."""

    def __init__(self) -> None:
        self.link: Link[Item] = Link(_AHEAD, on_ready=self._wake)
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()

    async def batches(self) -> AsyncIterator[Batch]:
        """Every batch until the pipeline has ended."""
        while True:
            while not (self.link.depth or self.link.ended):
                self._arrived.clear()
                await self._arrived.wait()
            try:
                item = self.link.receive()
            except EndOfLink:
                return
            if isinstance(item, Parcel):
                yield item.batch()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._arrived.set)
