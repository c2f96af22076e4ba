"""Cameras whose clocks jump, wrap, stand still or lie."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import pytest

from sightline.graph import MessageKind, StreamState
from sightline.graph.site import SystemClock
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from tests.integration.camera.clips import noise_clip
from tests.integration.figures import Record
from tests.integration.live.watching import Seen, Watched, until

SETTLING_SECONDS = 2.0
HOUR = 3600.0
TROUBLE = {MessageKind.STREAM_LOST, MessageKind.STREAM_STALLED, MessageKind.WARNING}


def errors_ms(frames: Sequence[Seen], *, before: float, after: float) -> list[float]:
    """How far the time of each frame after a moment is off its arrival, counted from the frames before the trouble (the
    middle one of their distances); a constant offset that the trouble left behind counts in full.
    """
    off = [(seen.at_seconds - seen.pts_ns / 1e9, seen.at_seconds) for seen in frames]
    usual = statistics.median(distance for distance, at in off if at < before)
    return sorted(abs(distance - usual) * 1000 for distance, at in off if at >= after)


@pytest.fixture(scope="module")
def b_frames(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    return noise_clip(tmp_path_factory.mktemp("clips"), b_frames=2)


@pytest.mark.row(id="A8")
def test_time_rises_and_keeps_to_the_clock_whatever_cameras_say(clip: Clip, b_frames: Clip, figure: Record) -> None:
    names = ("calm", "ahead", "behind", "wrap", "zero", "doubled", "b_frames")
    with FakeCamera({name: b_frames if name == "b_frames" else clip for name in names}) as camera:
        faults = {name: camera.mounts[name].faults for name in names}
        faults["wrap"].wrap = 2.0
        with Watched({name: camera.url_of(name) for name in names}) as watched:
            watched.has_frames(30)
            faults["ahead"].jump, faults["behind"].jump = HOUR, -HOUR
            faults["zero"].timestamps, faults["doubled"].timestamps = "zero", "doubled"
            since = time.monotonic()
            until(lambda: time.monotonic() > since + SETTLING_SECONDS + 1)

    assert watched.report is not None
    settled = since + SETTLING_SECONDS
    errors = {name: errors_ms(watched.frames[name], before=since, after=settled) for name in names}
    repaired = {stream.stream.name: stream.repaired_timestamps for stream in watched.report.streams}
    for name, error in errors.items():
        what = f"{name.replace('_', '-')}: frames off their arrival after 2 s, worst"
        figure(what, error[-1], limit=100, unit="ms")
    assert all(repaired[name] > 0 for name in ("ahead", "behind", "zero", "doubled")), repaired


@pytest.mark.row(id="A9")
def test_a_sender_report_that_lies_is_not_believed(clip: Clip, figure: Record) -> None:
    names: tuple[Literal["true", "none", "1970", "future"], ...] = ("true", "none", "1970", "future")
    with FakeCamera({str(name): clip for name in names}) as camera:
        for name in names:
            camera.mounts[name].faults.reports = name
        with Watched({str(name): camera.url_of(name) for name in names}) as watched:
            watched.has_frames(40)

    sources = {name: {seen.time_source for seen in watched.frames[name][10:]} for name in names}
    seen_frames = [seen for name in names for seen in watched.frames[name][10:]]
    assert all(seen.capture_ns is not None for seen in seen_frames)
    farthest = max(abs((seen.capture_ns or 0) - seen.epoch_ns) / 1e9 for seen in seen_frames)
    figure("capture time off the clock, worst frame", farthest, limit=300, unit="s")
    assert sources == {"true": {"rtcp"}, "none": {"arrival"}, "1970": {"arrival"}, "future": {"arrival"}}
    assert farthest < 300


def test_capture_times_are_the_camera_s_to_a_few_milliseconds(clip: Clip) -> None:
    with FakeCamera(clip) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(40)

    steps = [seen.capture_ns for seen in watched.frames["cam"] if seen.time_source == "rtcp"]
    first, last = (watched.frames["cam"][number] for number in (10, -1))
    assert first.capture_ns is not None
    assert last.capture_ns is not None
    assert len(steps) > 30
    assert last.capture_ns - first.capture_ns == pytest.approx(last.pts_ns - first.pts_ns, abs=2_000_000)


class SteppedClock(SystemClock):
    """The machine's clock, but somebody sets the time of day; what only ever grows is left alone."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def epoch_ns(self) -> int:
        return super().epoch_ns() + round(self.ahead_seconds * 1e9)


@pytest.mark.row(id="A10")
def test_a_host_s_clock_that_is_set_is_nothing_to_a_stream(clip: Clip, figure: Record) -> None:
    clock = SteppedClock()
    with (
        FakeCamera(clip, options=CameraOptions(report_seconds=0.4)) as camera,
        Watched({"cam": camera.url}, clock=clock) as watched,
    ):
        watched.has_frames(20)
        since = time.monotonic()
        for ahead_seconds in (HOUR, -HOUR, 0.0):
            clock.ahead_seconds = ahead_seconds
            watched.has_frames(len(watched.frames["cam"]) + 20)
        told = [told.message.text for told in watched.told if told.message.kind in TROUBLE]

    error_ms = statistics.median(errors_ms(watched.frames["cam"], before=since, after=since))
    gap = max(later.at_seconds - earlier.at_seconds for earlier, later in pairwise(watched.frames["cam"]))
    figure("frames off their arrival, median", error_ms, limit=100, unit="ms")
    figure("without frames", gap, limit=1.0, unit="s")
    figure("stalls, losses, warnings", len(told), limit=0, unit="messages")
    assert not told
    assert {seen.time_source for seen in watched.frames["cam"]} == {"rtcp", "arrival"}


def test_after_a_jump_arrival_stands_in_until_the_next_report(clip: Clip) -> None:
    with (
        FakeCamera(clip, options=CameraOptions(report_seconds=0.4)) as camera,
        Watched({"cam": camera.url}) as watched,
    ):
        watched.has_frames(15)
        camera.faults.jump = 100.0
        watched.has_frames(45)

    off_seconds = [abs((seen.capture_ns or 0) - seen.epoch_ns) / 1e9 for seen in watched.frames["cam"]]
    assert max(off_seconds[10:]) < 50, "the jump was 100 s"


def test_the_last_frames_of_a_camera_that_dies_keep_their_times(b_frames: Clip) -> None:
    with FakeCamera(b_frames) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(60)
        camera.kill()
        watched.has_state(StreamState.LOST, stream="cam")

    steps_ns = [later.pts_ns - earlier.pts_ns for earlier, later in pairwise(watched.frames["cam"])]
    assert min(steps_ns[-3:]) > 1_000_000_000 / 25 / 2
