"""Whole pipelines at 200 records a second while their destination is away: every record arrives, and nothing slows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.delivery.postgresql import PostgresServer, postgresql
from tests.integration.figures import MEASURING, Record, form
from tests.waiting import LIMIT_SECONDS, wait_until

STREAMS = ("gate", "yard")
FPS = 100
AWAY_SECONDS = form(10.0 if MEASURING else 3.0, long=60.0)
_MB = 1e6
Identity = tuple[str, int, int]


@dataclass
class Destination:
    """A server that can go away and come back, the step that delivers there, and what it has received."""

    step: Mapping[str, object]
    away: Callable[[], None]
    back: Callable[[], None]
    received: Callable[[], Sequence[Identity]]
    keeps_doubles: bool = True


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[Destination]:
    with postgresql() as server:
        yield Destination(
            step={"postgres": {"url": server.url(), "timeout": "2s"}},
            away=server.kill,
            back=server.start,
            received=lambda: _rows(server),
        )


def _rows(server: PostgresServer) -> list[Identity]:
    lines = server.psql("SELECT stream, epoch, seq FROM sightline ORDER BY stream, epoch, seq")
    return [(stream, int(epoch), int(seq)) for stream, epoch, seq in (line.split("|") for line in lines)]


@dataclass
class Running:
    """`sightline run` with a record for each frame, watched from outside."""

    folder: Path
    process: subprocess.Popen[bytes]
    memory: list[float] = field(default_factory=list)

    @classmethod
    def start(cls, folder: Path, destination: Destination) -> Running:
        sources = {
            name: {"pattern": "counter", "size": [64, 48], "fps": FPS, "frames": None, "realtime": True}
            for name in STREAMS
        }
        steps: list[object] = [{"jsonl": "out/{stream}.jsonl"}, destination.step]
        document = {"name": "outage", "sources": sources, "outbox": {"linger": "60s"}, "pipeline": steps}
        (folder / "outage.yaml").write_text(json.dumps(document))  # JSON is YAML
        command = [sys.executable, "-m", "sightline.cli.main", "run", "outage.yaml", "--report", "report.json"]
        with (folder / "log").open("wb") as log:
            return cls(folder, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log))

    def frames(self) -> int:
        paths = [self.folder / "out" / f"{name}.jsonl" for name in STREAMS]
        return sum(path.read_bytes().count(b"\n") for path in paths if path.exists())

    def resident_mb(self) -> float:
        resident = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(resident) * os.sysconf("SC_PAGE_SIZE") / _MB

    def wait_for(self, frames: int) -> None:
        wait_until(lambda: self.process.poll() is not None or self.frames() >= frames)
        assert self.process.poll() is None, (self.folder / "log").read_text()

    def stop(self) -> Mapping[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT_SECONDS) == 0, (self.folder / "log").read_text()
        report: Mapping[str, Any] = json.loads((self.folder / "report.json").read_text())
        return report


@pytest.mark.row(id="C1", long=True)
@pytest.mark.parametrize("name", ["postgres"])
def test_every_record_arrives_after_an_outage(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, figure: Record
) -> None:
    destination: Destination = request.getfixturevalue(name)
    with ExitStack() as stack:
        running = Running.start(tmp_path, destination)
        stack.callback(running.process.kill)
        running.wait_for(2 * FPS)
        wait_until(lambda: len(destination.received()) > FPS)
        began, frames, memory = time.monotonic(), running.frames(), running.resident_mb()

        destination.away()
        running.wait_for(frames + round(AWAY_SECONDS * FPS * len(STREAMS)))
        seconds, during = time.monotonic() - began, running.frames() - frames
        memory_away = running.resident_mb()

        destination.back()
        back, there = time.monotonic(), running.frames()
        wait_until(lambda: len(set(destination.received())) >= there)
        caught_up = time.monotonic() - back
        report = running.stop()

    made = sum(stream["processed"] for stream in report["streams"].values())
    left = sum(one["waiting"] for one in report["deliveries"].values())
    received = list(destination.received())
    kept = list(dict.fromkeys(received))
    assert len(kept) == made - left
    for stream in STREAMS:
        assert [seq for one, _, seq in kept if one == stream] == list(range(sum(one[0] == stream for one in kept)))
    figure(f"{name}: records that came twice", 100 * (len(received) - len(kept)) / len(kept), limit=1.0, unit="%")
    figure(f"{name}: memory during the outage", memory_away - memory, limit=20.0, unit="MB")
    figure(f"{name}: caught up", caught_up, limit=10.0, unit="s")
    figure(f"{name}: lost frame rate", 1 - during / seconds / FPS / len(STREAMS), limit=0.02, unit="x")
    assert not sum(Counter(report["deliveries"][f"{name}-1"]["dropped"]).values())
