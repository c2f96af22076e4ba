"""When a tracked object is looked at again."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.media import Stream
from sightline_plugins.infer.track_memory import TrackMemory

SECOND = 1_000_000_000
GATE = Stream("gate")


def due_times(
    memory: TrackMemory[str],
    *,
    seconds: Sequence[float],
    areas: Sequence[float] = (),
    confidences: Sequence[float] = (),
) -> list[bool]:
    """Return whether the model runs on one track, at each time."""
    due = []
    for number, at in enumerate(seconds):
        pts_ns = round(at * SECOND)
        area = areas[number] if areas else 100.0
        confidence = confidences[number] if confidences else 0.9
        entry = memory.entry(GATE, 1, pts_ns=pts_ns)
        due.append(memory.take_due(entry, pts_ns=pts_ns, area=area, confidence=confidence))
    return due


def test_a_new_track_is_due_four_times_in_its_first_second_and_then_once_per_interval() -> None:
    tenths = [number / 10 for number in range(52)]

    due = due_times(TrackMemory(2 * SECOND), seconds=tenths)

    assert [at for at, due in zip(tenths, due, strict=True) if due] == [0.0, 0.2, 0.5, 1.0, 3.0, 5.0]


def test_a_short_interval_holds_from_the_first_run_on() -> None:
    assert due_times(TrackMemory(SECOND // 10), seconds=[0, 0.1, 0.2, 0.25, 0.3]) == [True, True, True, False, True]


def test_without_an_interval_a_track_is_due_on_every_frame() -> None:
    assert due_times(TrackMemory(0), seconds=[0, 0.04, 0.08]) == [True] * 3


def test_a_box_that_has_grown_by_half_is_due_again() -> None:
    due = due_times(TrackMemory(2 * SECOND), seconds=[0, 0.01, 0.02, 0.03], areas=[100, 149, 150, 200])

    assert due == [True, False, True, False]


def test_a_box_that_grows_back_to_where_it_was_is_not() -> None:
    due = due_times(TrackMemory(2 * SECOND), seconds=[0, 0.3, 0.31, 0.32], areas=[100, 40, 99, 140])

    assert due == [True, True, False, False]


def test_an_object_seen_with_more_confidence_than_ever_is_due_again() -> None:
    due = due_times(TrackMemory(2 * SECOND), seconds=[0, 0.1, 0.25, 0.3, 0.4], confidences=[0.5, 0.7, 0.4, 0.7, 0.85])

    assert due == [True, True, False, False, True]


def test_a_clock_that_starts_again_is_followed() -> None:
    assert due_times(TrackMemory(2 * SECOND), seconds=[5, 0.1]) == [True, True]


def test_a_track_that_the_model_never_ran_on_is_not_known() -> None:
    memory: TrackMemory[str] = TrackMemory(SECOND)
    memory.entry(GATE, 1, pts_ns=0)

    assert memory.known(GATE, 1, pts_ns=0) is None
    assert memory.known(GATE, 2, pts_ns=0) is None


def test_the_tracks_of_a_stream_that_ended_are_forgotten() -> None:
    memory: TrackMemory[str] = TrackMemory(SECOND)
    due_times(memory, seconds=[0])
    memory.end_stream(GATE)

    assert memory.known(GATE, 1, pts_ns=0) is None


def test_tracks_not_seen_for_long_are_forgotten() -> None:
    memory: TrackMemory[str] = TrackMemory(SECOND)
    for number in range(2000):
        pts_ns = number * SECOND
        memory.take_due(memory.entry(GATE, number, pts_ns=pts_ns), pts_ns=pts_ns, area=1, confidence=1)

    assert sum(memory.known(GATE, number, pts_ns=2000 * SECOND) is not None for number in range(2000)) < 600
