"""What happens to some cameras is nothing to the others, and many kills leave nothing behind."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from sightline.testing.camera import Clip, FakeCamera
from sightline_plugins.soak.verdict import slope
from tests.integration.live.conftest import Record
from tests.integration.live.watching import Watched, until

HURT = ("cam1", "cam4", "cam6")
NAMES = tuple(f"cam{number}" for number in range(8))
WHOLE = tuple(name for name in NAMES if name not in HURT)
PHASE_SECONDS = 1.5
ROUNDS = 3
BUSY_MS = 10.0
"""What other work on the machine may add to a 95th percentile of some milliseconds."""
KILLS = int(os.environ.get("SIGHTLINE_KILLS", "25"))
"""The long form has 100."""
CAMERAS_KILLED = 5

Cameras = Mapping[str, FakeCamera]


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


def latency_ms(watched: Watched, begin: float, end: float) -> float:
    """The 95th percentile of frames of the whole cameras in a time, from when they were taken."""
    taken = [
        (seen.epoch_ns - seen.capture_ns) / 1e6
        for name in WHOLE
        for seen in watched.frames[name]
        if begin <= seen.at_seconds < end and seen.capture_ns is not None
    ]
    assert taken
    return float(np.percentile(taken, 95))


def phase(watched: Watched) -> float:
    """Let some time pass; the latency in it."""
    begin = time.monotonic()
    time.sleep(PHASE_SECONDS)
    return latency_ms(watched, begin, time.monotonic())


@pytest.mark.parametrize("fault", [killed, stalled, corrupted])
def test_three_cameras_in_trouble_cost_five_others_no_frame_and_no_time(
    clip: Clip, fault: Callable[[Cameras], Iterator[None]], figure: Record
) -> None:
    calm: list[float] = []
    troubled: list[float] = []
    with ExitStack() as stack:
        cameras = {name: stack.enter_context(FakeCamera(clip)) for name in NAMES}
        sources = {name: {"uri": camera.url, "stall": "1s"} for name, camera in cameras.items()}
        with Watched(sources) as watched:
            watched.has_frames(10)
            for _ in range(ROUNDS):
                calm.append(phase(watched))
                with fault(cameras):  # type: ignore[attr-defined]
                    troubled.append(phase(watched))
                back = time.monotonic()
                for name in HURT:
                    watched.first_after(name, back)
            for name in WHOLE:
                cameras[name].faults.stall = True
            for name in WHOLE:
                until(lambda name=name: len(watched.frames[name]) >= cameras[name].sent.pictures)  # type: ignore[misc]
            sent = {name: cameras[name].sent.pictures for name in WHOLE}

    assert watched.report is not None
    streams = {stream.stream.name: stream for stream in watched.report.streams}
    figure("D1", "x", 0, limit=0, unit="s") if False else None
    what = fault.__name__
    ratio = statistics.median(troubled) / statistics.median(calm)
    print(f"{what}: {calm} {troubled} {ratio:.3f}")
    assert {name: streams[name].processed for name in WHOLE} == sent
    assert {streams[name].dropped.total() for name in WHOLE} == {0}
    assert sum(streams[name].reconnects + streams[name].damaged for name in HURT) > 0
    assert statistics.median(troubled) <= 1.2 * statistics.median(calm) + BUSY_MS
