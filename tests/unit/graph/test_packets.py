"""The ring of encoded images: whole groups, bounded in time and bytes, empty when nobody wants them."""

from __future__ import annotations

import threading
from fractions import Fraction

from sightline.graph import EncodedFormat, PacketRing, Packets
from sightline.media import Stream

CAM = Stream("cam")
KIND = EncodedFormat("h264", (64, 48), Fraction(1, 1000))
INTERVAL_NS = 40_000_000
SECOND_NS = 1_000_000_000


def fill(ring: PacketRing, count: int, *, first: int = 0, key_every: int = 10, size: int = 100) -> list[int]:
    """Add images of 25 a second; their numbers."""
    return [
        ring.add(
            bytes(size),
            pts=number * 40,
            dts=number * 40,
            pts_ns=number * INTERVAL_NS,
            dts_ns=number * INTERVAL_NS,
            duration=40,
            is_key=number % key_every == 0,
            format=KIND,
        )
        for number in range(first, first + count)
    ]


def ring_of(packets: Packets, *, seconds: int = 1, limit_bytes: int = 1_000_000) -> PacketRing:
    """A ring that is wanted for the whole test: the wish lives in the store."""
    packets.want(None, duration_ns=seconds * SECOND_NS, limit_bytes=limit_bytes)
    return packets.of(CAM)


def test_nothing_is_kept_while_nobody_wants_it() -> None:
    ring = Packets().of(CAM)

    fill(ring, 20)

    assert ring.size_bytes == 0
    assert ring.newest() is None


def test_it_begins_with_a_key_frame() -> None:
    ring = ring_of(Packets())

    fill(ring, 20, first=5)

    assert [packet.pts for packet in ring.after(0)] == [number * 40 for number in range(10, 25)]


def test_it_keeps_the_time_that_is_wanted_in_whole_groups() -> None:
    ring = ring_of(Packets(), seconds=20)

    fill(ring, 2000)

    kept = ring.after(0)
    assert kept[0].is_key
    assert 20 * SECOND_NS <= kept[-1].pts_ns - kept[0].pts_ns <= 20 * SECOND_NS + 10 * INTERVAL_NS


def test_it_keeps_enough_images_for_slow_streams() -> None:
    ring = ring_of(Packets(), seconds=0)

    fill(ring, 2000)

    assert 256 <= len(ring.after(0)) <= 266


def test_it_never_holds_more_bytes_than_it_may() -> None:
    ring = ring_of(Packets(), seconds=3600, limit_bytes=50_000)

    for number in range(0, 5000, 10):
        fill(ring, 10, first=number, size=1_000)
        assert ring.size_bytes <= 50_000

    assert ring.overflows == 0
    assert len(ring.after(0)) == 50


def test_a_group_larger_than_all_it_may_hold_is_dropped_and_counted() -> None:
    ring = ring_of(Packets(), limit_bytes=5_000)

    fill(ring, 100, key_every=100, size=1_000)
    assert ring.overflows == 1
    assert ring.after(0) == []

    fill(ring, 3, first=100, key_every=100, size=1_000)
    assert [packet.is_key for packet in ring.after(0)] == [True, False, False]


def test_numbers_rise_by_one_also_over_what_is_dropped() -> None:
    ring = ring_of(Packets(), limit_bytes=5_000)

    numbers = fill(ring, 50, key_every=50, size=1_000)

    assert numbers == list(range(numbers[0], numbers[0] + 50))


def test_a_packet_is_found_by_its_number_while_it_is_there() -> None:
    ring = ring_of(Packets(), seconds=0)

    numbers = fill(ring, 1000)

    found = ring.packet(numbers[990])
    assert found is not None
    assert found.pts == 990 * 40
    assert ring.packet(numbers[0]) is None
    assert ring.packet(numbers[-1] + 1) is None


def test_what_came_after_a_number_is_all_of_it() -> None:
    ring = ring_of(Packets())

    numbers = fill(ring, 100)

    assert [packet.number for packet in ring.after(numbers[37])] == numbers[38:]
    assert [packet.number for packet in ring.after(numbers[37], most=5)] == numbers[38:43]
    assert ring.after(numbers[-1]) == []


def test_no_two_rings_have_a_number_in_common() -> None:
    packets = Packets()
    packets.want(None, duration_ns=SECOND_NS, limit_bytes=1_000_000)
    first, second = packets.of(CAM), packets.of(Stream("other"))

    assert not set(fill(first, 50)) & set(fill(second, 50))


def test_only_streams_that_are_named_are_kept() -> None:
    packets = Packets()
    packets.want(("gate*",), duration_ns=SECOND_NS, limit_bytes=1_000_000)

    assert packets.of(Stream("gate-1")).is_wanted
    assert not packets.of(Stream("yard")).is_wanted


def test_the_largest_wish_counts_and_what_nobody_wants_any_more_is_let_go() -> None:
    packets = Packets()
    ring = packets.of(CAM)
    small = packets.want(None, duration_ns=SECOND_NS, limit_bytes=100_000)
    large = packets.want(None, duration_ns=20 * SECOND_NS, limit_bytes=1_000_000)
    fill(ring, 1000)
    assert len(ring.after(0)) >= 500

    large.close()
    fill(ring, 10, first=1000)
    assert len(ring.after(0)) <= 266

    small.close()
    small.close()
    assert ring.size_bytes == 0


def test_a_ring_is_one_as_long_as_somebody_holds_it() -> None:
    packets = Packets()
    ring = packets.of(CAM)

    assert packets.of(CAM) is ring


def test_one_thread_may_add_while_others_read() -> None:
    ring = ring_of(Packets(), seconds=2)
    adding = threading.Thread(target=lambda: fill(ring, 20_000))

    adding.start()
    while adding.is_alive():
        numbers = [packet.number for packet in ring.after(0)]
        assert numbers == sorted(numbers)
        assert not numbers or ring.key_frames()
    adding.join()

    assert ring.after(0)[-1].pts == 19_999 * 40
