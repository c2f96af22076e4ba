"""The processes of a cluster without Ray: controller, keeper, and the worker that the keeper starts."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sightline.cli.main import execute
from sightline.config import load_description
from sightline_plugins.commands.cluster.job import Job, Machine, job_of, options_of, settings_of, streams_of, version_of
from sightline_plugins.commands.cluster.keeper import WorkerKeeper, end_worker
from sightline_plugins.commands.cluster.process import holder_of
from sightline_plugins.commands.cluster.program import Charter, ControllerProgram
from tests.ports import free_port
from tests.waiting import wait_until

TOKEN = "0123456789abcdef" * 4
CONFIG = """
name: site
sources:
  gate: {pattern: counter, size: [64, 48], fps: 10, frames: null, realtime: true}
  yard: {pattern: counter, size: [64, 48], fps: 10, frames: null, realtime: true}
cluster:
  heartbeat: 300ms
  lease: 60s
  fps: 10
  streams: {yard: {requires: {site: north}}}
pipeline:
- jsonl: "{stream}.jsonl"
"""


class Scene:
    """A controller, and what its worker runs."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port, self.outputs = port, folder / "worker"
        path = folder / "site.yaml"
        path.write_text(CONFIG)
        description = load_description(path)
        self.job = job_of(description, ("127.0.0.1", port))
        self.machine = Machine("w1", "127.0.0.1", 100.0, 10, {"site": "north"}, str(self.outputs))
        store = folder / "site.cluster"
        self.log = folder / "site.cluster.events.jsonl"
        charter = Charter.of(
            streams_of(description),
            address=("127.0.0.1", port),
            store=store,
            version=version_of(description),
            options=options_of(settings_of(description)),
        )
        self.program = ControllerProgram(charter)

    def frames(self, stream: str) -> int:
        """How many frames of a stream the worker has written."""
        path = self.outputs / f"{stream}.jsonl"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def causes(self) -> list[str]:
        """What the controller has reported."""
        return [json.loads(line)["text"] for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def keeper(self, job: Job | None = None) -> WorkerKeeper:
        """A keeper that looks after the worker."""
        keeper = WorkerKeeper(job or self.job, self.machine)
        keeper.start()
        return keeper

    def pid(self) -> int:
        """The worker's process."""
        wait_until(lambda: (holder := holder_of(self.outputs)) is not None and holder.pid)
        holder = holder_of(self.outputs)
        assert holder is not None
        return holder.pid


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("SIGHTLINE_CLUSTER_TOKEN", TOKEN)
    scene = Scene(tmp_path, free_port())
    yield scene
    end_worker(scene.outputs, timeout_seconds=300)
    scene.program.close()


def test_a_worker_outlives_its_keeper_and_is_started_again_when_it_is_killed(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    first = scene.keeper()
    wait_until(lambda: scene.frames("gate") and scene.frames("yard"))
    before = scene.pid()
    first.stop()

    second = scene.keeper()
    assert scene.pid() == before
    assert execute(["cluster", "status", "--controller", f"127.0.0.1:{scene.port}"]) == 0
    shown = capsys.readouterr().out
    assert "2 streams on 1 workers" in shown
    assert "site=north" in shown

    os.kill(before, signal.SIGKILL)
    wait_until(lambda: scene.pid() != before)
    wait_until(lambda: any("goes on at w1" in text and "has ended" in text for text in scene.causes()))
    second.stop()
    assert end_worker(scene.outputs, timeout_seconds=300)
    assert holder_of(scene.outputs) is None
    wait_until(
        lambda: sum("the worker w1 has ended" in text and "start elsewhere" in text for text in scene.causes()) == 2
    )


def test_a_worker_with_another_configuration_is_replaced(scene: Scene) -> None:
    first = scene.keeper()
    wait_until(lambda: scene.frames("gate"))
    before = scene.pid()
    first.stop()

    pipeline = {**scene.job.pipeline, "pipeline": [{"jsonl": {"path": "{stream}-new.jsonl"}}]}
    second = scene.keeper(replace(scene.job, pipeline=pipeline))
    wait_until(lambda: scene.frames("gate-new"))
    second.stop()

    assert scene.pid() != before


def test_a_worker_whose_files_differ_is_refused(scene: Scene, tmp_path: Path) -> None:
    log = scene.outputs / "worker.log"
    other = {**scene.job.pipeline, "pipeline": [*scene.job.pipeline["pipeline"], *_replaying(tmp_path)]}
    keeper = scene.keeper(replace(scene.job, pipeline=other))
    wait_until(lambda: log.exists() and "the controller refuses the worker w1" in log.read_text())
    keeper.stop()

    assert "install the same version of Sightline and the same models on all machines" in log.read_text()
    assert scene.frames("gate") == 0


def _replaying(folder: Path) -> list[dict[str, object]]:
    """A step that reads a file which the controller's pipeline does not."""
    path = folder / "tracks.txt"
    path.write_text("1,1,1,1,10,10,1,-1,-1,-1\n")
    return [{"replay": {"path": str(path), "format": "mot", "label": "car"}}]
