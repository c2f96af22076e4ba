"""Clips of a fake camera: times, units and what they refuse."""

from __future__ import annotations

import pytest

from sightline_plugins.codecs.bitstream import annex_b, avcc_parts, hvcc_parts, length_prefixed_units, nal_units
from sightline_plugins.commands.camera.clip import Clip, ClipPacket
from sightline_plugins.rtsp.payloads import Codec

SPS, PPS = b"\x67\x42\x00\x1f\x99", b"\x68\xce\x38\x80\x01"
KEY, OTHER = b"\x65\x88\x01", b"\x41\x9a\x02"
MILLISECOND = 1_000_000


def packet(number: int, *, pts: int | None = None, data: bytes = OTHER, is_key: bool = False) -> ClipPacket:
    shown = number if pts is None else pts
    return ClipPacket(annex_b([data]), (100 + shown * 40) * MILLISECOND, (100 + number * 40) * MILLISECOND, is_key)


def clip(*packets: ClipPacket) -> Clip:
    first = packet(0, data=KEY, is_key=True)
    return Clip.of([first, *packets], codec=Codec.H264, size_wh=(64, 48), parameter_sets=[SPS, PPS])


def test_times_begin_at_zero_and_the_duration_has_room_for_the_last_image() -> None:
    made = clip(packet(1), packet(2))

    assert [one.dts_ns // MILLISECOND for one in made.packets] == [0, 40, 80]
    assert made.duration_ns == 120 * MILLISECOND
    assert made.fps == 25


def test_images_are_taken_before_they_are_sent_when_order_changes() -> None:
    made = clip(packet(1, pts=3), packet(2, pts=1), packet(3, pts=2))

    assert all(one.pts_ns <= one.dts_ns for one in made.packets)
    assert [one.pts_ns // MILLISECOND for one in made.packets] == [-80, 40, -40, 0]


def test_another_rate_keeps_the_order_of_showing() -> None:
    made = clip(packet(1, pts=3), packet(2, pts=1), packet(3, pts=2)).at_fps(10)

    assert [one.dts_ns // MILLISECOND for one in made.packets] == [0, 100, 200, 300]
    assert [one.pts_ns // MILLISECOND for one in made.packets] == [-200, 100, -100, 0]
    assert made.duration_ns == 400 * MILLISECOND


def test_a_clip_can_be_cut() -> None:
    made = clip(packet(1), packet(2)).first(2)

    assert len(made.packets) == 2
    assert made.duration_ns == 80 * MILLISECOND


def test_parameter_sets_are_found_in_the_first_image() -> None:
    first = ClipPacket(annex_b([SPS, PPS, KEY]), 0, 0, is_key=True)

    assert Clip.of([first], codec=Codec.H264, size_wh=(64, 48)).parameter_sets == (SPS, PPS)


@pytest.mark.parametrize(
    ("packets", "reason"),
    [
        ([], "at least one image"),
        ([packet(0)], "begins with a key frame"),
        ([packet(0, is_key=True), packet(0)], "decoding times rise"),
        ([packet(0, data=KEY, is_key=True)], "no parameter sets"),
    ],
)
def test_what_no_camera_could_show_is_refused(packets: list[ClipPacket], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Clip.of(packets, codec=Codec.H264, size_wh=(64, 48))


def test_units_are_found_behind_long_and_short_start_codes() -> None:
    assert list(nal_units(b"\x00\x00\x00\x01" + SPS + b"\x00\x00\x01" + KEY + b"\x00\x00")) == [SPS, KEY]


def test_length_prefixes_are_read() -> None:
    data = len(SPS).to_bytes(4, "big") + SPS + len(KEY).to_bytes(4, "big") + KEY

    assert list(length_prefixed_units(data, length_size=4)) == [SPS, KEY]


def test_a_length_beyond_the_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="before the end of its packet"):
        list(length_prefixed_units(b"\x00\x00\x00\x09" + KEY, length_size=4))


def test_parameter_sets_come_out_of_the_boxes_of_mp4() -> None:
    avcc = b"\x01\x42\x00\x1f\xff\xe1" + b"\x00\x05" + SPS + b"\x01" + b"\x00\x05" + PPS
    vps, sps, pps, sei = b"\x40\x01\x0c", b"\x42\x01\x01", b"\x44\x01\xc0", b"\x4e\x01\x05"
    arrays = b"".join(bytes([unit[0] >> 1, 0, 1, 0, len(unit)]) + unit for unit in (vps, sps, pps, sei))
    hvcc = bytes(21) + b"\x03\x04" + arrays

    assert avcc_parts(avcc) == (4, (SPS, PPS))
    assert hvcc_parts(hvcc) == (4, (vps, sps, pps))
