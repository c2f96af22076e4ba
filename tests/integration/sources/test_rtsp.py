"""Cameras over RTSP, against a real server on the loopback."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.integration.sources.clips import number_of, write_clip

from sightline.devices import Device
from sightline.errors import StreamError, StreamLost, StreamUnreadable
from sightline.graph import Site, SourceReader
from sightline.media import Frame, Stream
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.sources.live.rtsp import Rtsp

COUNT = 30
MILLISECOND = 1_000_000
ONCE = CameraOptions(paced=False, passes=1, sound=True)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    return load_clip(str(write_clip(path, count=COUNT, key_every=10, b_frames=0)))


def watch(source: Rtsp) -> tuple[list[Frame], StreamError, SourceReader]:
    """All frames of one session, how it ended, and the reader."""
    reader = source.build(Site(device=Device()), stream=Stream("yard", live=True))
    frames: list[Frame] = []
    try:
        frames.extend(reader.frames())
    except StreamError as error:
        return frames, error, reader
    finally:
        reader.close()
    raise AssertionError("a camera does not end")


def numbers(frames: list[Frame]) -> list[int]:
    return [number_of(int(frame.surface.planes[0][0, 0])) for frame in frames]


@pytest.mark.parametrize("transport", ["tcp", "auto"])
def test_every_frame_arrives_in_order_with_its_time(clip: Clip, transport: str) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        frames, _, _ = watch(Rtsp.model_validate({"uri": camera.url, "transport": transport}))
    assert numbers(frames) == list(range(COUNT))
    first = frames[0].pts_ns
    assert [(frame.pts_ns - first) // MILLISECOND for frame in frames] == list(range(0, 40 * COUNT, 40))
    assert [frame.index for frame in frames] == list(range(COUNT))


def test_the_end_of_the_stream_is_a_loss(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        _, error, _ = watch(Rtsp(uri=camera.url))
    assert isinstance(error, StreamLost)
    assert "the camera ended the stream" in str(error)


def test_nothing_is_shown_before_the_first_key_frame(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        camera.faults.late_key = 0.2
        frames, _, _ = watch(Rtsp(uri=camera.url))
    assert numbers(frames) == list(range(10, COUNT))
    assert not any(frame.damaged for frame in frames)


def test_silence_is_a_loss_after_the_stall_limit(clip: Clip) -> None:
    with FakeCamera(clip, options=replace(ONCE, holds=True)) as camera:
        frames, error, _ = watch(Rtsp.model_validate({"uri": camera.url, "stall_timeout": "300ms"}))
    assert len(frames) == COUNT
    assert isinstance(error, StreamLost)
    assert "time limit" in str(error)


def test_frames_know_the_time_of_day_from_the_camera_s_reports(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        frames, _, _ = watch(Rtsp(uri=camera.url))
    captured = [frame.capture_ns for frame in frames[1:] if frame.capture_ns is not None]
    assert {later - earlier for earlier, later in pairwise(captured)} == {40 * MILLISECOND}
    assert abs(captured[0] - time.time_ns()) < 300_000 * MILLISECOND


def test_max_fps_leaves_frames_out_and_counts_them(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        frames, _, reader = watch(Rtsp(uri=camera.url, max_fps=5))
    assert numbers(frames) == list(range(0, COUNT, 5))
    assert reader.skipped_frames == COUNT - len(frames)


def test_credentials_in_the_address_are_used(clip: Clip) -> None:
    with FakeCamera(clip, credentials="admin:s3cret", options=ONCE) as camera:
        frames, _, _ = watch(Rtsp(uri=camera.url.replace("//", "//admin:s3cret@")))
    assert len(frames) == COUNT


def test_wrong_credentials_are_an_error_that_does_not_show_them(clip: Clip) -> None:
    with FakeCamera(clip, credentials="admin:s3cret", options=ONCE) as camera:
        _, error, _ = watch(Rtsp(uri=camera.url.replace("//", "//admin:wr0ng@")))
    assert isinstance(error, StreamUnreadable)
    assert "check user and password" in str(error)
    assert "wr0ng" not in str(error)


def test_an_unknown_path_is_an_error(clip: Clip) -> None:
    with FakeCamera(clip, options=ONCE) as camera:
        _, error, _ = watch(Rtsp(uri=f"{camera.url}-and-nothing"))
    assert isinstance(error, StreamUnreadable)
    assert "404" in str(error)


def test_a_transport_that_the_server_lacks_is_an_error_that_says_what_to_do(clip: Clip) -> None:
    with FakeCamera(clip, options=replace(ONCE, transports=("tcp",))) as camera:
        _, error, _ = watch(Rtsp(uri=camera.url, transport="udp"))
    assert isinstance(error, StreamUnreadable)
    assert "transport: tcp" in str(error)


def test_a_camera_that_is_not_there_is_worth_another_attempt() -> None:
    _, error, _ = watch(Rtsp(uri="rtsp://admin:s3cret@127.0.0.1:9/cam"))
    assert isinstance(error, StreamLost)
    assert "s3cret" not in str(error)
