"""The checks of whole runs: what they accept, and what they say of what they do not."""

from __future__ import annotations

from collections import Counter

import pytest

from sightline.media import Batch, Stream
from sightline.runtime.stats.counters import StreamStats
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted, make_batches, make_frames


def report_of(
    *, live: bool = False, received: int = 10, processed: int = 10, damaged: int = 0, **dropped: int
) -> Report:
    stream = StreamStats(
        Stream("cam", live=live), received=received, processed=processed, damaged=damaged, dropped=Counter(dropped)
    )
    return Report("p", "cpu", 0.0, 1.0, 1.0, (stream,), (), {}, {}, (), 0.0, 0.0)


@pytest.mark.parametrize(
    "report",
    [
        report_of(),
        report_of(processed=7, damaged=3),
        report_of(live=True, processed=6, overloaded=4),
        report_of(received=0, processed=0),
    ],
)
def test_frames_that_ended_in_one_counter_are_accounted_for(report: Report) -> None:
    assert_accounted(report)


def test_a_frame_that_is_in_no_counter_is_told() -> None:
    with pytest.raises(AssertionError, match="10 frames received, but 9 accounted for"):
        assert_accounted(report_of(processed=9))


def test_a_frame_that_is_in_two_counters_is_told() -> None:
    with pytest.raises(AssertionError, match="10 frames received, but 11 accounted for"):
        assert_accounted(report_of(damaged=1))


def test_a_file_never_drops_for_being_slow() -> None:
    with pytest.raises(AssertionError, match=r"dropped {'overloaded': 1}"):
        assert_accounted(report_of(processed=9, overloaded=1), stopped=True)


def test_a_run_that_was_not_stopped_drops_nothing_as_stopped() -> None:
    with pytest.raises(AssertionError, match=r"dropped {'stopped': 1}"):
        assert_accounted(report_of(processed=9, stopped=1))


def test_a_run_that_was_stopped_may_drop_what_was_under_way() -> None:
    assert_accounted(report_of(processed=9, stopped=1), stopped=True)


def seen(batches: list[Batch]) -> FrameOrder:
    order = FrameOrder()
    for batch in batches:
        order(batch)
    return order


def test_frames_in_order_are_in_order() -> None:
    order = seen(make_batches(make_frames(10), size=3))

    order.check(report_of())

    assert order.frames("cam") == 10


def test_frames_that_change_places_are_told() -> None:
    batches = make_batches(make_frames(10))

    with pytest.raises(AssertionError, match="frame 3 at 120000000 ns came after frame 4 at 160000000 ns"):
        seen([*batches[:3], batches[4], batches[3], *batches[5:]]).check(report_of())


def test_a_gap_that_no_drop_explains_is_told() -> None:
    batches = make_batches(make_frames(10))
    del batches[4]

    with pytest.raises(AssertionError, match="1 frames missing, 0 dropped"):
        seen(batches).check(report_of())


def test_a_gap_that_a_drop_explains_is_none() -> None:
    batches = make_batches(make_frames(10))
    del batches[4]

    seen(batches).check(report_of(live=True, processed=9, overloaded=1))


def test_frames_that_went_all_the_way_but_not_by_here_are_told() -> None:
    with pytest.raises(AssertionError, match="10 frames went all the way, 9 came by here"):
        seen(make_batches(make_frames(9))).check(report_of())
