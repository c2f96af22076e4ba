"""A process that is killed while its destination is away loses almost nothing: the next run delivers the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.delivery.web_server import Exchange, Request, web_server
from tests.integration.figures import Record
from tests.integration.telemetry.collector import collector
from tests.ports import free_port
from tests.waiting import wait_until

FPS = 200
LINES = ", body: lines"


def configure(folder: Path, *, port: int, frames: int | None, step: str = "webhook", options: str = LINES) -> None:
    """Write a pipeline that delivers a record for each frame, and writes the same frames to a file."""
    source = f"{{pattern: counter, size: [64, 48], fps: {FPS}, frames: {frames or 'null'}, realtime: true}}"
    (folder / "gate.yaml").write_text(
        "name: gate\n"
        f"sources: {{gate: {source}}}\n"
        "outbox: {linger: 60s}\n"
        "pipeline:\n"
        "  - jsonl: out/{stream}.jsonl\n"
        f"  - {step}: {{url: 'http://127.0.0.1:{port}/', timeout: 60s{options}}}\n"
    )


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sightline.cli.main", "run", "gate.yaml", "--quiet"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def frames_written(folder: Path) -> int:
    path = folder / "out" / "gate.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.row(id="C2")
@pytest.mark.parametrize("frames", [150, 611])
def test_a_killed_process_loses_at_most_the_last_moment(tmp_path: Path, frames: int, figure: Record) -> None:
    port = free_port()
    configure(tmp_path, port=port, frames=None)
    process = start(tmp_path)
    wait_until(lambda: frames_written(tmp_path) >= frames)
    process.kill()
    process.wait()
    processed = frames_written(tmp_path)

    with web_server(lambda exchange, _: exchange.answer(200), port=port) as asked:
        configure(tmp_path, port=port, frames=20)
        assert start(tmp_path).wait() == 0
        records = [record for request in asked.requests for record in of(request)]

    first, second = sorted({record["epoch"] for record in records})
    arrived = [record["frame"] for record in records if record["epoch"] == first]
    assert arrived == list(range(len(arrived)))
    assert [record["seq"] for record in records if record["epoch"] == first] == arrived
    assert [record["frame"] for record in records if record["epoch"] == second] == list(range(20))
    figure("records that a kill loses", max(processed - len(arrived), 0) / FPS, limit=0.2, unit="s")


def test_a_process_killed_while_it_delivers_sends_few_records_twice(tmp_path: Path) -> None:
    port = free_port()
    received: list[Mapping[str, Any]] = []

    def keep(exchange: Exchange, request: Request) -> None:
        received.extend(of(request))
        exchange.answer(200)

    configure(tmp_path, port=port, frames=None)
    with web_server(keep, port=port):
        process = start(tmp_path)
        wait_until(lambda: len(received) > FPS)
        process.kill()
        process.wait()
        before = len(received)
        configure(tmp_path, port=port, frames=10)
        assert start(tmp_path).wait() == 0

    first = min(record["epoch"] for record in received)
    frames = [record["frame"] for record in received if record["epoch"] == first]
    assert sorted({*frames}) == list(range(len({*frames})))
    assert len(frames) - len({*frames}) <= before / 2
    kept = list(dict.fromkeys((record["epoch"], record["seq"]) for record in received))
    assert kept == sorted(kept)


def test_logs_of_a_killed_process_arrive_after_its_next_start(tmp_path: Path) -> None:
    port = free_port()
    configure(tmp_path, port=port, frames=None, step="otlp", options="")
    process = start(tmp_path)
    wait_until(lambda: frames_written(tmp_path) >= 150)
    process.kill()
    process.wait()
    processed = frames_written(tmp_path)

    with collector(port=port) as found:
        configure(tmp_path, port=port, frames=20, step="otlp", options="")
        assert start(tmp_path).wait() == 0

    ids = [(int(log.attributes["sightline.epoch"]), int(log.attributes["sightline.seq"])) for log in found.logs]
    first, second = sorted({epoch for epoch, _ in ids})
    arrived = [seq for epoch, seq in ids if epoch == first]
    assert arrived == list(range(len(arrived)))
    assert len(arrived) >= processed - 0.2 * FPS
    assert [seq for epoch, seq in ids if epoch == second] == list(range(20))


def of(request: Request) -> list[Mapping[str, Any]]:
    """The records of a request."""
    return [json.loads(line) for line in request.body.splitlines()]
