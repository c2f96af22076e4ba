"""Which images are marked as damaged."""

from __future__ import annotations

from functools import partial
from typing import cast

import av
import pytest
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.media import PixelFormat, Surface
from sightline_plugins.decode.decoder import Image
from sightline_plugins.decode.failures import lost_packets, tells_of_damage
from sightline_plugins.sources.live.timing import DamageTracker

NO_PIXELS = partial(Surface.allocate, PixelFormat.GRAY8, size_wh=(16, 16))


def packet(pts: int, *, key: bool) -> Packet[VideoStream]:
    made = Packet(b"x")
    made.pts = made.dts = pts
    made.is_keyframe = key
    return cast("Packet[VideoStream]", made)


def image(pts: int | None) -> Image:
    return Image(pts, None, is_corrupt=False, packet=None, surface=NO_PIXELS)


def marked(*, missed_at: set[int], keys: set[int], count: int = 12, troubled_at: frozenset[int] = frozenset()) -> str:
    """One letter an image: `.` whole, `x` damaged."""
    damage = DamageTracker()
    letters = []
    for number in range(count):
        damage.packet(packet(number, key=number in keys), missed=number in missed_at)
        letters.append("x" if damage.marks(image(number), troubled=number in troubled_at) else ".")
    return "".join(letters)


@pytest.mark.parametrize(
    ("missed_at", "keys", "expected"),
    [
        (set(), {0, 5, 10}, "............"),
        ({2}, {0, 5, 10}, "..xxx......."),
        ({5}, {0, 5, 10}, ".....xxxxx.."),
        ({4}, {0, 5, 10}, "....xxxxxx.."),
        ({3}, {0, 5, 10}, "...xx......."),
        ({2, 7}, {0, 5}, "..xxx..xxxxx"),
    ],
)
def test_from_a_loss_to_the_next_whole_key_frame(missed_at: set[int], keys: set[int], expected: str) -> None:
    assert marked(missed_at=missed_at, keys=keys) == expected


def test_what_the_decoder_concealed_is_passed_on_to_the_images_after_it() -> None:
    assert marked(missed_at=set(), keys={0, 5}, troubled_at=frozenset({2}), count=7) == "..xxx.."


def test_images_shown_before_the_key_frame_that_was_decoded_before_them_stay_damaged() -> None:
    damage = DamageTracker()
    for number, missed in ((1, True), (2, False), (5, False)):
        damage.packet(packet(number, key=number == 5), missed=missed)

    assert [damage.marks(image(pts), troubled=False) for pts in (3, 4, 5, 6)] == [True, True, False, False]


def test_packets_that_the_network_lost_are_counted_from_what_ffmpeg_says() -> None:
    lines = [(av.logging.WARNING, "rtsp", "RTP: missed 3 packets\n"), (av.logging.WARNING, "rtsp", "max delay\n")]

    assert lost_packets([*lines, (av.logging.WARNING, "rtsp", "RTP: missed 12 packets\n")]) == 15


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("concealing 40 DC, 40 AC, 40 MV errors in P frame", True),
        ("error while decoding MB 3 4, bytestream -7", True),
        ("Could not find ref with POC 12", True),
        ("SEI type 5 size 800 truncated at 40", False),
    ],
)
def test_what_ffmpeg_says_about_an_image(text: str, *, expected: bool) -> None:
    assert tells_of_damage([(av.logging.ERROR, "h264", text)]) is expected
