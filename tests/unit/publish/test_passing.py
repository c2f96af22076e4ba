"""Untouched images are passed on as they came; what a step changed is encoded, and nothing from before it shown."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from sightline.graph import EncodedFormat, PacketRing
from sightline.media import Altered, Frame, Stream
from sightline_plugins.codecs.bitstream import annex_b
from sightline_plugins.publish.broadcast import Image
from sightline_plugins.publish.video_source import EncodedSource, Encoding, PassthroughSource
from sightline_plugins.rtsp.payloads import Codec
from tests.unit.publish.images import SETTINGS, frames

SETS = (b"\x67\x42\xc0\x1e\xd9", b"\x68\xce\x0f\xc8")
GROUP = 5
SHIFT_NS = 7_000_000_000


def encoded_format(codec: str = "h264") -> EncodedFormat:
    configuration = annex_b(SETS) if codec == "h264" else b""
    return EncodedFormat(codec, (64, 48), Fraction(1, 90_000), configuration)


def ring_with(count: int, *, codec: str = "h264") -> PacketRing:
    """A ring with so many packets; every fifth is a key frame, and each holds its own number."""
    ring = PacketRing(Stream("cam"))
    ring.limit(duration_ns=60_000_000_000, size_bytes=1 << 20)
    described = encoded_format(codec)
    for number in range(count):
        at_ns = number * 40_000_000
        ring.add(
            annex_b([b"\x65" + bytes([number + 1])]),
            pts=number * 3_600,
            dts=number * 3_600,
            pts_ns=at_ns,
            dts_ns=at_ns,
            duration=3_600,
            is_key=number % GROUP == 0,
            format=described,
        )
    return ring


def given(count: int) -> list[Frame]:
    """The frames that packets decode to; their times were moved by the runtime."""
    return [
        replace(frame, packet=number + 1, pts_ns=frame.pts_ns + SHIFT_NS) for number, frame in enumerate(frames(count))
    ]


def making(ring: PacketRing, *, codecs: frozenset[Codec] = frozenset(Codec)) -> EncodedSource:
    return EncodedSource(passing=PassthroughSource(ring, codecs=codecs), encoding=Encoding(SETTINGS))


def numbers(images: list[Image]) -> list[int]:
    return [image.units[0][1] for image in images]


def test_untouched_images_are_the_source_s_own_bytes_at_the_times_of_the_frames() -> None:
    maker = making(ring_with(10))
    made = [image for frame in given(10) for image in maker.images(frame, key=False)]

    assert numbers(made) == list(range(1, 11))
    assert [image.pts_ns for image in made] == [frame.pts_ns for frame in given(10)]
    assert made[0].format.parameter_sets == SETS
    assert not maker.encodes


def test_images_whose_frames_were_dropped_are_passed_on_too() -> None:
    maker = making(ring_with(10))
    made = [image for frame in given(10)[::4] for image in maker.images(frame, key=False)]

    assert numbers(made) == list(range(1, 10))


def test_it_begins_in_the_middle_with_the_key_frame_before() -> None:
    maker = making(ring_with(10))

    assert numbers(list(maker.images(given(10)[7], key=False))) == [6, 7, 8]


def test_after_a_pause_it_begins_anew() -> None:
    maker = making(ring_with(20))
    all_frames = given(20)
    list(maker.images(all_frames[1], key=False))
    maker.pause()

    assert numbers(list(maker.images(all_frames[16], key=False))) == [16, 17]


def test_a_frame_that_a_step_had_is_encoded() -> None:
    maker = making(ring_with(10))
    (made,) = maker.images(replace(given(10)[0], altered=Altered.CHANGED), key=False)

    assert maker.encodes
    assert made.is_key
    assert made.format.parameter_sets != SETS


@pytest.mark.parametrize("until", [2, 5, 6])
def test_nothing_encoded_before_a_change_of_images_is_shown_after_it(until: int) -> None:
    """Frames up to `until` were hidden: their own packets must not come, although they are in the ring."""
    maker = making(ring_with(20))
    shown = []
    for number, frame in enumerate(given(20)):
        made = list(maker.images(replace(frame, altered=Altered.CHANGED if number <= until else Altered.NO), key=False))
        shown += [] if maker.encodes else numbers(made)

    assert shown == list(range(shown[0], 21))
    assert shown[0] > until + 1
    assert shown[0] % GROUP == 1


def test_a_codec_that_not_all_can_carry_is_encoded() -> None:
    maker = making(ring_with(5, codec="hevc"), codecs=frozenset({Codec.H264}))
    (made,) = maker.images(given(1)[0], key=False)

    assert maker.encodes
    assert made.format.codec is Codec.H264


def test_images_of_another_size_than_was_encoded_are_encoded() -> None:
    maker = making(ring_with(5))
    other = replace(frames(1, size_wh=(48, 64))[0], packet=1)
    list(maker.images(other, key=False))

    assert maker.encodes


def test_frames_without_packets_are_encoded() -> None:
    maker = making(ring_with(0))
    made = [image for frame in frames(3) for image in maker.images(frame, key=False)]

    assert [image.is_key for image in made] == [True, False, False]
