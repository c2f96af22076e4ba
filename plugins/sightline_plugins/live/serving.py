"""Send live video over a WebSocket, no more than the viewer takes."""

from __future__ import annotations

import asyncio

from starlette.websockets import WebSocket

from sightline_plugins.live.messages import LiveFormat, LiveMessage
from sightline_plugins.publish.broadcast import Broadcast, TooManyViewers, Viewer
from sightline_plugins.publish.web import until_gone

_MOST_UNSEEN = 64
"""Messages that a viewer has not confirmed; with so many it gets no more, and falls behind here, where that is bounded.
Buffers of browsers, systems and proxies are not."""
_GOING_AWAY, _TRY_LATER = 1001, 1013


async def serve(socket: WebSocket, broadcast: Broadcast[LiveMessage]) -> None:
    """Accept a viewer, and send until it goes away or the broadcast ends."""
    await socket.accept()
    confirmed = _Confirmed()
    try:
        async with Viewer(broadcast) as viewer:
            await until_gone(socket, _play(socket, viewer, confirmed), hear=confirmed.hear)
    except TooManyViewers:
        await socket.close(_TRY_LATER, "too many viewers")


class _Confirmed:
    """How many messages the viewer has handled: it sends the number as text, after every few."""

    def __init__(self) -> None:
        self._count = 0
        self._has_changed = asyncio.Event()

    def hear(self, text: str) -> None:
        """Take a number; anything else means nothing."""
        if text.isascii() and text.isdigit():
            self._count = max(self._count, int(text))
            self._has_changed.set()

    async def at_least(self, count: int) -> None:
        """Wait until so many are confirmed."""
        while self._count < count:
            self._has_changed.clear()
            await self._has_changed.wait()


async def _play(socket: WebSocket, viewer: Viewer[LiveMessage], confirmed: _Confirmed) -> None:
    current: LiveFormat | None = None
    sent = 0
    while True:
        await confirmed.at_least(sent - _MOST_UNSEEN + 1)
        message = await viewer.next()
        if message is None:
            break
        if message.format is not current:
            current = message.format
            await socket.send_text(current.announcement)
        await socket.send_bytes(message.data)
        sent += 1
    await socket.close(_GOING_AWAY, "the server stops")
