"""The controller's process at the head: it is started again from its store, and what it cannot keep changes nothing."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sightline.cluster.controller import Controller
from sightline.cluster.endpoint import ControllerEndpoint, listen
from sightline.cluster.model import (
    ClusterConfiguration,
    ClusterOptions,
    ClusterStatus,
    ConfigurationReport,
    Heartbeat,
    StreamSpec,
)
from sightline.cluster.store import FileStore, MemoryStore, Saved
from sightline.cluster.wire import Connection, Presence, answer_from, status_from
from sightline.errors import ConfigurationError
from sightline.graph.site import SystemClock
from sightline_plugins.commands.cluster.charter import Charter
from sightline_plugins.commands.cluster.supervision import ControllerSupervisor
from tests.disks import fill
from tests.ports import free_port
from tests.waiting import wait_until

SECOND = 1_000_000_000
TOKEN = secrets.token_hex(32)
OPTIONS = ClusterOptions(heartbeat_ns=SECOND // 10, lease_ns=300 * SECOND, settle_ns=0)
STREAMS = {name: StreamSpec(10, source="rtsp://10.0.0.9/a") for name in ("gate", "yard")}


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_CLUSTER_TOKEN", TOKEN)


def charter_in(folder: Path) -> Charter:
    """What a controller with its state in a folder is started with."""
    streams = {name: asdict(one) for name, one in STREAMS.items()}
    configuration = asdict(ClusterConfiguration())
    return Charter("127.0.0.1", free_port(), str(folder / "site.cluster"), "", OPTIONS, streams, configuration)


@pytest.fixture
def charter(tmp_path: Path) -> Charter:
    return charter_in(tmp_path)


@pytest.fixture
def presence() -> Iterator[Presence]:
    one = Presence("127.0.0.1")
    yield one
    one.close()


def ask(port: int, message: dict[str, Any]) -> dict[str, Any]:
    """What a controller answers."""
    connection = Connection.to_controller(("127.0.0.1", port), token=TOKEN, timeout_seconds=60)
    try:
        connection.send(message)
        return dict(connection.receive(timeout_seconds=60))
    finally:
        connection.close()


def status_at(port: int) -> ClusterStatus | None:
    """The cluster; None while no controller answers."""
    try:
        return status_from(ask(port, {"ask": "status"})["status"])
    except OSError:
        return None


def test_a_killed_controller_is_started_again_with_the_same_assignment(
    charter: Charter, presence: Presence, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = ControllerSupervisor(charter)
    supervisor.start()
    connection = Connection.to_controller((charter.host, charter.port), token=TOKEN, timeout_seconds=60)
    runs = ConfigurationReport(fingerprint=ClusterConfiguration().fingerprint)
    beat = Heartbeat("w1", "first", 1, 0, 0, 100.0, time.time_ns(), configuration=runs)
    connection.send({"beat": beat, "presence": presence.address})
    answer_from(connection.receive(timeout_seconds=60))
    wait_until(lambda: (one := status_at(charter.port)) and len(one.assignment) == len(STREAMS))
    before = status_at(charter.port)
    assert before is not None

    os.kill(supervisor.pid, signal.SIGKILL)
    wait_until(lambda: (one := status_at(charter.port)) and one.term == before.term + 1)
    after = status_at(charter.port)
    supervisor.stop()

    connection.close()
    assert after is not None
    assert after.assignment == before.assignment
    assert "the controller has ended (SIGKILL): it is started again" in caplog.text
    assert status_at(charter.port) is None


def test_a_controller_that_is_stopped_is_killed_and_started_again(
    charter: Charter, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = ControllerSupervisor(replace(charter, options=replace(OPTIONS, lease_ns=4 * SECOND)))
    supervisor.start()
    before = supervisor.pid
    first = status_at(charter.port)
    assert first is not None

    os.kill(before, signal.SIGSTOP)
    wait_until(lambda: supervisor.pid not in (0, before))
    wait_until(lambda: (one := status_at(charter.port)) and one.term > first.term)
    supervisor.stop()

    assert "the controller has decided nothing for 2 s, and is killed: it is started again" in caplog.text


class HangingStore(MemoryStore):
    """A store on a disk that does not answer, until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def commit(self, changes: Saved) -> None:
        self.goes_on.wait()
        super().commit(changes)


def test_a_controller_whose_disk_hangs_makes_no_more_steps() -> None:
    store = HangingStore()
    options = ClusterOptions(heartbeat_ns=SECOND // 10, lease_ns=3 * SECOND // 10, settle_ns=0)
    controller = Controller(STREAMS, store=store, clock=SystemClock(), options=options)
    listening = listen(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    endpoint = ControllerEndpoint(controller, listening, token=TOKEN, on_event=lambda event: None)
    endpoint.start()
    first = ask(port, {"ask": "steps"})["steps"]
    wait_until(lambda: ask(port, {"ask": "steps"})["steps"] > first)

    store.goes_on.clear()
    wait_until(lambda: not is_answered(port))
    store.goes_on.set()
    wait_until(lambda: is_answered(port))
    endpoint.close()


def is_answered(port: int) -> bool:
    """Whether a controller says soon how many steps it has made."""
    connection = Connection.to_controller(("127.0.0.1", port), token=TOKEN, timeout_seconds=60)
    try:
        connection.send({"ask": "steps"})
        return "steps" in connection.receive(timeout_seconds=0.5)
    except TimeoutError:
        return False
    finally:
        connection.close()


def test_a_controller_that_cannot_start_is_one_error(charter: Charter, tmp_path: Path) -> None:
    (tmp_path / "site.cluster").write_text("something else")

    with pytest.raises(ConfigurationError, match=r"the controller cannot start: .*it was not written by Sightline"):
        ControllerSupervisor(charter).start()
    assert status_at(charter.port) is None


def test_on_a_full_disk_nothing_is_placed_until_there_is_room(
    tmpfs: Path, presence: Presence, caplog: pytest.LogCaptureFixture
) -> None:
    store = FileStore(tmpfs / "site.cluster")
    controller = Controller(STREAMS, store=store, clock=SystemClock(), options=OPTIONS)
    listening = listen(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    endpoint = ControllerEndpoint(controller, listening, token=TOKEN, on_event=lambda event: None)
    endpoint.start()
    fill(tmpfs / "rubbish")

    connection = Connection.to_controller(("127.0.0.1", port), token=TOKEN, timeout_seconds=60)

    def report(number: int) -> Any:
        beat = Heartbeat("w1", "first", number, 0, 0, 100.0, time.time_ns())
        connection.send({"beat": beat, "presence": presence.address})
        while "wake" in (answer := connection.receive(timeout_seconds=60)):
            pass
        return answer_from(answer)

    with caplog.at_level(logging.ERROR):
        report(1)
        wait_until(lambda: "the cluster changes nothing until its state can be kept" in caplog.text)
    assert report(2).streams is None
    assert "the disk is full" in caplog.text

    (tmpfs / "rubbish").unlink()
    numbers = iter(range(3, 1_000_000))
    wait_until(lambda: report(next(numbers)).streams)
    connection.close()
    endpoint.close()
    store.close()
    assert caplog.text.count("the cluster changes nothing") == 1


def test_a_head_whose_disk_is_full_does_not_start(tmpfs: Path) -> None:
    fill(tmpfs / "rubbish")
    charter = charter_in(tmpfs)

    with pytest.raises(ConfigurationError, match=r"the controller cannot start: .*the disk is full"):
        ControllerSupervisor(charter).start()
    assert status_at(charter.port) is None
