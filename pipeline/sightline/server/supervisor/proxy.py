"""Passes requests on to a worker: HTTP with streams of any length, and WebSockets."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import h11
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from sightline.server.guard import refusal
from sightline.server.supervisor.behind import forwarded, target_of
from sightline.server.supervisor.exchange import Exchange

_OF_A_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OF_THE_ANSWER = _OF_A_CONNECTION | {b"date", b"server"}
_LONGEST_MESSAGE = 64 << 20
"""Of a worker, by WebSocket: a fragment of a video at most."""
_WAITING_MESSAGES = 4
_OPEN_SECONDS = 30.0
_GONE = "the pipeline has ended, or ends, and does not answer"


async def pass_on(socket: Path, scope: Scope, receive: Receive, send: Send) -> None:
    """Let the worker at that socket answer a request. Neither side is given more than it takes."""
    if scope["type"] == "websocket":
        await _pass_on_websocket(socket, scope, receive, send)
        return
    answer = _Answer(send)
    try:
        await _pass_on_request(socket, scope, receive, answer)
    except (OSError, h11.RemoteProtocolError):
        if not answer.has_begun:
            await refusal(scope["path"], HTTPStatus.BAD_GATEWAY, _GONE, {"Retry-After": "1"})(scope, receive, send)
        elif answer.is_feed:
            await send({"type": "http.response.body", "body": b""})  # it is whole after each record


class _Answer:
    """Passes the answer of a worker on."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = self.is_feed = False

    async def begin(self, event: h11.Response) -> None:
        headers = [(name, value) for name, value in event.headers if name not in _OF_THE_ANSWER]
        self.is_feed = dict(headers).get(b"content-type", b"").startswith(b"text/event-stream")
        self.has_begun = True
        await self._send({"type": "http.response.start", "status": event.status_code, "headers": headers})

    async def go_on(self, data: bytes, *, is_last: bool) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": not is_last})


async def _pass_on_request(socket: Path, scope: Scope, receive: Receive, answer: _Answer) -> None:
    async with Exchange(socket) as exchange:
        headers = forwarded(scope, without=_OF_A_CONNECTION - {b"transfer-encoding"})
        headers += [(b"connection", b"close"), *([] if b"host" in dict(headers) else [(b"host", b"localhost")])]
        await exchange.send(h11.Request(method=scope["method"], target=target_of(scope), headers=headers))
        upload = asyncio.ensure_future(_upload(exchange, receive))
        download = asyncio.ensure_future(_download(exchange, answer))
        try:
            await asyncio.wait({upload, download}, return_when=asyncio.FIRST_COMPLETED)
            if download.done() or isinstance(upload.exception(), OSError):  # it may answer before it has read all
                await download
            else:
                upload.result()
        finally:  # what ends first ends the other: the client has left, or everything is answered
            for task in (upload, download):
                task.cancel()
            await asyncio.gather(upload, download, return_exceptions=True)


async def _upload(exchange: Exchange, receive: Receive) -> None:
    """Send the body, and return when the client is gone."""
    is_whole = False
    while (message := await receive())["type"] == "http.request":
        if is_whole:
            continue
        if message.get("body"):
            await exchange.send(h11.Data(data=message["body"]))
        if not message.get("more_body", False):
            is_whole = True
            await exchange.send(h11.EndOfMessage())


async def _download(exchange: Exchange, answer: _Answer) -> None:
    while not isinstance(event := await exchange.receive(), h11.EndOfMessage):
        if isinstance(event, h11.Response):
            await answer.begin(event)
        else:
            await answer.go_on(bytes(event.data), is_last=False)
    await answer.go_on(b"", is_last=True)


async def _pass_on_websocket(socket: Path, scope: Scope, receive: Receive, send: Send) -> None:
    viewer = WebSocket(scope, receive, send)
    own = {name for name, _ in scope["headers"] if name.startswith(b"sec-websocket-")}
    headers = forwarded(scope, without={*_OF_A_CONNECTION, *own, b"host"})
    try:
        async with unix_connect(
            str(socket),
            f"ws://localhost{target_of(scope).decode('ascii', 'replace')}",
            additional_headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers],
            subprotocols=[Subprotocol(one) for one in scope.get("subprotocols", ())] or None,
            compression=None,
            proxy=None,
            user_agent_header=None,
            ping_interval=None,
            open_timeout=_OPEN_SECONDS,
            close_timeout=1,
            max_size=_LONGEST_MESSAGE,
            max_queue=_WAITING_MESSAGES,
        ) as worker:
            await viewer.accept(subprotocol=worker.subprotocol)
            await _exchange(viewer, worker)
    except InvalidStatus as error:
        response = error.response
        kind = response.headers.get("content-type", "text/plain; charset=utf-8")
        await viewer.send_denial_response(Response(bytes(response.body), response.status_code, media_type=kind))
    except (OSError, InvalidHandshake):
        await viewer.send_denial_response(refusal(scope["path"], HTTPStatus.BAD_GATEWAY, _GONE))


async def _exchange(viewer: WebSocket, worker: ClientConnection) -> None:
    outward = asyncio.ensure_future(_to_viewer(viewer, worker))
    inward = asyncio.ensure_future(_to_worker(viewer, worker))
    try:
        await asyncio.wait({outward, inward}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (outward, inward):
            task.cancel()
        await asyncio.gather(outward, inward, return_exceptions=True)


async def _to_viewer(viewer: WebSocket, worker: ClientConnection) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):
        try:
            while True:
                message = await worker.recv()
                await (viewer.send_text(message) if isinstance(message, str) else viewer.send_bytes(message))
        except ConnectionClosed as closed:
            code, reason = (1012, "") if closed.rcvd is None else (closed.rcvd.code, closed.rcvd.reason)
            await viewer.close(code if code != 1005 else 1000, reason)


async def _to_worker(viewer: WebSocket, worker: ClientConnection) -> None:
    with suppress(ConnectionClosed):
        while True:
            message: Message = await viewer.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            await worker.send(message["bytes"] if text is None else text)
