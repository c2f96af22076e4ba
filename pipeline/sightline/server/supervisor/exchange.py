"""Requests to a worker, over its Unix socket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import h11

if TYPE_CHECKING:
    from typing import Self

_READ_BYTES = 1 << 16
_MOST_HEAD_BYTES = 1 << 16
_MOST_BODY_BYTES = 64 << 20


class Exchange:
    """One request and its answer, on a connection of its own; an asynchronous context manager, used in one task.

    It reads no faster than it is asked for events, and waits with what it sends until the worker takes it. Raises
    OSError when there is no worker, and h11.RemoteProtocolError when it ends before its answer does.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_unix_connection(self._socket, limit=_READ_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.transport.abort()

    async def send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        """Send a part of the request."""
        self._writer.write(self._protocol.send(event) or b"")
        await self._writer.drain()

    async def receive(self) -> h11.Response | h11.Data | h11.EndOfMessage:
        """The next part of the answer."""
        while True:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA:
                self._protocol.receive_data(await self._reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response | h11.Data | h11.EndOfMessage):
                return event


async def fetch(socket: Path, target: str, *, timeout_seconds: float) -> tuple[int, bytes]:
    """GET a short answer: its status and body. Raises OSError (TimeoutError too) when there is none."""
    try:
        async with asyncio.timeout(timeout_seconds), Exchange(socket) as exchange:
            headers = [("Host", "localhost"), ("Connection", "close")]
            await exchange.send(h11.Request(method="GET", target=target, headers=headers))
            await exchange.send(h11.EndOfMessage())
            status, body = 0, b""
            while not isinstance(event := await exchange.receive(), h11.EndOfMessage):
                if isinstance(event, h11.Response):
                    status = event.status_code
                else:
                    body += bytes(event.data)
                    if len(body) > _MOST_BODY_BYTES:
                        raise ConnectionError("the answer is too long")
            return status, body
    except h11.RemoteProtocolError as error:
        raise ConnectionError(str(error)) from error
