"""Packets that are lost or damaged on the way: counted, marked, and survived."""

from __future__ import annotations

import time

import pytest

from sightline.testing.camera import Clip, FakeCamera
from tests.integration.live.conftest import Record
from tests.integration.live.watching import Watched, until

RATE = 100
WATCH_FRAMES = 600


@pytest.mark.parametrize("transport", ["udp", "tcp"])
@pytest.mark.parametrize("loss", [0.01, 0.05, 0.3])
def test_lost_packets_are_counted_and_their_frames_are_marked(
    clip: Clip, transport: str, loss: float, figure: Record
) -> None:
    with FakeCamera(clip.at_fps(RATE)) as camera:
        with Watched({"cam": {"uri": camera.url, "transport": transport}}) as watched:
            watched.has_frames(5)
            camera.faults.loss = loss
            until(lambda: camera.sent.pictures > WATCH_FRAMES)
            camera.faults.loss = 0
            whole_after = time.monotonic()
            until(lambda: not watched.first_after("cam", time.monotonic()).damaged)
        lost = camera.sent.lost_packets

    assert watched.report is not None
    (cam,) = watched.report.streams
    counted = cam.lost_packets / lost
    figure("A5", f"{loss:.0%} loss over {transport}: counted of those lost", counted, limit=1.2, unit="x")
    assert 0.8 <= counted <= 1.2
    assert cam.damaged > 0
    assert time.monotonic() - whole_after < 10


def test_frames_are_whole_until_the_first_loss_and_from_the_next_whole_key_frame_on(clip: Clip) -> None:
    with FakeCamera(clip) as camera, Watched({"cam": {"uri": camera.url, "transport": "udp"}}) as watched:
        watched.has_frames(15)
        camera.faults.loss = 0.5
        until(lambda: camera.sent.lost_packets > 4)
        camera.faults.loss = 0
        watched.has_frames(len(watched.frames["cam"]) + 25)

    marks = "".join("x" if seen.damaged else "." for seen in watched.frames["cam"])
    assert marks.strip(".").strip("x") == ""
    assert marks.startswith(".....")
    assert marks.endswith(".....")
    assert "x" in marks


def test_damaged_frames_can_be_left_out_and_are_counted(clip: Clip) -> None:
    skipping = {"transport": "udp", "damaged": "skip"}
    with FakeCamera(clip) as camera, Watched({"cam": {"uri": camera.url, **skipping}}) as watched:
        watched.has_frames(5)
        camera.faults.loss = 0.3
        until(lambda: camera.sent.lost_packets > 10)
        camera.faults.loss = 0
        watched.has_frames(len(watched.frames["cam"]) + 15)

    assert watched.report is not None
    (cam,) = watched.report.streams
    assert cam.dropped["damaged"] > 0
    assert cam.damaged == 0
    assert not any(seen.damaged for seen in watched.frames["cam"])


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_corrupted_packets_end_nothing(clip: Clip, transport: str) -> None:
    with FakeCamera(clip.at_fps(RATE)) as camera:
        camera.faults.corruption = 0.05
        with Watched({"cam": {"uri": camera.url, "transport": transport}}) as watched:
            watched.has_frames(300)
            camera.faults.corruption = 0
            until(lambda: not watched.first_after("cam", time.monotonic()).damaged)

    assert watched.report is not None
    (cam,) = watched.report.streams
    assert cam.damaged > 0
