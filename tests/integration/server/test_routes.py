"""What a watched pipeline answers, to whom, and under which load of requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import cv2
import numpy as np
import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.server import Listener, limits, listen
from tests.integration.server.conftest import TOKEN, ask, endless, wait_for, watched

ROUTES = ("/", "/dashboard/app.js", "/dashboard/icon.svg", "/healthz", "/readyz", "/metrics", "/status", "/nowhere")
IMAGE = "/api/v1/pipelines/street/streams/gate/image.jpg"


def test_a_process_that_lives_is_healthy(listener: Listener) -> None:
    assert ask(listener.port, "/healthz").text == "ok\n"


def test_a_pipeline_whose_streams_are_live_is_ready(listener: Listener) -> None:
    assert ask(listener.port, "/readyz").text == "ready\n"


def test_a_pipeline_that_does_not_run_is_healthy_and_not_ready() -> None:
    with listen(Pipeline(sources={"gate": endless()}), "127.0.0.1:0") as listener:
        assert ask(listener.port, "/healthz").status == 200
        assert ask(listener.port, "/readyz").status == 503
        assert ask(listener.port, "/metrics").status == 200
        assert ask(listener.port, "/status").json()["streams"] == []


def test_readiness_names_the_streams_that_are_not_live_and_can_be_asked_of_some() -> None:
    sources: dict[str, Mapping[str, object]] = {
        "gate": endless(),
        "camera": {"uri": "rtsp://admin:secret@127.0.0.1:9/main"},
    }
    with watched(Pipeline(sources=sources)) as listener:
        wait_for(lambda: ask(listener.port, "/readyz?stream=gate").status == 200)
        wait_for(lambda: "camera: lost" in ask(listener.port, "/readyz").text)

        assert ask(listener.port, "/readyz").status == 503
        assert ask(listener.port, "/readyz?stream=gate&stream=camera").status == 503
        assert ask(listener.port, "/readyz?stream=other").text == "not ready\nother: no such stream\n"


def test_no_answer_holds_a_password(viewer: str) -> None:
    with watched(Pipeline(sources={"camera": "rtsp://admin:hunter2@127.0.0.1:9/main"}, steps=["draw"])) as listener:
        wait_for(lambda: "refused" in ask(listener.port, "/status").text)

        for route in ROUTES:
            assert "hunter2" not in ask(listener.port, route, token=viewer).text


def test_the_status_tells_states_rates_and_positions(listener: Listener) -> None:
    wait_for(lambda: ask(listener.port, "/readyz").status == 200)
    wait_for(lambda: ask(listener.port, "/status").json()["streams"][0]["rates"]["finished"] > 0)

    status = ask(listener.port, "/status").json()

    assert status["pipeline"] == "street"
    assert [stream["name"] for stream in status["streams"]] == ["gate", "yard north"]
    assert {stream["state"] for stream in status["streams"]} == {"live"}
    assert [element["id"] for element in status["elements"]] == ["draw-1"]
    assert status["messages"]


def test_an_image_is_what_passes_the_last_step_that_draws(listener: Listener, viewer: str) -> None:
    wait_for(lambda: ask(listener.port, IMAGE.replace("gate", "yard%20north"), token=viewer).status == 200)
    answer = ask(listener.port, IMAGE.replace("gate", "yard%20north"), token=viewer)

    image = np.asarray(cv2.imdecode(np.frombuffer(answer.body, np.uint8), cv2.IMREAD_COLOR))
    assert answer.headers["content-type"] == "image/jpeg"
    assert image.shape == (48, 64, 3)
    assert np.abs(image[24, 4].astype(int) - (191, 191, 191)).max() < 12
    assert np.abs(image[24, 60].astype(int) - (0, 0, 0)).max() < 12


def test_there_is_no_image_of_a_stream_that_is_not_there(listener: Listener, viewer: str) -> None:
    assert ask(listener.port, "/api/v1/pipelines/street/streams/other/image.jpg", token=viewer).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "NONSENSE"])
def test_monitoring_changes_nothing(guarded: Listener, method: str) -> None:
    assert ask(guarded.port, "/status", method=method, token=TOKEN).status == 405


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "NONSENSE"])
def test_who_may_look_may_not_change(listener: Listener, viewer: str, method: str) -> None:
    assert ask(listener.port, "/status", method=method, token=viewer).status == 403


def test_head_is_answered_without_a_body(listener: Listener) -> None:
    answer = ask(listener.port, "/healthz", method="HEAD")

    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "3")


@pytest.mark.parametrize(
    "path", ["/../routes.py", "/dashboard/../../routes.py", "/dashboard/%2e%2e/%2e%2e/pages.py", "/dashboard/", "//"]
)
def test_no_other_file_is_served(listener: Listener, viewer: str, path: str) -> None:
    assert ask(listener.port, path, token=viewer).status == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
def test_a_name_that_was_pointed_here_is_refused_on_every_route(listener: Listener, host: str) -> None:
    assert {ask(listener.port, route, Host=host).status for route in (*ROUTES, IMAGE)} == {403}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Listener]:
    """The same beyond the loopback, with a token."""
    pipeline = Pipeline(name="street", sources={"gate": endless()}, steps=["draw"])
    with listen(pipeline, "0.0.0.0:0", token=TOKEN) as listener, pipeline:
        yield listener


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic wrong"}, {"Cookie": "sightline=1"}])
def test_without_the_token_every_route_is_refused(guarded: Listener, headers: dict[str, str]) -> None:
    assert {ask(guarded.port, route, **headers).status for route in (*ROUTES, IMAGE)} == {401}


def test_with_the_token_every_route_is_answered(guarded: Listener) -> None:
    known = [route for route in (*ROUTES, IMAGE) if route != "/nowhere"]
    for route in ("/readyz", IMAGE):  # there may be no frame in the first second
        wait_for(lambda route=route: ask(guarded.port, route, Authorization=f"Bearer {TOKEN}").status == 200)  # type: ignore[misc]

    assert {ask(guarded.port, route, Authorization=f"Bearer {TOKEN}").status for route in known} == {200}


def test_a_token_is_needed_beyond_the_loopback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SIGHTLINE_TOKEN", raising=False)
    monkeypatch.setenv("SIGHTLINE_TOKENS", str(tmp_path / "tokens.json"))
    with pytest.raises(ConfigurationError, match="SIGHTLINE_TOKEN"):
        listen(Pipeline(sources={"gate": endless()}), "0.0.0.0:0")


def test_the_token_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_TOKEN", TOKEN)
    with listen(Pipeline(sources={"gate": endless()}), "127.0.0.1:0") as listener:
        assert ask(listener.port, "/healthz").status == 401


def test_a_port_in_use_is_said(listener: Listener) -> None:
    with pytest.raises(ConfigurationError, match="choose another port"):
        listen(Pipeline(sources={"gate": endless()}), f"127.0.0.1:{listener.port}")


def test_after_the_end_nobody_listens_and_no_thread_is_left() -> None:
    before = set(threading.enumerate())
    with listen(Pipeline(sources={"gate": endless()}), "127.0.0.1:0") as listener:
        assert ask(listener.port, "/healthz").status == 200

    with pytest.raises(ConnectionRefusedError):
        ask(listener.port, "/healthz")
    wait_for(lambda: set(threading.enumerate()) <= before)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """A server that waits an hour for the rest of a request."""
    monkeypatch.setattr(limits, "_HEAD_SECONDS", 3600)
    with watched(Pipeline(sources={"gate": endless()})) as listener:
        yield listener


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: local"], ids=["idle", "half a request"])
def test_clients_that_do_not_finish_asking_keep_nobody_waiting(patient: Listener, sent: bytes) -> None:
    clients = [socket.create_connection(("127.0.0.1", patient.port), timeout=300) for _ in range(100)]
    try:
        for client in clients:
            client.sendall(sent)
        for _ in range(3):
            assert ask(patient.port, "/healthz").status == 200
        assert all(is_open(client) for client in clients)
    finally:
        for client in clients:
            client.close()


def is_open(connection: socket.socket) -> bool:
    """Whether the other side has not closed a connection on which nothing was answered."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True


def test_the_oldest_of_too_many_clients_makes_way(patient: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_CONNECTIONS", 20)
    clients = [socket.create_connection(("127.0.0.1", patient.port), timeout=300) for _ in range(30)]
    try:
        assert ask(patient.port, "/healthz").status == 200
        assert clients[0].recv(1) == b""
        assert is_open(clients[-1])
    finally:
        for client in clients:
            client.close()


def test_clients_that_trickle_are_cut_off(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_HEAD_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", listener.port), timeout=300) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert connection.recv(100) == b""


@pytest.mark.parametrize("path", ["/login", "/api/v1/pipelines/pipeline/configuration/check"])
def test_bodies_that_do_not_come_are_not_waited_for(
    guarded: Listener, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(limits, "_BODY_SECONDS", 0.5)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 50\r\n\r\n"
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=300) as connection:
        connection.sendall(head.encode() + b"token=")
        assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_a_request_that_is_too_large_is_refused(listener: Listener) -> None:
    assert ask(listener.port, "/healthz", Padding="x" * 20_000).status == 431


def test_clients_that_vanish_leave_nothing_behind(listener: Listener) -> None:
    files = ask(listener.port, "/status").json()["process"]["open_files"]
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", listener.port)) as connection:
            connection.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")

    wait_for(lambda: ask(listener.port, "/status").json()["process"]["open_files"] <= files)
