"""The client's connection: what is tried again, what is trusted, and servers that answer something else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.client import ApiError, Client, Refused, ServerFault, Unavailable, UnexpectedAnswer, Unreachable
from sightline.server import Certificate, listen
from tests.integration.delivery.certificates import make_certificates
from tests.integration.server.conftest import TOKEN, endless
from tests.ports import free_port

PIPELINES = json.dumps([{"name": "street", "running": True, "ready": True, "streams": 1, "etag": "1", "saved": True}])
CHANGED = json.dumps({"etag": "2", "version": 2, "proven": True})


class Scripted(ThreadingHTTPServer):
    """A server that gives answers one after the other, the last one again and again; 0 breaks the connection off."""

    daemon_threads = True
    missing_bytes = 0

    def __init__(self, *answers: tuple[int, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []
        self.last_ids: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Exchange(BaseHTTPRequestHandler):
    server: Scripted

    def handle_any(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.server.asked.append((self.command, self.path))
        self.server.last_ids += filter(None, [self.headers["Last-Event-ID"]])
        status, text = self.server.answers[0]
        del self.server.answers[: len(self.server.answers) > 1]
        if not status:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:9/")
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(text) + self.server.missing_bytes))
        self.end_headers()
        self.wfile.write(text.encode())
        self.close_connection = self.server.missing_bytes > 0

    def do_GET(self) -> None:
        self.handle_any()

    def do_PUT(self) -> None:
        self.handle_any()

    def log_request(self, code: object = "-", size: object = "-") -> None:
        del code, size


@contextmanager
def scripted(*answers: tuple[int, str]) -> Iterator[Scripted]:
    with Scripted(*answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("first", [0, 429, 502, 503, 504])
def test_reading_is_tried_again(first: int) -> None:
    with scripted((first, ""), (first, ""), (200, PIPELINES)) as server, Client(server.url) as client:
        assert client.pipelines()[0].name == "street"

    assert server.asked == [("GET", "/api/v1/pipelines")] * 3


def test_reading_is_given_up() -> None:
    with (
        scripted((503, '{"detail": "not now"}')) as server,
        Client(server.url) as client,
        pytest.raises(Unavailable, match="not now"),
    ):
        client.pipelines()

    assert len(server.asked) == 4


@pytest.mark.parametrize(("first", "kind"), [(0, Unreachable), (503, Unavailable), (500, ServerFault), (418, Refused)])
def test_a_change_is_sent_once(first: int, kind: type[Exception]) -> None:
    with scripted((first, ""), (200, CHANGED)) as server, Client(server.url) as client, pytest.raises(kind):
        client.pipeline("street").put_stream("gate", "rtsp://10.0.0.7/main")

    assert server.asked == [("PUT", "/api/v1/pipelines/street/streams/gate")]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_nobody_is_followed_elsewhere(status: int) -> None:
    with (
        scripted((status, "")) as server,
        Client(server.url, token=TOKEN) as client,
        pytest.raises(UnexpectedAnswer, match=f"sends elsewhere .{status}"),
    ):
        client.pipelines()

    assert len(server.asked) == 1


@pytest.mark.parametrize("text", ["", "<html>", "[]x", '{"a": 1}', '[{"name": 7}]', "[null]"])
def test_something_else_that_answers_is_noticed(text: str) -> None:
    with (
        scripted((200, text)) as server,
        Client(server.url) as client,
        pytest.raises(UnexpectedAnswer, match=r"is the server of another version|is this a server of Sightline"),
    ):
        client.pipelines()


@pytest.mark.parametrize("text", ["<html>", "[]", '{"detail": 7}', '{"problems": [1, {"path": 2}]}'])
@pytest.mark.parametrize("status", [400, 404, 409, 412, 422, 500])
def test_refusals_without_details_are_refusals(status: int, text: str) -> None:
    with (
        scripted((status, text)) as server,
        Client(server.url) as client,
        pytest.raises(ApiError, match=f"the server answered {status}") as caught,
    ):
        client.pipelines()

    assert caught.value.status == status


def test_nobody_there_is_said_in_a_sentence() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url, token=TOKEN) as client, pytest.raises(Unreachable) as caught:
        client.pipelines()

    assert str(caught.value).startswith(f"{url} does not answer: ")
    assert "refused" in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Client(url, timeout_seconds=0.05) as client, pytest.raises(Unreachable, match="timed out"):
            client.pipelines()


def test_a_certificate_is_trusted_by_its_file_only(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    pipeline = Pipeline(name="street", sources={"gate": endless()})
    served = Certificate(files.server, files.server_key)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN, certificate=served) as listener:
        with Client(listener.url, token=TOKEN, ca_file=files.authority) as client:
            assert client.pipelines()[0].name == "street"
        with Client(listener.url, token=TOKEN) as client, pytest.raises(Unreachable, match="certificate"):
            client.pipelines()
