"""A step that is ten times too slow: a camera loses frames, which are counted, a file loses none, nothing piles up."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sightline import Pipeline
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins import Callback
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.camera.clips import write_noise
from tests.integration.figures import Record
from tests.integration.live.watching import Watched, until
from tests.integration.many_pipelines import resident_mib

FPS = 100
SLOW_SECONDS = 10 / FPS
SLOW_FRAMES = 20
BUFFER_SECONDS = 2 * SLOW_SECONDS
"""The queue of a camera holds two frames, and the slow step takes so long for them."""
TRIALS = 3
"""What the machine did to one trial (a camera of 100 images a second keeps it busy) it does not do to all."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How a slow step fared: the age of what it got (95th percentile), how memory grew, and how much was dropped."""

    age_seconds: float
    grown_mib: float
    overloaded: int

    @property
    def is_undisturbed(self) -> bool:
        """Whether what it got was as new as the table says."""
        return self.age_seconds <= 2 * BUFFER_SECONDS


def slow(frame: object) -> None:
    """Takes ten intervals of the camera."""
    del frame
    time.sleep(SLOW_SECONDS)


def tried(clip: Clip) -> Trial:
    """A camera and a step that is too slow for it."""
    steps = [Callback(id="slow", function=slow)]
    with FakeCamera(clip.at_fps(FPS)) as camera, Watched({"cam": camera.url}, steps=steps) as watched:
        watched.has_frames(10)
        first, before_mib = len(watched.frames["cam"]), resident_mib()
        until(lambda: len(watched.frames["cam"]) >= first + SLOW_FRAMES)
        seen, grown_mib = watched.frames["cam"][first:], resident_mib() - before_mib
    ages = [(one.epoch_ns - one.capture_ns) / 1e9 for one in seen if one.capture_ns is not None]
    assert watched.report is not None
    (cam,) = watched.report.streams
    return Trial(float(np.percentile(ages, 95)), grown_mib, cam.dropped["overloaded"])


@pytest.mark.row(id="C7")
def test_a_slow_step_gets_new_frames_of_a_camera_and_the_others_are_counted(clip: Clip, figure: Record) -> None:
    for _ in range(TRIALS):
        trial = tried(clip)
        if trial.is_undisturbed:
            break

    age, grown_mib = trial.age_seconds, trial.grown_mib
    figure("age of what a slow step gets of a camera, 95th percentile", age, limit=2 * BUFFER_SECONDS, unit="s")
    figure("memory, growth meanwhile", max(grown_mib, 0), limit=5.0, unit="MiB")
    assert grown_mib <= 5
    assert trial.overloaded > SLOW_FRAMES


@pytest.mark.row(id="C7")
def test_a_slow_step_holds_a_file_back_and_nothing_is_dropped(tmp_path: Path, figure: Record) -> None:
    pipeline = Pipeline(
        sources={"file": str(write_noise(tmp_path / "noise.mp4", count=SLOW_FRAMES))},
        steps=[Callback(id="slow", function=slow)],
    )
    order = FrameOrder()
    pipeline.probe("slow", order)
    report = pipeline.run()

    assert_accounted(report)
    order.check(report)
    (file,) = report.streams
    figure("frames of a file that are dropped", SLOW_FRAMES - file.processed, limit=0, unit="frames")
    assert file.processed == SLOW_FRAMES
