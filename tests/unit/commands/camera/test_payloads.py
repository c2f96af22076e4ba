"""Images cut into RTP payloads: every byte once, in order, none larger than the limit."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from sightline_plugins.codecs.bitstream import annex_b, nal_units
from sightline_plugins.commands.camera.clip import Clip, ClipPacket, payloads
from sightline_plugins.rtsp.payloads import Codec, jpeg_payloads

H264_SETS = (b"\x67\x42\x00\x1f\x99", b"\x68\xce\x38\x80\x01")
H265_SETS = (b"\x40\x01\x0c\x01", b"\x42\x01\x01\x02", b"\x44\x01\xc0\x03")
LIMIT = 200


def unit(header: bytes, size: int) -> bytes:
    return header + random.Random(size).randbytes(size - len(header) - 1).replace(b"\x00", b"\x11") + b"\x80"


def clip_of(units: list[bytes], *, codec: Codec) -> Clip:
    packet = ClipPacket(annex_b(units), 0, 0, is_key=True)
    sets = H264_SETS if codec is Codec.H264 else H265_SETS
    return Clip.of([packet], codec=codec, size_wh=(64, 48), parameter_sets=sets)


def cut(units: list[bytes], *, codec: Codec) -> tuple[bytes, ...]:
    clip = clip_of(units, codec=codec)
    return payloads(clip.packets[0], clip=clip, max_payload=LIMIT)


def put_together(cut_up: tuple[bytes, ...], *, size: int, aggregation: int, fragment: int) -> Iterator[bytes]:
    """Units from payloads, as a receiver finds them; `size` is that of a unit's header."""
    whole = b""
    for payload in cut_up:
        kind = payload[0] & 0x1F if size == 1 else payload[0] >> 1
        if kind == aggregation:
            at = size
            while at < len(payload):
                length = int.from_bytes(payload[at : at + 2], "big")
                yield payload[at + 2 : at + 2 + length]
                at += 2 + length
        elif kind == fragment:
            edges = payload[size]
            if edges & 0x80:
                inner = edges & 0x3F if size == 2 else edges & 0x1F
                head = [payload[0] & 0x81 | inner << 1, payload[1]] if size == 2 else [payload[0] & 0xE0 | inner]
                whole = bytes(head)
            whole += payload[size + 1 :]
            if edges & 0x40:
                yield whole
        else:
            yield payload


@pytest.mark.parametrize("size", [3, 150, 199, 200, 201, 399, 1_000])
def test_h264_units_survive(size: int) -> None:
    units = [unit(b"\x65", size), unit(b"\x41", 50)]
    made = cut(units, codec=Codec.H264)

    assert max(map(len, made)) <= LIMIT
    assert list(put_together(made, size=1, aggregation=24, fragment=28)) == [*H264_SETS, *units]


@pytest.mark.parametrize("size", [4, 150, 199, 200, 201, 399, 1_000])
def test_h265_units_survive(size: int) -> None:
    units = [unit(b"\x26\x01", size), unit(b"\x02\x01", 50)]
    made = cut(units, codec=Codec.H265)

    assert max(map(len, made)) <= LIMIT
    assert list(put_together(made, size=2, aggregation=48, fragment=49)) == [*H265_SETS, *units]


def test_small_units_travel_together() -> None:
    assert len(cut([unit(b"\x65", 50)], codec=Codec.H264)) == 1


def test_parameter_sets_that_are_there_are_not_doubled() -> None:
    units = [*H264_SETS, unit(b"\x65", 50)]

    assert list(put_together(cut(units, codec=Codec.H264), size=1, aggregation=24, fragment=28)) == units


def test_units_keep_their_places_in_a_byte_stream() -> None:
    units = [unit(b"\x65", size) for size in (4, 300, 20)]

    assert list(nal_units(annex_b(units))) == units


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (b"\xff\xd8\xff\xd9", "no whole JPEG"),
        (b"\xff\xd8\xff\xc4\x00\x16\x00" + bytes(15) + b"\x01\x42" + b"\xff\xda\x00\x02", "standard Huffman tables"),
        (b"\xff\xd8\xff\xda\x00\x02", "baseline images"),
    ],
)
def test_images_that_rtp_can_not_carry_are_refused(image: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        list(jpeg_payloads(image, max_payload=LIMIT))
