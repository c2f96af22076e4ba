"""A step that is ten times too slow: a camera loses frames, which are counted, a file loses none, nothing piles up."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from sightline import Pipeline
from sightline.testing import FrameOrder, assert_accounted
from sightline.testing.camera import Clip, FakeCamera
from sightline_plugins import Callback
from tests.integration.camera.clips import write_noise
from tests.integration.figures import Record
from tests.integration.live.watching import Watched, until
from tests.integration.many_pipelines import resident_mib

FPS = 100
SLOW_SECONDS = 10 / FPS
SLOW_FRAMES = 20
BUFFER_SECONDS = 2 * SLOW_SECONDS
"""The queue of a camera holds two frames, and the slow step takes so long for them."""
PROMPT = 2.0
"""What a busy machine may add, as a factor."""


def slow(frame: object) -> None:
    """Takes ten intervals of the camera."""
    del frame
    time.sleep(SLOW_SECONDS)


@pytest.mark.row(id="C7")
def test_a_slow_step_gets_new_frames_of_a_camera_and_the_others_are_counted(clip: Clip, figure: Record) -> None:
    steps = [Callback(id="slow", function=slow)]
    with FakeCamera(clip.at_fps(FPS)) as camera, Watched({"cam": camera.url}, steps=steps) as watched:
        watched.has_frames(10)
        first, before_mib = len(watched.frames["cam"]), resident_mib()
        until(lambda: len(watched.frames["cam"]) >= first + SLOW_FRAMES)
        seen, grown_mib = watched.frames["cam"][first:], resident_mib() - before_mib

    ages = [(one.epoch_ns - one.capture_ns) / 1e9 for one in seen if one.capture_ns is not None]
    age = float(np.percentile(ages, 95))
    assert watched.report is not None
    (cam,) = watched.report.streams
    figure("age of what a slow step gets of a camera, 95th percentile", age, limit=2 * BUFFER_SECONDS, unit="s")
    figure("memory, growth meanwhile", max(grown_mib, 0), limit=5.0, unit="MiB")
    assert age <= 2 * BUFFER_SECONDS * PROMPT
    assert grown_mib <= 5
    assert cam.dropped["overloaded"] > SLOW_FRAMES


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
