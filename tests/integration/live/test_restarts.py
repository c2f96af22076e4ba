"""A run on a camera that is killed at random moments while it counts, and started again each time."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sightline.graph import Outputs
from sightline.runtime.state.file import StateFile
from sightline_plugins import Lines
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.figures import Record, form
from tests.integration.live import walkers
from tests.integration.live.watching import until

KILLS = form(3, long=50)
LATEST_KILL_SECONDS = 6.0
LOST_SECONDS = 5.0
FPS = 12.5
GONE_SECONDS = 2.0
"""How long somebody is not seen before the zone says so."""
MIDDLE = {"from": [0.5, 0.05], "to": [0.5, 0.95]}
CONFIG = """
name: street
sources: {{cam: {{uri: "{url}"}}}}
pipeline:
  - replay: {{path: nobody.txt, format: mot, label: person}}
  - apply: {{function: "{function}:walkers"}}
  - track
  - lines: {{middle: {{from: [0.5, 0.05], to: [0.5, 0.95]}}}}
  - zones: {{gone: 2s, corner: {{polygon: [[0, 0.3], [0.2, 0.3], [0.2, 0.7], [0, 0.7]]}}}}
  - jsonl: {{path: "{{stream}}.jsonl"}}
"""


@dataclass(slots=True)
class Run:
    """One process of several in the same folder."""

    folder: Path
    number: int
    process: subprocess.Popen[bytes]
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """Those that it has written, with the time of day."""

    @property
    def output(self) -> Path:
        return self.folder / f"{self.number}.jsonl"

    def has_begun(self) -> bool:
        """Whether it has written something of a frame."""
        assert self.process.poll() is None
        return self.output.exists() and self.output.stat().st_size > 0

    def read(self) -> None:
        """Read what it has written; the last line may be torn."""
        for line in self.output.read_bytes().split(b"\n")[:-1]:
            frame = json.loads(line)
            moment = datetime.fromisoformat(frame["time"]).timestamp()
            self.events += [(moment, event) for event in frame.get("events", ())]

    def of_kind(self, kind: str) -> list[tuple[float, dict[str, Any]]]:
        return [(moment, event) for moment, event in self.events if event["kind"] == kind]


@contextmanager
def running(folder: Path, *, number: int) -> Iterator[Run]:
    """A run of the configuration in a folder; it is gone afterwards."""
    command = [sys.executable, "-m", "sightline.cli.main", "run", "street.yaml", "-q", "--report", "report.json"]
    command += ["--set", f"pipeline.jsonl.path={number}.jsonl"]
    with subprocess.Popen(command, cwd=folder) as process:
        try:
            yield Run(folder, number, process)
        finally:
            process.kill()


def counted(folder: Path) -> int:
    """How many crossings the state file has, as the next run will read it."""
    file = StateFile(folder / "out" / "street.state", pipeline="street", outputs=Outputs(folder))
    rule = Lines(middle=MIDDLE).watch(None)
    for saved in file.read():
        if saved.step == "lines-1":
            rule.restore(saved.state["rules"])
    return sum(rule.totals()["middle"].values())


@pytest.mark.row(id="C8", long=True)
def test_kills_at_random_moments_lose_no_count_of_before_and_count_none_twice(
    clip: Clip, tmp_path: Path, figure: Record
) -> None:
    chance = random.Random(6)
    ages, runs, total = [0.0], list[Run](), 0
    with FakeCamera(clip.at_fps(FPS)) as camera:
        (tmp_path / "nobody.txt").touch()
        (tmp_path / "street.yaml").write_text(CONFIG.format(url=camera.url, function=walkers.__file__))
        for number in range(KILLS):
            with running(tmp_path, number=number) as run:
                until(run.has_begun)
                time.sleep(chance.uniform(0, LATEST_KILL_SECONDS))
                killed_at = time.time()
                run.process.kill()
                run.process.wait()
            run.read()
            runs.append(run)
            total, before = counted(tmp_path), total
            crossings = run.of_kind("line")
            assert 0 <= total - before <= len(crossings)
            ages += [killed_at - moment for moment, _ in crossings[total - before :]]
        with running(tmp_path, number=KILLS) as last:
            until(last.has_begun)
            (tmp_path / "gone").touch()
            until(lambda: b'"leave"' in last.output.read_bytes())
            last.process.terminate()
            assert last.process.wait() == 0
        last.read()
        runs.append(last)

    totals = json.loads((tmp_path / "report.json").read_text())["totals"]
    assert sum(totals["lines-1"]["cam"]["middle"].values()) == total + len(last.of_kind("line"))
    assert total > 0
    stays = [(moment, event) for run in runs for moment, event in run.of_kind("zone")]
    (came, entered), (went, left) = stays
    assert (entered["direction"], left["direction"]) == ("enter", "leave")
    assert entered["track_id"] == left["track_id"]
    figure(f"{KILLS} kills: age of the oldest count that is lost", max(ages), limit=LOST_SECONDS, unit="s")
    off = abs(left["dwell_seconds"] - (went - GONE_SECONDS - came))
    figure(f"{KILLS} kills: a stay over all of them is off by", off, limit=0.5, unit="s")
