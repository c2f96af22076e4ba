"""Packets that are lost or damaged on the way: counted, marked, and survived."""

from __future__ import annotations

import time

import pytest

from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.figures import Record, form
from tests.integration.live.watching import Watched, until
from tests.integration.many_pipelines import resident_mib

RATE = 50
WATCH_FRAMES = 200
LOSSES = (0.01, 0.05, 0.3)
TRANSPORTS = ("tcp", "udp")
CORRUPTION = 0.05
CORRUPTED_SECONDS = form(4.0, long=600.0)
WHOLE_AGAIN_SECONDS = 10.0


def whole_again(watched: Watched) -> float:
    """How long it takes until a frame of every stream is whole."""
    return until(lambda: not any(watched.first_after(name, time.monotonic()).damaged for name in watched.sources))


@pytest.mark.row(id="A5")
def test_lost_packets_are_counted_and_their_frames_are_marked(clip: Clip, figure: Record) -> None:
    losses = {f"{transport}-{loss}": loss for transport in TRANSPORTS for loss in LOSSES}
    with FakeCamera(dict.fromkeys(losses, clip.at_fps(RATE))) as camera:
        sources = {name: {"uri": camera.url_of(name), "transport": name[:3]} for name in losses}
        with Watched(sources) as watched:
            watched.has_frames(5)
            for name, loss in losses.items():
                camera.mounts[name].faults.loss = loss
            until(lambda: all(mount.sent.images > WATCH_FRAMES for mount in camera.mounts.values()))
            for mount in camera.mounts.values():
                mount.faults.loss = 0
            whole_again(watched)

    assert watched.report is not None
    streams = {stream.stream.name: stream for stream in watched.report.streams}
    off = {name: abs(streams[name].lost_packets / camera.mounts[name].sent.lost_packets - 1) for name in losses}
    for name, loss in losses.items():
        figure(f"{loss:.0%} lost: the count is off by", off[name] * 100, limit=20, unit="%")
    assert max(off.values()) <= 0.2, off
    assert all(stream.damaged for stream in streams.values())


def test_frames_are_whole_until_the_first_loss_and_from_the_next_whole_key_frame_on(clip: Clip) -> None:
    with FakeCamera(clip) as camera, Watched({"cam": {"uri": camera.url, "transport": "udp"}}) as watched:
        watched.has_frames(15)
        camera.faults.loss = 0.5
        until(lambda: any(seen.damaged for seen in watched.frames["cam"]))
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


@pytest.mark.row(id="A6", long=True)
def test_corrupted_packets_end_nothing(clip: Clip, figure: Record) -> None:
    with FakeCamera(dict.fromkeys(TRANSPORTS, clip.at_fps(RATE))) as camera:
        for mount in camera.mounts.values():
            mount.faults.corruption = CORRUPTION
        sources = {name: {"uri": camera.url_of(name), "transport": name} for name in TRANSPORTS}
        with Watched(sources) as watched:
            watched.has_frames(50)
            begun, before_mib = time.monotonic(), resident_mib()
            until(lambda: time.monotonic() > begun + CORRUPTED_SECONDS, seconds=2 * CORRUPTED_SECONDS)
            grown_mib = resident_mib() - before_mib
            for mount in camera.mounts.values():
                mount.faults.corruption = 0
            seconds = whole_again(watched)

    assert watched.report is not None
    figure(f"memory, growth in {CORRUPTED_SECONDS:g} s", max(grown_mib, 0), limit=20, unit="MiB")
    figure("whole frames again, once the packets are", seconds, limit=WHOLE_AGAIN_SECONDS, unit="s")
    assert grown_mib <= 20
    assert all(stream.damaged for stream in watched.report.streams)
