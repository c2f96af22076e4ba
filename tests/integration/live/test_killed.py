"""Runs on cameras that are killed or asked to end at random moments: what was written can be read."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import av.error
import pytest

from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.camera.clips import FPS
from tests.integration.encode.clips import read_back
from tests.integration.figures import Record, form
from tests.integration.live.watching import until

KILLS = form(10, long=50)
LOST_SECONDS = 2.0
CLOSED_SECONDS = 5.0
SIGNALS = {"term": signal.SIGTERM, "int": signal.SIGINT}
LATEST_KILL_SECONDS = 5.0
AT_ONCE = 5
"""Runs side by side, each on a camera of its own."""
PATIENCE_SECONDS = 300.0
CONFIG = """
sources: {{cam: {{uri: "{url}"}}}}
pipeline:
  - jsonl: {{path: run.jsonl}}
  - video: {{path: run.mp4}}
  - video: {{path: run.mkv}}
"""


@contextmanager
def running(folder: Path, *, url: str) -> Iterator[subprocess.Popen[str]]:
    """A run on a camera, in a process of its own; it is gone afterwards."""
    folder.mkdir(exist_ok=True)
    (folder / "run.yaml").write_text(CONFIG.format(url=url))
    command = [sys.executable, "-m", "sightline.cli.main", "run", "run.yaml", "-q"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def seconds_readable(folder: Path) -> dict[str, float]:
    """How much of the camera's time each file holds; every line of the records but the last must be whole.

    A video that does not open, because nothing of it was complete yet, holds nothing.
    """
    lines = (folder / "run.jsonl").read_bytes().split(b"\n")
    frames = [json.loads(line)["frame"] for line in lines[:-1]]
    assert frames == sorted(frames)
    held = {"jsonl": (frames[-1] + 1) / FPS if frames else 0.0}
    for suffix in ("mp4", "mkv"):
        held[suffix] = 0.0
        with suppress(av.error.InvalidDataError, av.error.EOFError):
            times_ns = read_back(folder / f"run.{suffix}").times_ns()
            held[suffix] = (times_ns[-1] - times_ns[0]) / 1e9 + 1 / FPS if times_ns else 0.0
    return held


@pytest.mark.row(id="C5", long=True)
def test_kills_at_random_moments_cost_at_most_two_seconds_of_any_file(
    clip: Clip, tmp_path: Path, figure: Record
) -> None:
    chance = random.Random(4)
    lost: list[float] = []
    for first in range(0, KILLS, AT_ONCE):
        names = [f"run{number}" for number in range(first, min(first + AT_ONCE, KILLS))]
        moments = {name: chance.uniform(1.0, LATEST_KILL_SECONDS) for name in names}
        with FakeCamera(dict.fromkeys(names, clip)) as camera:
            lost += killed(camera, moments, folder=tmp_path)

    assert len(lost) == KILLS * 3
    figure(f"lost of MP4, MKV and JSONL of a run, {KILLS} kills, worst", max(lost), limit=LOST_SECONDS, unit="s")


def reaches(camera: FakeCamera, name: str, *, seconds: float) -> None:
    """Wait until a camera has sent so much."""
    sent = camera.mounts[name].sent
    until(lambda: sent.images / FPS >= seconds, seconds=PATIENCE_SECONDS)


def killed(camera: FakeCamera, moments: dict[str, float], *, folder: Path) -> list[float]:
    """What each file of each run lacks when it is killed after its camera has sent so many seconds."""
    sent: dict[str, float] = {}
    with ExitStack() as stack:
        runs = {name: stack.enter_context(running(folder / name, url=camera.url_of(name))) for name in moments}
        for name in sorted(moments, key=moments.__getitem__):
            reaches(camera, name, seconds=moments[name])
            runs[name].send_signal(signal.SIGKILL)
            sent[name] = camera.mounts[name].sent.images / FPS
    return [sent[name] - held for name in moments for held in seconds_readable(folder / name).values()]


@pytest.mark.row(id="C6")
def test_a_signal_closes_everything_within_five_seconds(clip: Clip, tmp_path: Path, figure: Record) -> None:
    with FakeCamera(dict.fromkeys(SIGNALS, clip)) as camera, ExitStack() as stack:
        runs = {name: stack.enter_context(running(tmp_path / name, url=camera.url_of(name))) for name in SIGNALS}
        for name in SIGNALS:
            reaches(camera, name, seconds=2.0)
        took = {name: ended(runs[name], number) for name, number in SIGNALS.items()}

    for name, seconds in took.items():
        held = seconds_readable(tmp_path / name)
        figure("all closed", seconds, limit=CLOSED_SECONDS, unit="s")
        assert runs[name].returncode == (0 if name == "term" else 130)
        assert held["mp4"] == pytest.approx(held["mkv"], abs=0.01)


def ended(process: subprocess.Popen[str], number: signal.Signals) -> float:
    """How long it takes a run to end after a signal."""
    begun = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_SECONDS)
    return time.monotonic() - begun
