"""Fragmented MP4 of our own, as others read it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import av
import pytest

from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.publish.broadcast import Format, Image
from sightline_plugins.publish.fragments import codec_string, fragment, start_of_file
from sightline_plugins.rtsp.payloads import Codec
from tests.integration.camera.clips import write_noise
from tests.unit.publish.images import PLAIN, encoded, frames


def file_of(images: Sequence[Image], *, each: int = 1) -> io.BytesIO:
    parts = [images[at : at + each] for at in range(0, len(images), each)]
    pieces = [
        fragment(part, number=number, durations_ns=[40_000_000] * len(part)) for number, part in enumerate(parts, 1)
    ]
    return io.BytesIO(start_of_file(images[0].format) + b"".join(pieces))


def times(file: io.BytesIO) -> list[float]:
    with av.open(file, "r") as container:
        return [round(frame.time or 0.0, 6) for frame in container.decode(video=0)]


@pytest.mark.parametrize("each", [1, 7, 50])
def test_every_image_comes_back_at_its_time(each: int) -> None:
    images = encoded(frames(50))

    assert times(file_of(images, each=each)) == [round(number * 0.04, 6) for number in range(50)]


def test_a_file_may_begin_with_any_key_frame() -> None:
    images = encoded(frames(60))
    (late,) = [number for number, image in enumerate(images) if image.is_key and 0 < number < 50]

    assert times(file_of(images[late:]))[0] == pytest.approx(late * 0.04)


def test_the_size_is_that_of_the_images() -> None:
    with av.open(file_of(encoded(frames(3, size_wh=(98, 50)))), "r") as container:
        video = container.streams.video[0]
        assert (video.width, video.height) == (98, 50)


@pytest.mark.parametrize("codec", [Codec.H264, Codec.H265])
def test_images_in_another_order_than_they_are_shown_come_back_in_the_right_one(codec: Codec, tmp_path: Path) -> None:
    from sightline_plugins.codecs.bitstream import is_parameter_set, nal_units

    clip = load_clip(str(write_noise(tmp_path / "noise.mp4", codec=codec, count=20, b_frames=2)))
    own = Format(codec, clip.size_wh, clip.parameter_sets)
    images = [
        Image(
            own,
            tuple(unit for unit in nal_units(packet.data) if not is_parameter_set(unit, codec=codec.ffmpeg_name)),
            packet.pts_ns + 1_000_000_000,
            packet.dts_ns,
            is_key=packet.is_key,
        )
        for packet in clip.packets
    ]

    found = times(file_of(images))

    assert len(found) == 20
    assert found == sorted(found)


def test_codecs_are_named_as_browsers_know_them(tmp_path: Path) -> None:
    hevc = load_clip(str(write_noise(tmp_path / "noise.mp4", codec=Codec.H265, count=2)))

    assert codec_string(PLAIN) == "avc1.42c01e"
    assert codec_string(Format(Codec.H265, hevc.size_wh, hevc.parameter_sets)).startswith("hvc1.1.6.L")


def test_jpeg_is_not_published_as_mp4() -> None:
    with pytest.raises(ValueError, match="mjpeg is not published as MP4"):
        codec_string(Format(Codec.MJPEG, (64, 48)))
