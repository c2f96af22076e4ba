"""A viewer in an event loop: waits for images without holding anything up."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from sightline_plugins.publish.backlog import Backlog
from sightline_plugins.publish.broadcast import Broadcast
from sightline_plugins.publish.image import Format, Image

_FIRST_IMAGE_SECONDS = 5.0


class Viewer:
    """Watches one broadcast from `async with` on; made and used inside an event loop. See `Broadcast.join`."""

    def __init__(self, broadcast: Broadcast, *, counts: bool = True) -> None:
        self._counts = counts
        self.backlog = Backlog(self._wake)
        self._broadcast = broadcast
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()

    async def __aenter__(self) -> Viewer:
        if not self._broadcast.join(self.backlog, counts=self._counts):
            raise TooManyViewers
        return self

    async def __aexit__(self, *error: object) -> None:
        self._broadcast.leave(self.backlog, counts=self._counts)

    async def next(self) -> Image | None:
        """The next image, once it is there; None when the stream has ended."""
        while True:
            self._ready.clear()
            image = self.backlog.take()
            if image is not None:
                return image
            if self.backlog.is_over:
                return None
            await self._ready.wait()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._ready.set)


class TooManyViewers(Exception):
    """The broadcast is over, or has as many viewers as it may have."""


async def format_of(broadcast: Broadcast) -> Format | None:
    """What the images of a broadcast have in common; None when none comes soon."""
    with suppress(TimeoutError, TooManyViewers):
        async with asyncio.timeout(_FIRST_IMAGE_SECONDS), Viewer(broadcast, counts=False) as viewer:
            image = await viewer.next()
            return None if image is None else image.format
    return None
