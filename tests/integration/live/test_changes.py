"""Cameras whose images become others while they are watched, and images of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.rtsp.payloads import Codec
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.live.rtsp import Rtsp
from tests.integration.camera.clips import noise_clip
from tests.integration.figures import Record, form
from tests.integration.live.watching import Watched, until


@pytest.mark.parametrize("codec", list(Codec))
def test_cameras_of_every_codec_are_shown(tmp_path: Path, codec: Codec) -> None:
    shown = noise_clip(tmp_path, codec=codec)
    with FakeCamera(shown) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(20)

    assert {seen.size_wh for seen in watched.frames["cam"]} == {(160, 96)}


CHANGES = {
    "size": "160x96 became 192x128",
    "codec": "h264 became hevc",
    "rate": "25 fps became 12.5 fps",
    "profile": None,
}
"""Return what is reported of each; nobody asks for the profile."""


@pytest.mark.row(id="A7")
def test_changes_are_told_and_cost_less_than_a_second(clip: Clip, tmp_path: Path, figure: Record) -> None:
    others = {
        "size": noise_clip(tmp_path, size_wh=(192, 128)),
        "codec": noise_clip(tmp_path, codec=Codec.H265),
        "rate": clip.at_fps(12.5),
        "profile": noise_clip(tmp_path, b_frames=2),
    }
    with (
        FakeCamera(dict.fromkeys(CHANGES, clip)) as camera,
        Watched({name: camera.url_of(name) for name in CHANGES}) as watched,
    ):
        watched.has_frames(30)
        for name, other in others.items():
            camera.mounts[name].swap(other)
        until(
            lambda: all(
                watched.of_kind(MessageKind.STREAM_CHANGED, stream=name) for name, words in CHANGES.items() if words
            )
        )
        for name in CHANGES:
            watched.has_frames(len(watched.frames[name]) + 10, of=name)

    for name, words in CHANGES.items():
        told = [told.message.text for told in watched.of_kind(MessageKind.STREAM_CHANGED, stream=name)]
        gap = max(later.at_seconds - earlier.at_seconds for earlier, later in pairwise(watched.frames[name]))
        figure(f"without frames when the {name} changes", gap, limit=1.0, unit="s")
        assert any(words in text for text in told) if words else not told


SLOW_SECONDS, SLOW_STALL = form((0.8, "200ms"), long=(30.0, "5s"))
"""From one image to the next, several times as long as nothing may come from a camera that is not known yet."""


@pytest.mark.row(id="A12", long=True)
def test_a_camera_slower_than_its_limit_is_not_shot_down_once_it_is_known(clip: Clip, figure: Record) -> None:
    with (
        FakeCamera(clip.at_fps(1 / SLOW_SECONDS)) as camera,
        Watched({"cam": {"uri": camera.url, "stall_timeout": SLOW_STALL}}) as watched,
    ):

        def frames_since_the_last_stall() -> int:
            stalled = max((told.at_seconds for told in watched.of_kind(MessageKind.STREAM_STALLED)), default=0.0)
            return sum(seen.at_seconds > stalled for seen in watched.frames["cam"])

        until(lambda: frames_since_the_last_stall() >= 2, seconds=30 + 5 * SLOW_SECONDS)
        known, stalls = len(watched.frames["cam"]), len(watched.of_kind(MessageKind.STREAM_STALLED))
        until(lambda: len(watched.frames["cam"]) >= known + 3, seconds=30 + 5 * SLOW_SECONDS)
        more = len(watched.of_kind(MessageKind.STREAM_STALLED)) - stalls

    what = f"one frame in {SLOW_SECONDS:g} s with `stall_timeout: {SLOW_STALL}`: stalls, once it is known"
    figure(what, more, limit=0, unit="stalls")
    assert more == 0


@pytest.mark.row(id="A12")
def test_a_source_of_a_thousand_frames_a_second_does_not_run_away(clip: Clip, figure: Record) -> None:
    with FakeCamera(clip.at_fps(1000)) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(500)

    assert watched.report is not None
    (cam,) = watched.report.streams
    seen = watched.frames["cam"]
    rate = cam.received / (seen[-1].at_seconds - seen[0].at_seconds)
    worst_ms = cam.latency.maximum_ns / 1e6
    figure("latency of a source of 1,000 frames a second, worst", worst_ms, limit=1000, unit="ms")
    assert rate > 100


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of image, and how it is encoded."""

    pixel_format: str
    size_wh: tuple[int, int] = (160, 96)
    codec: str = "libx264"
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.pixel_format}-{self.size_wh[0]}x{self.size_wh[1]}{'-interlaced' if 'flags' in self.options else ''}"
        )


QUIET_X265 = {"x265-params": "log-level=none"}
KINDS = (
    Kind("yuv444p", (1, 1)),
    Kind("gray", (1, 1)),
    Kind("yuv420p", (2, 2)),
    Kind("yuv420p", (162, 98)),
    Kind("yuv422p"),
    Kind("yuv444p", (161, 97)),
    Kind("yuv420p10le"),
    Kind("yuv422p10le"),
    Kind("yuv444p10le", (161, 97)),
    Kind("yuv420p10le", codec="libx265", options=QUIET_X265),
    Kind("yuv444p", (17, 19), codec="libx265", options=QUIET_X265),
    Kind("gray"),
    Kind("yuv420p", options={"flags": "+ildct+ilme", "x264-params": "tff=1"}),
)
"""What RTSP can carry: alpha has no place in it, and nor has a rotation."""


def encoded(folder: Path, kind: Kind) -> Path:
    path = folder / f"{kind}.mp4"
    width, height = kind.size_wh
    options = {"g": "5", "bf": "0", "crf": "10", **kind.options}
    ramp = np.linspace(20, 230, width * height, dtype=np.float64).reshape(height, width).astype(np.uint8)
    image = VideoFrame.from_ndarray(np.stack([ramp, np.flipud(ramp), np.fliplr(ramp)], axis=2), "rgb24")
    with av.open(path, "w") as container:
        stream = cast("VideoStream", container.add_stream(kind.codec, rate=25, options=options))
        stream.width, stream.height, stream.pix_fmt = width, height, kind.pixel_format
        for number in range(25):
            frame = image.reformat(format=kind.pixel_format)
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


@pytest.mark.row(id="A13")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.codec}-{kind}")
def test_images_of_every_kind_are_those_of_the_file(tmp_path: Path, kind: Kind, figure: Record) -> None:
    path = encoded(tmp_path, kind)
    wanted = run_source(Media(uri=str(path)))[0].surface
    with FakeCamera(load_clip(str(path)), options=CameraOptions(paced=False, passes=1)) as camera:
        frames = first_session(Rtsp(uri=camera.url))

    got = frames[0].surface
    error = max(
        float(np.abs(one.astype(np.int16) - other).mean()) for one, other in zip(got.planes, wanted.planes, strict=True)
    )
    figure("mean error against the file, of 255 levels", error, limit=2, unit="levels")
    assert got.size_wh == kind.size_wh
    assert error <= 2
