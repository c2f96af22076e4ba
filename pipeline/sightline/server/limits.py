"""What a client may take of the server: time, connections and bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from uvicorn.protocols.http.h11_impl import H11Protocol

from sightline.server.guard import Refused, refusal, with_safe_headers

if TYPE_CHECKING:
    import h11

MOST_HEAD_BYTES = 8192
MOST_BODY_BYTES = 1 << 20
_MOST_CONNECTIONS = 512
"""Connections at a time; when there are more, the one that has waited longest for its request is closed."""
_MOST_SOCKETS = 200
"""WebSockets at a time."""
_HEAD_SECONDS = 10.0
_BODY_SECONDS = 30.0
_UNSENT_SECONDS = 10.0
_LOOK_SECONDS = 0.25


class Doorkeeper:
    """Closes connections that do not ask, ask too slowly, or do not take what they asked for.

    A client that sends nothing, or half a request, keeps nobody waiting: all are served by one event loop. They would
    only take files and memory.
    """

    def __init__(self) -> None:
        self._waiting: dict[Connection, float] = {}
        """Connections that have not asked completely, and until when they must; the oldest first."""
        self._all: set[Connection] = set()
        self._unsent: dict[Connection, tuple[int, float]] = {}
        """How much a connection has not taken, and until when it must take some."""

    @property
    def count(self) -> int:
        """Connections that are open, WebSockets not counted."""
        return len(self._all)

    def enter(self, connection: Connection) -> None:
        """Note a new connection."""
        self._all.add(connection)
        self.await_head(connection)
        if len(self._all) > _MOST_CONNECTIONS and self._waiting:
            next(iter(self._waiting)).transport.abort()

    def leave(self, connection: Connection) -> None:
        """Forget a connection; harmless when called again."""
        self._all.discard(connection)
        self._waiting.pop(connection, None)
        self._unsent.pop(connection, None)

    def await_head(self, connection: Connection) -> None:
        """Give a connection time for its next request."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = asyncio.get_running_loop().time() + _HEAD_SECONDS

    def has_head(self, connection: Connection) -> None:
        """Note that a request is complete."""
        self._waiting.pop(connection, None)

    async def watch(self) -> None:
        """Close who is late, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection, deadline in list(self._waiting.items()):
                if deadline > now:
                    break
                connection.transport.abort()
            for connection in list(self._all):
                self._look_at_unsent(connection, now)

    def _look_at_unsent(self, connection: Connection, now: float) -> None:
        unsent = connection.transport.get_write_buffer_size()
        before, deadline = self._unsent.get(connection, (0, 0.0))
        if not unsent:
            self._unsent.pop(connection, None)
        elif unsent != before:
            self._unsent[connection] = unsent, now + _UNSENT_SECONDS
        elif now > deadline:
            connection.transport.abort()


class Connection(H11Protocol):
    """A connection of uvicorn that the doorkeeper knows. It is not public in uvicorn; a test holds it to account."""

    doorkeeper: Doorkeeper

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self.doorkeeper.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.doorkeeper.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        cycle = self.cycle
        super().data_received(data)
        if self.cycle is not cycle:
            self.doorkeeper.has_head(self)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to the WebSocket, which looks after itself: it expects answers to its pings."""
        self.doorkeeper.leave(self)
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.doorkeeper.await_head(self)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request; one that is too large by its own status."""
        size = self.conn.trailing_data[0]
        if len(size) <= MOST_HEAD_BYTES:
            super().send_400_response(msg)
            return
        head = "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
        text = f"a head has {MOST_HEAD_BYTES} bytes at most\n"
        self.transport.write(f"{head}content-length: {len(text)}\r\nconnection: close\r\n\r\n{text}".encode())
        self.transport.close()


def connections_of(doorkeeper: Doorkeeper) -> type[Connection]:
    """Return the class of connections that this doorkeeper looks after."""
    return type("GuardedConnection", (Connection,), {"doorkeeper": doorkeeper})


class Limits:
    """Middleware around all others that bounds heads and bodies by bytes and time, and counts WebSockets."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._sockets = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do it."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._open(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        try:
            if _head_size(scope) > MOST_HEAD_BYTES:  # uvicorn limits heads that come in parts
                raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head has {MOST_HEAD_BYTES} bytes at most")
            if not declared.isdigit() or int(declared) > MOST_BODY_BYTES:
                raise _too_large()
            await self._app(scope, _bounded(receive), send)
        except Refused as refused:
            answer = refused.response(scope["path"])
            answer.headers["connection"] = "close"  # the rest of the body is not read
            await answer(scope, receive, with_safe_headers(send))

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._sockets >= _MOST_SOCKETS:
            text = f"{_MOST_SOCKETS} WebSockets are open: close one, or wait"
            answer: Response = refusal(scope["path"], HTTPStatus.TOO_MANY_REQUESTS, text, {"Retry-After": "5"})
            await WebSocket(scope, receive, send).send_denial_response(answer)
            return
        self._sockets += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._sockets -= 1


def _bounded(receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Receive a body of bounded size within bounded time; what comes after it is waited for without a limit."""
    size, deadline, is_complete = 0, 0.0, False

    async def received() -> Any:
        nonlocal size, deadline, is_complete
        if is_complete:
            return await receive()
        deadline = deadline or asyncio.get_running_loop().time() + _BODY_SECONDS
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as error:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"a body arrives within {_BODY_SECONDS:.0f} s") from error
        size += len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        if size > MOST_BODY_BYTES:
            raise _too_large()
        return message

    return received


def _head_size(scope: Scope) -> int:
    return (
        len(scope["raw_path"])
        + len(scope["query_string"])
        + sum(len(name) + len(value) for name, value in scope["headers"])
    )


def _too_large() -> Refused:
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {MOST_BODY_BYTES} bytes at most")
