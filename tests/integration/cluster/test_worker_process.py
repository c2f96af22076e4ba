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
from sightline.graph.outputs import Outputs
from sightline_plugins.commands.cluster.charter import Charter
from sightline_plugins.commands.cluster.job import Job, Machine
from sightline_plugins.commands.cluster.keeper import WorkerKeeper, end_worker
from sightline_plugins.commands.cluster.process import holder_of
from sightline_plugins.commands.cluster.program import ControllerProgram
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
  store: site.cluster
  prove: 300ms
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
        self.config, self.folder = path, folder
        self.charter = self.read()
        self.job = self.charter.job
        self.machine = Machine("w1", "127.0.0.1", 100.0, 10, {"site": "north"}, str(self.outputs))
        self.log = folder / "site.cluster.events.jsonl"
        self.program = ControllerProgram(self.charter)

    def read(self) -> Charter:
        """What the file describes now."""
        outputs = Outputs(self.folder)
        return Charter.of(load_description(self.config), address=("127.0.0.1", self.port), outputs=outputs)

    def change(self, old: str, new: str) -> None:
        """Change the file, and give the controller what it describes."""
        self.config.write_text(self.config.read_text().replace(old, new))
        self.program.want(self.read())

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


def test_a_worker_of_another_job_is_replaced(scene: Scene) -> None:
    first = scene.keeper()
    wait_until(lambda: scene.frames("gate"))
    before = scene.pid()
    first.stop()

    second = scene.keeper(replace(scene.job, lease_ns=50_000_000_000))
    wait_until(lambda: scene.pid() != before)
    second.stop()


def test_steps_change_in_the_process_that_runs_and_other_settings_in_a_new_one(scene: Scene) -> None:
    keeper = scene.keeper()
    wait_until(lambda: scene.frames("gate"))
    before = scene.pid()

    scene.change("{stream}.jsonl", "{stream}-new.jsonl")
    wait_until(lambda: scene.frames("gate-new") and any("runs everywhere" in text for text in scene.causes()))
    assert scene.pid() == before

    scene.change("name: site", "name: site\noverwrite: true")
    wait_until(lambda: sum("runs everywhere" in text for text in scene.causes()) == 2)
    keeper.stop()

    assert scene.pid() != before
    assert not any("rolled back" in text for text in scene.causes())


def test_a_worker_without_a_file_goes_on_with_what_it_runs_until_it_has_the_file(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracks = tmp_path / "tracks.txt"
    tracks.write_text("1,1,1,1,10,10,1,-1,-1,-1\n")
    keeper = scene.keeper()
    wait_until(lambda: scene.frames("gate"))
    before = scene.pid()
    step = f"- replay: {{path: {tracks}, format: mot, label: car}}\n- jsonl"
    scene.config.write_text(scene.config.read_text().replace("- jsonl", step))
    wanted = scene.read()
    tracks.rename(tmp_path / "elsewhere.txt")
    scene.program.want(wanted)
    wait_until(lambda: any("rolled back" in text for text in scene.causes()))

    (why,) = (text for text in scene.causes() if "rolled back" in text)
    assert f"w1 cannot run it: {tracks} is not there: copy it from the head" in why
    controller = ["--controller", f"127.0.0.1:{scene.port}"]
    assert execute(["cluster", "status", *controller]) == 0
    shown = capsys.readouterr().out
    assert f"was rolled back: w1 cannot run it: {tracks} is not there" in shown
    assert "sightline cluster retry" in shown
    count = scene.frames("gate")
    wait_until(lambda: scene.frames("gate") > count)

    tracks.write_text("1,1,1,1,99,99,1,-1,-1,-1\n")
    assert execute(["cluster", "retry", *controller]) == 0
    wait_until(lambda: any("has another content than at the head" in text for text in scene.causes()))
    (tmp_path / "elsewhere.txt").rename(tracks)
    assert execute(["cluster", "retry", *controller]) == 0
    wait_until(lambda: any("runs everywhere" in text for text in scene.causes()))
    keeper.stop()
    assert scene.pid() == before
    assert execute(["cluster", "retry", *controller]) == 2
    assert "there is nothing to try again" in capsys.readouterr().err


def test_a_worker_that_was_left_is_ended_by_a_command(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    keeper = scene.keeper()
    wait_until(lambda: scene.frames("gate"))
    keeper.stop()

    assert execute(["cluster", "stop", "--output-root", str(scene.outputs)]) == 0
    assert holder_of(scene.outputs) is None
    assert execute(["cluster", "stop", "--output-root", str(scene.outputs)]) == 2
    assert "no worker of" in capsys.readouterr().err
