"""What the front passes on to a worker: requests, streams and WebSockets, and who asks."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from sightline.runtime.stats.metrics import Process
from sightline.server.credentials import OneToken
from sightline.server.guard import Guard, identity_of
from sightline.server.limits import Limits
from sightline.server.serving import ServerThread
from sightline.server.supervisor.behind import BehindFront
from sightline.server.supervisor.exchange import fetch
from sightline.server.supervisor.proxy import pass_on
from tests.integration.server.conftest import TOKEN, ask, wait_for

PIECE = b"x" * 65536


class Upstream:
    """What a worker serves, and what it has seen."""

    def __init__(self) -> None:
        self.has_left = Event()
        self.pieces = 0

    def application(self) -> Starlette:
        paths: dict[str, Callable[..., Any]] = {"/told": self.told, "/feed": self.feed, "/flood": self.flood}
        routes = [Route(path, answer, methods=["GET", "POST"]) for path, answer in paths.items()]
        routes += [Route("/early", self.early, methods=["POST"])]
        return Starlette(routes=[*routes, WebSocketRoute("/echo", self.echo), WebSocketRoute("/refused", self.refused)])

    async def told(self, request: Request) -> Response:
        identity = identity_of(request.scope)
        return JSONResponse(
            {
                "who": None if identity is None else [identity.name, str(identity.role)],
                "client": request.client.host if request.client else None,
                "path": request.url.path,
                "root": request.scope.get("root_path"),
                "query": request.url.query,
                "headers": dict(request.headers),
                "body": len(await request.body()),
            },
            headers={"X-Own": "1"},
        )

    async def early(self, request: Request) -> Response:
        return PlainTextResponse("no", 413)

    async def feed(self, request: Request) -> Response:
        async def records() -> AsyncIterator[bytes]:
            try:
                yield b"data: 1\n\n"
                await asyncio.Event().wait()
            finally:
                self.has_left.set()

        return StreamingResponse(records(), media_type="text/event-stream")

    async def flood(self, request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(2000):
                self.pieces += 1
                yield PIECE

        return StreamingResponse(pieces(), media_type="application/octet-stream")

    async def echo(self, viewer: WebSocket) -> None:
        await viewer.accept(subprotocol="second" if "second" in viewer.scope["subprotocols"] else None)
        identity = identity_of(viewer.scope)
        await viewer.send_text("nobody" if identity is None else identity.name)
        while (message := await viewer.receive())["type"] == "websocket.receive":
            if message.get("text") == "end":
                await viewer.close(4001, "as asked")
                return
            await (viewer.send_bytes(message["bytes"]) if message.get("bytes") else viewer.send_text(message["text"]))
        self.has_left.set()

    async def refused(self, viewer: WebSocket) -> None:
        await viewer.send_denial_response(PlainTextResponse("not here\n", 409))


def nothing() -> None:
    """Nothing is to be done."""


@contextmanager
def listening(family: socket.AddressFamily, place: object) -> Iterator[socket.socket]:
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        bound.bind(place)  # type: ignore[arg-type]
        bound.listen(64)
        yield bound


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="proxy-") as folder:
        yield Path(folder) / "socket"


@pytest.fixture
def upstream(path: Path) -> Iterator[Upstream]:
    made = Upstream()
    with listening(socket.AF_UNIX, str(path)) as bound:
        server = ServerThread(BehindFront(made.application()), bound, certificate=None, on_stop=nothing)
        yield made
        server.close()


@pytest.fixture
def port(path: Path) -> Iterator[int]:
    """The port of a front that passes everything on."""

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        await pass_on(path, scope, receive, send)

    with listening(socket.AF_INET, ("127.0.0.1", 0)) as bound:
        found: int = bound.getsockname()[1]
        guarded = Limits(Guard(front, credentials=OneToken(TOKEN), is_open_here=False, port=found))
        server = ServerThread(guarded, bound, certificate=None, on_stop=nothing)
        yield found
        server.close()


def test_a_worker_is_told_who_asks_and_nothing_that_opens_doors(upstream: Upstream, port: int) -> None:
    forged = json.dumps({"identity": ["eve", "admin"], "address": "1.2.3.4"})
    answer = ask(
        port,
        f"/told?a=1&token={TOKEN}&b=%20",
        token=TOKEN,
        Cookie="x=1",
        Own="kept",
        **{"X-Sightline-Identity": forged},
    )

    told = answer.json()
    assert (told["who"], told["client"], told["query"]) == (["token", "admin"], "127.0.0.1", "a=1&b=%20")
    assert told["headers"]["own"] == "kept"
    assert not {"authorization", "cookie", "x-sightline-identity"} & set(told["headers"])
    assert TOKEN not in answer.text
    assert answer.headers["x-own"] == "1"


def test_what_the_worker_serves_is_below_its_name(upstream: Upstream, port: int) -> None:
    told = ask(port, "/pipelines/gate/told", token=TOKEN).json()

    assert (told["path"], told["root"]) == ("/pipelines/gate/told", "/pipelines/gate")


def test_bodies_are_passed_on_whole(upstream: Upstream, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for body in (b"x" * 1_000_000, iter([PIECE] * 10)):  # of known size, and in chunks
        connection.request("POST", "/told", body=body, headers=headers)
        answer = connection.getresponse()
        assert json.loads(answer.read())["body"] in (1_000_000, 10 * len(PIECE))
    connection.close()


def test_an_answer_may_come_before_the_body_was_read(upstream: Upstream, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/early", body=b"x" * 900_000, headers={"Authorization": f"Bearer {TOKEN}"})

    assert connection.getresponse().status == 413
    connection.close()


def test_a_feed_comes_as_it_is_written_and_ends_when_its_viewer_leaves(upstream: Upstream, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", "/feed", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()

    assert answer.readline() == b"data: 1\n"
    assert not upstream.has_left.is_set()
    answer.close()
    connection.close()
    assert upstream.has_left.wait(300)


def test_a_viewer_that_takes_nothing_holds_the_worker_back(upstream: Upstream, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=300) as viewer:
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        viewer.sendall(f"GET /flood HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        before = -1
        while upstream.pieces != before or not before:
            before = upstream.pieces
            Event().wait(1.0)

        assert 0 < upstream.pieces < 400  # of 2000; buffers of the system hold some


def test_messages_go_both_ways(upstream: Upstream, port: int) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with connect(
        f"ws://127.0.0.1:{port}/echo",
        additional_headers=headers,
        subprotocols=["first", "second"],  # type: ignore[list-item]
    ) as viewer:
        assert viewer.subprotocol == "second"
        assert viewer.recv(300) == "token"
        for message in ("text", b"bytes"):
            viewer.send(message)
            assert viewer.recv(300) == message
        viewer.send("end")
        with pytest.raises(ConnectionClosed) as closed:
            viewer.recv(300)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "as asked")


def test_a_worker_hears_that_a_viewer_has_left(upstream: Upstream, port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/echo", additional_headers={"Authorization": f"Bearer {TOKEN}"}) as viewer:
        viewer.recv(300)

    assert upstream.has_left.wait(300)


@pytest.mark.parametrize(("path_asked", "status"), [("/refused", 409), ("/nowhere", 403)])
def test_a_websocket_that_the_worker_refuses_is_refused(
    upstream: Upstream, port: int, path_asked: str, status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{port}{path_asked}", additional_headers={"Authorization": f"Bearer {TOKEN}"})

    assert refused.value.response.status_code == status


def test_without_a_worker_there_is_an_error_and_no_hang(port: int) -> None:
    assert ask(port, "/told", token=TOKEN).status == 502
    with pytest.raises(InvalidStatus) as refused:
        connect(f"ws://127.0.0.1:{port}/echo", additional_headers={"Authorization": f"Bearer {TOKEN}"})
    assert refused.value.response.status_code == 502


def test_an_answer_that_breaks_off_is_not_taken_for_whole(path: Path, port: int) -> None:
    def serve(bound: socket.socket) -> None:
        connection, _ = bound.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    with listening(socket.AF_UNIX, str(path)) as bound, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve, bound)
        with pytest.raises(http.client.IncompleteRead):
            ask(port, "/told", token=TOKEN)
        served.result()


def test_what_is_no_answer_is_an_error(path: Path) -> None:
    with listening(socket.AF_UNIX, str(path)), pytest.raises(TimeoutError):
        asyncio.run(fetch(path, "/readyz", timeout_seconds=0.2))
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(fetch(path, "/readyz", timeout_seconds=300))


def test_the_front_is_not_used_up(upstream: Upstream, port: int) -> None:
    before = Process.now().open_files or 0
    for _ in range(50):
        assert ask(port, "/told", token=TOKEN).status == 200
    wait_for(lambda: (Process.now().open_files or 0) <= before + 2)
