"""Heartbeats over real connections: what a worker and its controller conclude from how these end."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest

from sightline.cluster.controller import Controller
from sightline.cluster.endpoint import ControllerEndpoint, listen
from sightline.cluster.engine import ControllerAbsent, ControllerSilent
from sightline.cluster.model import (
    ClusterEvent,
    ClusterEventKind,
    ClusterOptions,
    Grant,
    Heartbeat,
    Json,
    Refusal,
    StreamSpec,
)
from sightline.cluster.reporting import ControllerLink
from sightline.cluster.store import MemoryStore
from sightline.cluster.wire import Connection, Presence, TokenRefused, status_from, token_from_environment
from sightline.errors import ConfigurationError
from sightline.graph.site import SystemClock
from tests.waiting import wait_until

SECOND = 1_000_000_000
TOKEN = secrets.token_hex(32)
OPTIONS = ClusterOptions(
    heartbeat_ns=SECOND // 10, lease_ns=300 * SECOND, settle_ns=0, rebalance_ns=SECOND // 5, moving=1.0
)
BEAT = Heartbeat("w1", "first", 1, 0, 0, 100.0, 0)

PRESENCES: list[Presence] = []
"""That of this process, in each test."""

REPORT_AND_WAIT = """
import sys, time
from sightline.cluster.model import Heartbeat
from sightline.cluster.reporting import ControllerLink
from sightline.cluster.wire import Presence
link = ControllerLink(("127.0.0.1", int(sys.argv[1])), token=sys.argv[2], timeout_seconds=60,
                      presence=Presence("127.0.0.1"), on_wake=lambda: None)
link.report(Heartbeat("w1", "first", 1, 0, 0, 100.0, time.time_ns()))
print("reported", flush=True)
time.sleep(600)
"""


class Served:
    """A controller at a port, and what it has reported."""

    def __init__(self) -> None:
        self.events: list[ClusterEvent] = []
        listening = listen(("127.0.0.1", 0))
        self.address: tuple[str, int] = listening.getsockname()
        source: dict[str, Json] = {"uri": "rtsp://north/1", "max_fps": 5}
        controller = Controller(
            {"gate": StreamSpec(5, source=source)}, store=MemoryStore(), clock=SystemClock(), options=OPTIONS
        )
        self.endpoint = ControllerEndpoint(controller, listening, token=TOKEN, on_event=self.events.append)
        self.endpoint.start()

    def kinds(self) -> list[ClusterEventKind]:
        """The kinds of the events so far."""
        return [one.kind for one in self.events]

    def link(self, *, token: str = TOKEN, woken: list[int] | None = None) -> ControllerLink:
        """A worker's end."""
        return link_to(self.address, token=token, woken=woken)

    def connect(self, token: str = TOKEN) -> Connection:
        """A connection as a person makes it."""
        return Connection.to_controller(self.address, token=token, timeout_seconds=60)


def link_to(
    address: tuple[str, int], *, token: str = TOKEN, timeout_seconds: float = 60, woken: list[int] | None = None
) -> ControllerLink:
    """A worker's end, of a worker that this process is."""
    heard = [] if woken is None else woken
    return ControllerLink(
        address, token=token, timeout_seconds=timeout_seconds, presence=PRESENCES[-1], on_wake=lambda: heard.append(1)
    )


@pytest.fixture(autouse=True)
def presence() -> Iterator[None]:
    one = Presence("127.0.0.1")
    PRESENCES.append(one)
    yield
    PRESENCES.remove(one)
    one.close()


@pytest.fixture
def served() -> Iterator[Served]:
    one = Served()
    yield one
    one.endpoint.close()


def beat(number: int, **others: object) -> Heartbeat:
    return replace(BEAT, number=number, epoch_ns=time.time_ns(), **others)  # type: ignore[arg-type]


def test_a_heartbeat_is_answered_with_the_streams_and_a_worker_is_woken_for_new_ones(served: Served) -> None:
    woken: list[int] = []
    link = served.link(woken=woken)

    first = link.report(beat(1))
    assert isinstance(first, Grant)
    wait_until(lambda: woken)
    second = link.report(beat(2))

    assert isinstance(second, Grant)
    assert second.streams is not None
    (stream,) = second.streams
    assert (stream.name, stream.source) == ("gate", {"uri": "rtsp://north/1", "max_fps": 5})
    third = link.report(beat(3, generation=second.generation))
    assert isinstance(third, Grant)
    assert third.streams is None
    assert link.report(beat(3)) is None


def test_a_refusal_travels(served: Served) -> None:
    answer = served.link().report(beat(1, version="0.0.1"))

    assert isinstance(answer, Refusal)
    assert "install the same version of Sightline" in answer.text


def test_a_worker_whose_process_is_killed_is_known_to_have_ended(served: Served) -> None:
    command = [sys.executable, "-c", REPORT_AND_WAIT, str(served.address[1]), TOKEN]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reported\n"
        wait_until(lambda: ClusterEventKind.WORKER_JOINED in served.kinds())
        process.kill()

    wait_until(lambda: ClusterEventKind.WORKER_LOST in served.kinds())
    lost = next(one for one in served.events if one.kind is ClusterEventKind.WORKER_LOST)
    assert lost.text.startswith("the worker w1 has ended")


def test_a_connection_that_a_worker_gives_up_says_nothing_about_the_worker(served: Served) -> None:
    link = served.link()
    link.report(beat(1))
    link.drop()

    assert isinstance(link.report(beat(2)), Grant)
    link.report(beat(3))
    assert ClusterEventKind.WORKER_LOST not in served.kinds()


def test_a_refused_connection_proves_that_no_controller_runs() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        link = link_to(taken.getsockname())
        with pytest.raises(ControllerAbsent):
            link.report(beat(1))


def test_a_controller_that_listens_and_does_not_answer_is_silent() -> None:
    listening = listen(("127.0.0.1", 0))
    with listening:
        link = link_to(listening.getsockname(), timeout_seconds=0.2)
        with pytest.raises(ControllerSilent):
            link.report(beat(1))


def test_the_end_of_a_controller_is_noticed_at_the_next_heartbeat(served: Served) -> None:
    link = served.link()
    link.report(beat(1))
    served.endpoint.close()

    with pytest.raises(ControllerAbsent):
        link.report(beat(2))


def test_another_token_is_refused_on_both_sides(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TokenRefused, match="has another token: set SIGHTLINE_CLUSTER_TOKEN to the same"):
        served.connect("x" * 64)
    with pytest.raises(ControllerSilent):
        served.link(token="x" * 64).report(beat(1))

    wait_until(lambda: "a connection is refused: 127.0.0.1: it has another token" in caplog.text)
    assert served.kinds().count(ClusterEventKind.WORKER_JOINED) == 0


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n".ljust(64), b"\xff" * 3])
def test_what_is_no_worker_gets_no_answer(served: Served, said: bytes) -> None:
    with socket.create_connection(served.address) as client:
        client.sendall(said)
        client.shutdown(socket.SHUT_WR)
        client.settimeout(60)
        heard = bytearray()
        while part := client.recv(100):
            heard += part

    assert bytes(heard[:4]) == b"SLC1"
    assert heard[36:] in (b"", bytes(32))


@pytest.mark.parametrize("message", [{"beat": {"worker": 1}}, {"beat": []}, {"beat": asdict(BEAT)}])
def test_a_heartbeat_that_is_none_ends_the_connection(served: Served, message: dict[str, object]) -> None:
    connection = served.connect()
    connection.send(message)

    with pytest.raises(OSError, match=r"the connection has ended|reset by peer"):
        connection.receive(timeout_seconds=60)
    connection.close()


def test_people_ask_for_the_status_and_drain_workers(served: Served) -> None:
    served.link().report(beat(1))
    connection = served.connect()
    connection.send({"ask": "status"})
    answer = connection.receive(timeout_seconds=60)
    connection.send({"ask": "drain", "worker": "w9", "draining": True})
    refused = connection.receive(timeout_seconds=60)
    connection.send({"ask": "drain", "worker": "w1", "draining": True})
    connection.receive(timeout_seconds=60)
    connection.send({"ask": "something"})
    unknown = connection.receive(timeout_seconds=60)
    connection.send({"ask": "status"})
    after = connection.receive(timeout_seconds=60)
    connection.close()

    assert [one.name for one in status_from(answer["status"]).workers] == ["w1"]
    assert "there is no worker 'w9'; workers: w1" in refused["error"]
    assert "does not know this request" in unknown["error"]
    assert status_from(after["status"]).workers[0].is_draining


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_controller_listens_at_one_address_only(host: str) -> None:
    with pytest.raises(ConfigurationError, match="is every address of this machine"):
        listen((host, 0))


def test_a_port_that_is_taken_is_an_error() -> None:
    with listen(("127.0.0.1", 0)) as first, pytest.raises(ConfigurationError, match=r"cannot listen at 127\.0\.0\.1:"):
        listen(first.getsockname())


@pytest.mark.parametrize(("token", "text"), [("", "needs a token"), ("short", "has 5 characters: give 32 or more")])
def test_a_cluster_has_a_token_of_some_length(monkeypatch: pytest.MonkeyPatch, token: str, text: str) -> None:
    monkeypatch.setenv("SIGHTLINE_CLUSTER_TOKEN", token)

    with pytest.raises(ConfigurationError, match=text):
        token_from_environment()
