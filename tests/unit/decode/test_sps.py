"""What an SPS crops, and SPSs that crop nothing at left and top, against FFmpeg's own filters."""

from __future__ import annotations

from pathlib import Path

import av
import pytest
from av.bitstream import BitStreamFilterContext

from sightline_plugins.codecs.bitstream import in_band_configuration, nal_units
from sightline_plugins.codecs.sps import Crop, crops_of, with_origin_uncropped
from tests.integration.sources.cropped import Coding, whole_of, write_cropped

NAMES = {"libx264": "h264", "libx265": "hevc"}
CROP = Crop(6, 4, 2, 8)
CODINGS = [
    Coding("libx264"),
    Coding("libx264", pixel_format="yuv444p"),
    Coding("libx264", pixel_format="yuv422p"),
    Coding("libx264", pixel_format="yuv420p10le"),
    Coding("libx264", parameters="cqm=jvt:8x8dct=1"),
    Coding("libx264", pixel_format="yuv444p", parameters="cqm=jvt:8x8dct=1"),
    Coding("libx264", parameters="fake-interlaced=1"),
    Coding("libx265"),
    Coding("libx265", parameters="temporal-layers=3:bframes=4"),
    Coding("libx265", pixel_format="gray"),
    Coding("libx265", pixel_format="yuv444p"),
    Coding("libx265", pixel_format="yuv422p10le"),
]


def key_frame(path: Path) -> bytes:
    """The first packet of a clip, with its parameter sets in front."""
    with av.open(path) as container:
        video = container.streams.video[0]
        packet = next(container.demux(video))
        name = f"{video.codec_context.name}_mp4toannexb"
        [turned] = BitStreamFilterContext(name, video).filter(packet) if path.suffix != ".ts" else [packet]
        return bytes(turned)


@pytest.mark.parametrize("coding", CODINGS, ids=str)
@pytest.mark.parametrize("crop", [Crop(), Crop(2), CROP], ids=str)
def test_the_crop_of_an_sps_is_read(tmp_path: Path, coding: Coding, crop: Crop) -> None:
    path = write_cropped(tmp_path / "clip.mkv", crop, coding=coding, count=8)

    assert crops_of(NAMES[coding.codec], key_frame(path)) == (crop,)


@pytest.mark.parametrize("coding", CODINGS, ids=str)
def test_an_sps_without_its_crop_at_left_and_top_is_the_one_that_ffmpeg_makes(tmp_path: Path, coding: Coding) -> None:
    data = key_frame(write_cropped(tmp_path / "clip.mkv", CROP, coding=coding, count=8))
    theirs = key_frame(write_cropped(tmp_path / "other.mkv", Crop(0, 0, 2, 8), coding=coding, count=8))

    ours = with_origin_uncropped(NAMES[coding.codec], data)

    assert ours != data
    assert list(nal_units(ours)) == list(nal_units(theirs))


@pytest.mark.parametrize("codec", NAMES)
def test_packets_without_such_a_crop_are_left_as_they_are(tmp_path: Path, codec: str) -> None:
    path = write_cropped(tmp_path / "clip.mkv", Crop(0, 0, 2, 8), coding=Coding(codec), count=1)

    for data in (key_frame(path), key_frame(whole_of(path)), b"", b"\x00\x00\x01", b"no start code"):
        assert with_origin_uncropped(NAMES[codec], data) == data


@pytest.mark.parametrize("codec", NAMES)
def test_an_sps_that_is_cut_off_is_left_out(tmp_path: Path, codec: str) -> None:
    name = NAMES[codec]
    data = key_frame(write_cropped(tmp_path / "clip.mkv", CROP, coding=Coding(codec), count=1))
    [sps] = [unit for unit in nal_units(data) if crops_of(name, b"\x00\x00\x01" + unit)]

    for length in range(1, 9):
        cut = b"\x00\x00\x01" + sps[:length]
        assert crops_of(name, cut) == ()
        assert with_origin_uncropped(name, cut) == cut


def test_several_sps_are_told_apart(tmp_path: Path) -> None:
    sets = [
        in_band_configuration("h264", key_frame(write_cropped(tmp_path / f"{n}.mkv", crop, count=1)))
        for n, crop in enumerate((CROP, Crop(), CROP))
    ]

    assert crops_of("h264", b"".join(sets)) == (Crop(), CROP)


def written(left: int, right: int, top: int, bottom: int) -> bytes:
    """An SPS of the baseline profile, 160x96, that crops so many units, with its start code."""
    digits = f"{0x67420A1E:032b}" + "1" + "1" + "1" + "1" + "010" + "0" + _code(9) + _code(5) + "1" + "1" + "1"
    digits += "".join(map(_code, (left, right, top, bottom))) + "0" + "1"
    payload = int(digits.ljust(-(-len(digits) // 8) * 8, "0"), 2).to_bytes(-(-len(digits) // 8), "big")
    escaped = bytearray()
    for byte in payload:
        if escaped[-2:] == b"\x00\x00" and byte <= 3:
            escaped.append(3)
        escaped.append(byte)
    return b"\x00\x00\x01" + bytes(escaped)


def _code(value: int) -> str:
    """Exp-Golomb."""
    return "0" * (len(f"{value + 1:b}") - 1) + f"{value + 1:b}"


@pytest.mark.parametrize("bottom", [0, 2**12, 2**30 - 1])
@pytest.mark.parametrize("right", [0, 2**20 - 1, 2**24 - 1, 2**24 - 2])
def test_an_sps_that_would_hold_start_codes_is_escaped_again(right: int, bottom: int) -> None:
    data = written(3, right, 5, bottom)

    assert crops_of("h264", data) == (Crop(6, 10, 2 * right, 2 * bottom),)
    assert with_origin_uncropped("h264", data) == written(0, right, 0, bottom)


def test_other_codecs_crop_nothing() -> None:
    assert crops_of("vp9", b"\x00\x00\x01\x67\x42\x00\x1e") == ()
    assert with_origin_uncropped("av1", b"\x12\x00") == b"\x12\x00"
