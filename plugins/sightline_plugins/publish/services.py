"""What goes on beside the pipeline for one `publish` step: servers, and pushes of every stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from sightline.graph import Site
from sightline.runtime.threads import LoopThread
from sightline_plugins.publish.broadcast import Broadcast
from sightline_plugins.publish.push import Push

_TIMEOUT_SECONDS = 1.0


class Server(Protocol):
    """A server of published streams, in an event loop."""

    async def start(self) -> None:
        """Listen. Raises OutputError."""
        ...

    async def stop(self) -> None:
        """Send everybody away and listen no more."""
        ...


class Services:
    """Runs servers and pushes in one thread, from `start` to `close`."""

    def __init__(self, servers: Sequence[Server], *, site: Site) -> None:
        self._servers = servers
        self._site = site
        self._thread = LoopThread(site.element_id)
        self._pushes: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to serve. Raises OutputError, with nothing left running."""
        self._thread.start()
        try:
            self._thread.call(self._start())
        except BaseException:
            self.close()
            raise

    def push(self, broadcast: Broadcast, url: str) -> None:
        """Send a stream to a server until it ends."""
        self._thread.post(partial(self._push, broadcast, url))

    def close(self) -> None:
        """End everything; pushes may say farewell first. Harmless when called again."""
        if self._thread.running:
            self._thread.call(self._stop())
            self._thread.stop()

    async def _start(self) -> None:
        for server in self._servers:
            await server.start()

    async def _stop(self) -> None:
        if self._pushes:
            _, late = await asyncio.wait(self._pushes, timeout=_TIMEOUT_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for server in self._servers:
            await server.stop()

    def _push(self, broadcast: Broadcast, url: str) -> None:
        push = Push(broadcast, url, warn=lambda text: self._site.warn(text, stream=broadcast.name))
        task = asyncio.get_running_loop().create_task(push.run())
        self._pushes.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._pushes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error  # a mistake of ours: the loop reports it
