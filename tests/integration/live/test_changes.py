"""Cameras whose pictures become others while they are watched, and pictures of every kind."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import cast

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline.devices import Device
from sightline.errors import StreamLost
from sightline.graph import MessageKind, Site
from sightline.media import Frame, Stream
from sightline.testing import run_source
from sightline.testing.camera import CameraOptions, Clip, Codec, FakeCamera
from sightline_plugins.decode.clip_packets import load_clip
from sightline_plugins.sources.media import Media
from sightline_plugins.sources.rtsp import Rtsp
from tests.integration.camera.clips import noise_clip
from tests.integration.live.conftest import Record
from tests.integration.live.watching import Watched, until


@pytest.mark.parametrize("codec", list(Codec))
def test_cameras_of_every_codec_are_shown(tmp_path: Path, codec: Codec) -> None:
    shown = noise_clip(tmp_path, codec=codec)
    with FakeCamera(shown) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(20)

    assert {seen.size_wh for seen in watched.frames["cam"]} == {(160, 96)}


@pytest.mark.parametrize("what", ["size", "codec", "rate"])
def test_a_change_is_told_and_costs_less_than_a_second(clip: Clip, tmp_path: Path, what: str, figure: Record) -> None:
    others = {
        "size": lambda: noise_clip(tmp_path, size_wh=(192, 128)),
        "codec": lambda: noise_clip(tmp_path, codec=Codec.H265),
        "rate": lambda: clip.at_fps(12.5),
    }
    words = {"size": "160x96 became 192x128", "codec": "h264 became hevc", "rate": "25 fps became 12.5 fps"}
    other = others[what]()
    with FakeCamera(clip) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(50)
        camera.swap(other)
        until(lambda: bool(watched.of_kind(MessageKind.STREAM_CHANGED)))
        watched.has_frames(len(watched.frames["cam"]) + 10)

    told = [told.message.text for told in watched.of_kind(MessageKind.STREAM_CHANGED)]
    gap = max(later.at_seconds - earlier.at_seconds for earlier, later in pairwise(watched.frames["cam"]))
    figure("A7", f"without frames when the {what} changes", gap, limit=1.0, unit="s")
    assert any(words[what] in text for text in told), told
    assert gap <= 1.0 * 1.5


def test_a_camera_slower_than_its_limit_is_not_shot_down(clip: Clip, figure: Record) -> None:
    with FakeCamera(clip.at_fps(1)) as camera, Watched({"cam": {"uri": camera.url, "stall": "500ms"}}) as watched:
        watched.has_frames(2)
        stalls = len(watched.of_kind(MessageKind.STREAM_STALLED))
        watched.has_frames(6)
        more = len(watched.of_kind(MessageKind.STREAM_STALLED)) - stalls

    figure("A12", "stalls of a camera of 1 fps with stall: 500ms, once it is live", more, limit=0, unit="stalls")
    assert more == 0


def test_a_source_of_a_thousand_frames_a_second_does_not_run_away(clip: Clip, figure: Record) -> None:
    with FakeCamera(clip.at_fps(1000)) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(500)

    assert watched.report is not None
    (cam,) = watched.report.streams
    seen = watched.frames["cam"]
    rate = cam.received / (seen[-1].at_seconds - seen[0].at_seconds)
    worst_ms = cam.latency.maximum_ns / 1e6
    figure("A12", f"latency of a source of 1000 fps ({rate:.0f} fps came), worst", worst_ms, limit=1000, unit="ms")
    assert rate > 100
    assert worst_ms <= 1000


def encoded(folder: Path, *, pixel_format: str, size_wh: tuple[int, int], codec: str = "libx264") -> Path:
    path = folder / f"{pixel_format}-{size_wh[0]}x{size_wh[1]}.mp4"
    width, height = size_wh
    ramp = np.linspace(20, 230, width * height, dtype=np.float64).reshape(height, width).astype(np.uint8)
    picture = VideoFrame.from_ndarray(np.stack([ramp, np.flipud(ramp), np.fliplr(ramp)], axis=2), "rgb24")
    with av.open(path, "w") as container:
        stream = cast("VideoStream", container.add_stream(codec, rate=25, options={"g": "5", "bf": "0", "crf": "10"}))
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        for number in range(25):
            frame = picture.reformat(format=pixel_format)
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def first_session(source: Rtsp) -> list[Frame]:
    """All frames of one session with a camera that ends it."""
    reader = source.build(Site(device=Device()), stream=Stream("cam", live=True))
    frames: list[Frame] = []
    try:
        with pytest.raises(StreamLost):
            frames.extend(reader.frames())
    finally:
        reader.close()
    return frames


@pytest.mark.parametrize(
    ("pixel_format", "size_wh"),
    [
        ("yuv420p", (2, 2)),
        ("yuv420p", (162, 98)),
        ("yuv422p", (160, 96)),
        ("yuv444p", (161, 97)),
        ("yuv420p10le", (160, 96)),
        ("gray", (160, 96)),
    ],
)
def test_pictures_of_every_kind_are_those_of_the_file(
    tmp_path: Path, pixel_format: str, size_wh: tuple[int, int], figure: Record
) -> None:
    path = encoded(tmp_path, pixel_format=pixel_format, size_wh=size_wh)
    wanted = run_source(Media(uri=str(path)))[0].surface
    with FakeCamera(load_clip(str(path)), options=CameraOptions(paced=False, passes=1)) as camera:
        frames = first_session(Rtsp(uri=camera.url))

    got = frames[0].surface
    error = max(
        float(np.abs(one.astype(np.int16) - other).mean()) for one, other in zip(got.planes, wanted.planes, strict=True)
    )
    figure(
        "A13", f"mean error against the file: {pixel_format} {size_wh[0]}x{size_wh[1]}", error, limit=2, unit="levels"
    )
    assert got.size_wh == size_wh
    assert error <= 2
