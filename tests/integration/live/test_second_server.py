"""Cameras of another make, gst-rtsp-server: killed with SIGKILL, frozen with SIGSTOP."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sightline.graph import MessageKind, StreamState
from sightline_plugins.commands.camera.clip import Clip
from tests.integration.figures import Record
from tests.integration.live.watching import Watched
from tests.integration.sources.gst_camera import GstCamera

KILLS = 3
STALL_SECONDS = 1.0


@pytest.mark.row(id="A1")
def test_a_server_that_is_killed_is_watched_again_when_it_listens(clip: Clip, tmp_path: Path, figure: Record) -> None:
    waits: list[float] = []
    with GstCamera(clip, folder=tmp_path) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(10)
        for _ in range(KILLS):
            camera.kill()
            time.sleep(0.5)
            camera.start()
            listening = time.monotonic()
            waits.append(watched.first_after("cam", listening).at_seconds - listening)

    assert watched.report is not None
    figure(f"gst-rtsp-server: frames again after it listens, {KILLS} kills, worst", max(waits), limit=1.0, unit="s")
    assert [stream.reconnects for stream in watched.report.streams] == [KILLS]


@pytest.mark.row(id="A2")
@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_server_that_is_frozen_is_seen_to_stall_and_watched_again_when_it_goes_on(
    clip: Clip, tmp_path: Path, transport: str, figure: Record
) -> None:
    with GstCamera(clip, folder=tmp_path) as camera:
        source = {"uri": camera.url, "transport": transport, "stall_timeout": f"{STALL_SECONDS:g}s"}
        with Watched({"cam": source}) as watched:
            watched.has_frames(10)
            frozen = time.monotonic()
            camera.freeze()
            seen = watched.has_state(StreamState.STALLED, stream="cam").at_seconds - frozen
            camera.thaw()
            thawed = time.monotonic()
            recovered = watched.first_after("cam", thawed).at_seconds - thawed

    figure(f"gst-rtsp-server: seen, with `stall_timeout: {STALL_SECONDS:g}s`", seen, limit=5.0, unit="s")
    figure("gst-rtsp-server: frames again after data comes", recovered, limit=1.5, unit="s")
    assert watched.of_kind(MessageKind.STREAM_BACK)
