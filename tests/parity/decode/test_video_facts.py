"""Every clip against an independent decode: every PTS, and the MD5 of every image."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.graph import Site
from sightline.media import Frame, Stream
from sightline_plugins.sources.file.element import Media

NATIVE = {"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p", "nv12", "gray", "rgb24", "bgr24"}
CLIPS = [
    "bottle-detection.mp4",
    "car-detection.mp4",
    "crowd-faces-800x450.mp4",
    "one-by-one-person-detection.mp4",
    "street-cars-640x360.mp4",
    "codec/av1_video.mkv",
    "codec/bear-vp9-odd-dimensions.webm",
    "codec/bt601_full_range.mp4",
    "codec/bt601_limited_range.mp4",
    "codec/bt709_full_range.mp4",
    "codec/discard_first_keyframe.mp4",
    "codec/h264_10bits.mp4",
    "codec/h265_10bits.mp4",
    "codec/h265_bframes.mp4",
    "codec/h265_video.mp4",
    "codec/interlaced_crop.mp4",
    "codec/nasa_13013.mp4",
    "codec/nasa_13013_rotated.mp4",
    "codec/sample.avi",
    "codec/sample.flv",
    "codec/sample.mkv",
    "codec/sample_android_slow_motion.mp4",
    "codec/sample_fragmented.mp4",
    "codec/sample_h262_mpeg_audio.ts",
    "codec/test_non_zero_start.mp4",
    "codec/testsrc2_12bit_hdr.mp4",
    "codec/testsrc2_444_8bit_hevc.mp4",
    "codec/testsrc2_av1_10bit.mp4",
    "codec/testsrc2_odd_height_and_width_mpeg2.mp4",
    "codec/testsrc2_odd_height_and_width_vp9.mp4",
    "codec/testsrc2_odd_width_444.mp4",
    "codec/testsrc2_vp8.webm",
    "codec/testsrc2_vp9.webm",
    "codec/video_0.mov",
    "codec/video_180.mov",
    "codec/video_270.mov",
    "codec/video_90.mov",
]
DAMAGED = ["hostile/corrupted.mp4", "hostile/sample_with_invalid_nalu.mp4"]


@pytest.fixture(scope="module")
def facts(shared_data: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((shared_data / "truth/video_facts.json").read_text())
    return loaded


def md5(frame: Frame) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for plane in frame.surface.planes:
        digest.update(plane.tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", CLIPS + DAMAGED)
def test_every_frame_comes_once_with_its_exact_time_and_pixels(
    shared_data: Path, facts: dict[str, Any], name: str
) -> None:
    truth = facts[name]
    time_base = Fraction(truth["time_base"])
    source = Media(uri=str(shared_data / "videos" / name), rotate=0)
    reader = source.build(Site(device=Device()), stream=Stream("cam"))
    read = [(frame.pts_ns, frame.damaged, md5(frame)) for frame in reader.frames()]
    reader.close()
    assert [pts_ns for pts_ns, _, _ in read] == [round(pts * time_base * 1_000_000_000) for pts in truth["pts"]]
    if set(truth["pixel_formats"]) <= NATIVE:
        comparable = truth["ffmpeg"]["same_until"]
        assert [digest for _, _, digest in read][:comparable] == truth["frame_md5"][:comparable]
    if name not in DAMAGED:
        assert not any(damaged for _, damaged, _ in read)


def test_all_clips_are_compared(facts: dict[str, Any]) -> None:
    undamaged = {name for name in facts if not name.startswith(("_", "hostile/"))}
    assert undamaged == set(CLIPS)
