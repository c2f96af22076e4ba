"""What the API tells of the machine and the process: resources, disks, places, the log, and who changed what."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.api import LogLines
from sightline.client import Client, PipelineClient
from tests.integration.server.api.conftest import PLAZA, Steered, steps
from tests.integration.server.conftest import endless, wait_for


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """As elsewhere, and clips would be recorded on request, three at most; files lie there from an earlier run."""
    folder = tmp_path / "out" / "seen"
    folder.mkdir(parents=True)
    for name in ("gate-1.mp4", "gate-1-2.mp4", "other.mp4", "gate-1.png"):
        (folder / name).write_bytes(b"12345")
    record = {"record": {"path": "seen/{stream}-{time}.mp4", "keep": {"count": 3}}}
    sources = {"gate": endless(), "yard": endless(pattern="bars")}
    described = [*steps(), record]
    return Pipeline(name="street", sources=sources, steps=described, outputs=tmp_path / "out", keep_running=True)


@pytest.fixture
def street(steered: Steered) -> PipelineClient:
    return Client(f"http://127.0.0.1:{steered.listener.port}", token=steered.viewer.token).pipeline("street")


def test_processor_and_memory_are_measured(street: PipelineClient) -> None:
    wait_for(lambda: street.system().cpu.over_seconds >= 1)
    state = street.system()

    assert 0 < state.cpu.process <= 2 * len(state.cpu.cores or [])
    assert state.cpu.cores is not None
    assert all(0 <= one <= 1 for one in state.cpu.cores)
    assert state.memory.process is not None
    assert state.memory.used is not None
    assert state.memory.total is not None
    assert 10_000_000 < state.memory.process < state.memory.used < state.memory.total
    assert {"sightline", "python", "system", "av"} <= state.versions.keys()


def test_files_of_an_output_are_counted_with_what_limits_them(street: PipelineClient) -> None:
    disks = street.system().disks

    (clips,) = [one for disk in disks for one in disk.outputs if one.id == "record-1"]
    assert (clips.files, clips.size_bytes, clips.complete) == (2, 10, True)
    assert clips.limits == {"keep": {"count": 3}}
    assert {"outbox", "history"} <= {one.id for disk in disks for one in disk.outputs}
    assert all(0 < disk.free_bytes < disk.total_bytes for disk in disks)


def test_it_is_told_what_runs_where(street: PipelineClient) -> None:
    state = street.system()
    places = {one.name: one for one in state.places}

    assert state.device == "cpu"
    assert state.device_reason
    assert {"gate", "yard", "track-1", "zones-1"} <= places.keys()
    assert (places["zones-1"].element, places["zones-1"].runs_on) == ("zones", "cpu")
    assert "cpu" in {one.name for one in state.devices if one.usable}


def test_the_log_is_read_by_level_and_from_a_line_on_without_credentials(street: PipelineClient) -> None:
    log = logging.getLogger("sightline.example")
    log.warning("no answer of rtsp://admin:hunter2@10.0.0.7/main")
    log.error("broken")
    found = street.logs()

    assert [one.text for one in found.lines if one.logger == log.name] == [
        "no answer of rtsp://***@10.0.0.7/main",
        "broken",
    ]
    assert any(one.logger == "message" and one.text == "gate: started" for one in found.lines)
    assert {one.level for one in street.logs(level="error").lines} == {"error"}
    assert street.logs(after=found.newest) == LogLines(lines=[], newest=found.newest, level=found.level)
    assert [one.text for one in street.logs(level="error", limit=1).lines] == ["broken"]


def test_the_log_ends_with_the_server(steered: Steered) -> None:
    handlers = logging.getLogger("sightline").handlers
    assert len(handlers) == 1

    steered.listener.close()

    assert logging.getLogger("sightline").handlers == []


def test_an_admin_reads_who_changed_what_and_how_it_ended(steered: Steered) -> None:
    steered.operator.ask("rules/zones-1/plaza", "PUT", {**PLAZA, "limit": 3})
    steered.operator.ask("streams/gate/record", "POST", {"step": "none"})
    admin = Client(f"http://127.0.0.1:{steered.listener.port}", token=steered.admin.token).pipeline("street")

    refused, done = admin.audit()

    assert (done.actor, done.role, done.result, done.error) == ("operator", "operator", "done", None)
    assert (refused.result, bool(refused.error)) == ("refused", True)
    assert admin.audit(limit=1) == [refused]
    assert steered.operator.ask("audit").status == 403


def test_processor_and_memory_have_a_history(street: PipelineClient) -> None:
    wait_for(lambda: street.history("fps").columns)

    table = street.history("cpu", "memory", "fps")
    assert {(one.series, one.stream, one.key) for one in table.columns} == {
        *((series, "", key) for series in ("cpu", "memory") for key in ("process", "machine")),
        *(("fps", stream, "") for stream in ("gate", "yard")),
    }
    memory = next(one.values for one in table.columns if (one.series, one.key) == ("memory", "process"))
    assert all(value is None or value > 10_000_000 for value in memory)
