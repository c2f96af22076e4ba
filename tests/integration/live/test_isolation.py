"""What happens to some cameras is nothing to the others, and many kills leave nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.soak.samples import slope
from tests.integration.camera.clips import write_noise
from tests.integration.figures import DROPS, Record
from tests.integration.live.watching import Watched, until

HURT = ("cam1", "cam4", "cam6")
NAMES = tuple(f"cam{number}" for number in range(8))
WHOLE = tuple(name for name in NAMES if name not in HURT)
FPS = {name: 12.5 if name in HURT else 5.0 for name in NAMES}
"""The queue of a camera holds two frames: those of the whole ones bridge what a busy machine does in four tenths of a
second.
"""
PHASE_SECONDS = 1.0
ROUNDS = 2
TRIALS = 3
"""What the machine did to one trial it does not do to all."""
KILLS = 100
AT_ONCE = 4
"""Cameras that are killed together, of which each kill counts."""

HELD_BACK = 1
"""FFmpeg hands an image on when the next one begins, so the last one of a stream in silence stays with it."""

Cameras = Mapping[str, FakeCamera]
Fault = Callable[[Cameras], AbstractContextManager[None]]


@contextmanager
def killed(cameras: Cameras) -> Iterator[None]:
    for name in HURT:
        cameras[name].kill()
    try:
        yield
    finally:
        for name in HURT:
            cameras[name].restart()


@contextmanager
def stalled(cameras: Cameras) -> Iterator[None]:
    for name in HURT:
        cameras[name].faults.stall = True
    try:
        yield
    finally:
        for name in HURT:
            cameras[name].faults.stall = False


@contextmanager
def corrupted(cameras: Cameras) -> Iterator[None]:
    for name in HURT:
        cameras[name].faults.corruption = 0.3
    try:
        yield
    finally:
        for name in HURT:
            cameras[name].faults.corruption = 0.0


FAULTS: Mapping[str, Fault] = {"killed": killed, "stalled": stalled, "corrupted": corrupted}


def dropped(watched: Watched) -> int:
    """Frames of the whole cameras that were dropped so far."""
    return sum(status.dropped for status in watched.pipeline.status() if status.name in WHOLE)


def received(watched: Watched) -> dict[str, int]:
    """Frames received so far."""
    return {status.name: status.frames for status in watched.pipeline.status()}


def latencies_ms(watched: Watched) -> list[float]:
    """Let some time pass; the latencies in it of frames of the whole cameras, from when they were taken."""
    begin = time.monotonic()
    time.sleep(PHASE_SECONDS)
    return [
        (seen.epoch_ns - seen.capture_ns) / 1e6
        for name in WHOLE
        for seen in watched.frames[name]
        if seen.at_seconds >= begin and seen.capture_ns is not None
    ]


@dataclass(slots=True)
class Trial:
    """How five cameras fared while the three others were in trouble: latencies in ms and dropped frames, by fault."""

    calm_ms: list[float] = field(default_factory=list)
    troubled_ms: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in FAULTS})
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAULTS, 0))
    sent: dict[str, int] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    troubles: dict[str, int] = field(default_factory=dict)

    @property
    def calm_p95_ms(self) -> float:
        """While all was well."""
        return float(np.percentile(self.calm_ms, 95))

    def p95_ms(self, fault: str) -> float:
        """While others had this fault."""
        return float(np.percentile(self.troubled_ms[fault], 95))

    @property
    def is_undisturbed(self) -> bool:
        """Whether everything is within the limits."""
        return not any(self.dropped.values()) and all(self.p95_ms(name) <= 1.2 * self.calm_p95_ms for name in FAULTS)


def endure(watched: Watched, cameras: Cameras, trial: Trial) -> None:
    """Calm and each trouble take turns."""
    for name in [*FAULTS] * ROUNDS:
        trial.calm_ms += latencies_ms(watched)
        before = dropped(watched)
        with FAULTS[name](cameras):
            trial.troubled_ms[name] += latencies_ms(watched)
        trial.dropped[name] += dropped(watched) - before
        back = time.monotonic()
        for hurt in HURT:
            watched.first_after(hurt, back)


def tried(clip: Clip) -> Trial:
    """Eight cameras in trouble and out of it; then the five fall silent, so that what they sent can be counted."""
    trial = Trial()
    with ExitStack() as stack:
        cameras = {name: stack.enter_context(FakeCamera(clip.at_fps(FPS[name]))) for name in NAMES}
        stalls = {name: "500ms" if name in HURT else "5s" for name in NAMES}
        sources = {name: {"uri": cameras[name].url, "stall_timeout": stalls[name]} for name in NAMES}
        with Watched(sources, batch={"timeout": "5ms"}) as watched:
            watched.has_frames(10)
            endure(watched, cameras, trial)
            for name in WHOLE:
                cameras[name].faults.stall = True
            trial.sent = {name: cameras[name].sent.images for name in WHOLE}  # or one more, which is on its way
            until(lambda: all(received(watched)[name] >= trial.sent[name] - HELD_BACK for name in WHOLE))
    assert watched.report is not None
    streams = {stream.stream.name: stream for stream in watched.report.streams}
    trial.received = {name: streams[name].received for name in WHOLE}
    trial.troubles = {name: streams[name].reconnects + streams[name].damaged for name in HURT}
    return trial


@pytest.fixture(scope="module")
def trial(clip: Clip) -> Trial:
    """The first trial that the machine did not disturb, or the last."""
    for _ in range(TRIALS):
        done = tried(clip)
        if done.is_undisturbed:
            break
    return done


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("killed", marks=pytest.mark.row(id="A1")),
        pytest.param("stalled", marks=pytest.mark.row(id="A2")),
        pytest.param("corrupted", marks=pytest.mark.row(id="A6")),
    ],
)
def test_three_cameras_in_trouble_cost_five_others_no_frame_and_no_time(
    trial: Trial, fault: str, figure: Record
) -> None:
    ratio = trial.p95_ms(fault) / trial.calm_p95_ms
    figure(f"three of eight {fault}: frames that the others lose", trial.dropped[fault], limit=0, unit=DROPS)
    figure(f"three of eight {fault}: 95th percentile of the others' latency, to before", ratio, limit=1.2, unit="x")


def test_trouble_of_others_takes_nothing_from_what_five_cameras_sent(trial: Trial) -> None:
    assert all(trial.received[name] >= count - HELD_BACK for name, count in trial.sent.items()), trial
    assert all(trial.troubles.values())


@pytest.mark.row(id="A1")
def test_many_kills_in_a_row_leave_nothing_behind(repository: Path, tmp_path: Path, figure: Record) -> None:
    clip = write_noise(tmp_path / "clip.mp4")
    command = [sys.executable, "-m", "tests.integration.live.many_kills", str(clip), str(KILLS), str(AT_ONCE)]

    done = subprocess.run(
        command, cwd=repository, env={**os.environ, "MALLOC_ARENA_MAX": "1"}, capture_output=True, check=True
    )

    first, *others = [json.loads(line) for line in done.stdout.splitlines()]
    memory = [held["mib"] for held in others]
    growth = slope(range(len(memory)), memory) * len(memory)
    figure(f"memory, growth in {KILLS} kills in a row, by slope", max(growth, 0.0), limit=5.0, unit="MiB")
    assert others[-1]["kills"] == others[-1]["reconnects"] - first["reconnects"] == KILLS
    assert growth <= 10
