"""When a tracked object is looked at again."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.media import Stream
from sightline_plugins.infer.track_memory import TrackMemory

SECOND = 1_000_000_000
GATE = Stream("gate")


def looks(
    memory: TrackMemory[str],
    *,
    seconds: Sequence[float],
    areas: Sequence[float] = (),
    qualities: Sequence[float] = (),
) -> list[bool]:
    """Whether one track is looked at, at each time."""
    asked = []
    for number, at in enumerate(seconds):
        pts_ns = round(at * SECOND)
        area = areas[number] if areas else 100.0
        quality = qualities[number] if qualities else 0.9
        asked.append(memory.asks(memory.slot(GATE, 1, pts_ns=pts_ns), pts_ns=pts_ns, area=area, quality=quality))
    return asked


def test_a_new_track_is_looked_at_four_times_in_its_first_second_and_then_at_each_refresh() -> None:
    tenths = [number / 10 for number in range(52)]

    asked = looks(TrackMemory(2 * SECOND), seconds=tenths)

    assert [at for at, due in zip(tenths, asked, strict=True) if due] == [0.0, 0.2, 0.5, 1.0, 3.0, 5.0]


def test_a_short_refresh_is_kept_from_the_first_look_on() -> None:
    assert looks(TrackMemory(SECOND // 10), seconds=[0, 0.1, 0.2, 0.25, 0.3]) == [True, True, True, False, True]


def test_without_a_refresh_each_frame_is_looked_at() -> None:
    assert looks(TrackMemory(0), seconds=[0, 0.04, 0.08]) == [True] * 3


def test_a_box_that_has_grown_by_half_is_looked_at_again() -> None:
    asked = looks(TrackMemory(2 * SECOND), seconds=[0, 0.01, 0.02, 0.03], areas=[100, 149, 150, 200])

    assert asked == [True, False, True, False]


def test_a_box_that_grows_back_to_where_it_was_is_not() -> None:
    asked = looks(TrackMemory(2 * SECOND), seconds=[0, 0.3, 0.31, 0.32], areas=[100, 40, 99, 140])

    assert asked == [True, True, False, False]


def test_what_is_seen_better_than_ever_is_looked_at_again() -> None:
    asked = looks(TrackMemory(2 * SECOND), seconds=[0, 0.1, 0.25, 0.3, 0.4], qualities=[0.5, 0.7, 0.4, 0.7, 0.85])

    assert asked == [True, True, False, False, True]


def test_a_clock_that_starts_again_is_followed() -> None:
    assert looks(TrackMemory(2 * SECOND), seconds=[5, 0.1]) == [True, True]


def test_a_track_that_was_never_looked_at_is_not_known() -> None:
    memory: TrackMemory[str] = TrackMemory(SECOND)
    memory.slot(GATE, 1, pts_ns=0)

    assert memory.asked(GATE, 1, pts_ns=0) is None
    assert memory.asked(GATE, 2, pts_ns=0) is None


def test_the_tracks_of_a_stream_that_ended_are_forgotten() -> None:
    memory: TrackMemory[str] = TrackMemory(SECOND)
    looks(memory, seconds=[0])
    memory.end_stream(GATE)

    assert memory.asked(GATE, 1, pts_ns=0) is None


def test_tracks_not_seen_for_long_are_forgotten() -> None:
    memory: TrackMemory[str] = TrackMemory(SECOND)
    for number in range(2000):
        pts_ns = number * SECOND
        memory.asks(memory.slot(GATE, number, pts_ns=pts_ns), pts_ns=pts_ns, area=1, quality=1)

    assert sum(memory.asked(GATE, number, pts_ns=2000 * SECOND) is not None for number in range(2000)) < 600
