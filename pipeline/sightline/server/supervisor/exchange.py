"""Requests to a worker, over its Unix socket."""

from __future__ import annotations

import asyncio
import socket
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

    It reads no faster than it is asked for events, and waits with what it sends until the worker takes it. A worker
    that answers and reads no more is no loss (a stream of asyncio drops the answer when sending fails). Raises
    OSError when there is no worker, and h11.RemoteProtocolError when it ends before its answer does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)

    async def __aenter__(self) -> Self:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(self._connection, str(self._path))
        except BaseException:
            self._connection.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    async def send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        """Send a part of the request."""
        await asyncio.get_running_loop().sock_sendall(self._connection, self._protocol.send(event) or b"")

    async def receive(self) -> h11.Response | h11.Data | h11.EndOfMessage:
        """The next part of the answer."""
        while True:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA:
                received = await asyncio.get_running_loop().sock_recv(self._connection, _READ_BYTES)
                self._protocol.receive_data(received)
            elif isinstance(event, h11.Response | h11.Data | h11.EndOfMessage):
                return event


async def fetch(path: Path, target: str, *, timeout_seconds: float) -> tuple[int, bytes]:
    """GET a short answer: its status and body. Raises OSError (TimeoutError too) when there is none."""
    try:
        async with asyncio.timeout(timeout_seconds), Exchange(path) as exchange:
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
