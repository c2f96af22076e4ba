"""Histograms of durations: what they hold between two moments."""

from __future__ import annotations

import pytest

from sightline.runtime.stats.counters import Histogram

MS = 1_000_000


def histogram(*durations_ns: int) -> Histogram:
    filled = Histogram()
    for duration_ns in durations_ns:
        filled.add(duration_ns)
    return filled


def test_what_was_counted_since_a_copy_is_all_that_is_left() -> None:
    counted = histogram(900 * MS, 950 * MS)
    earlier = counted.copy()
    for duration_ns in (10 * MS, 20 * MS, 20 * MS):
        counted.add(duration_ns)

    since = counted.since(earlier)

    assert (since.count, since.total_ns) == (3, 50 * MS)
    assert since.percentile_ns(95) == pytest.approx(20 * MS, rel=0.1)
    assert since.maximum_ns == pytest.approx(20 * MS, rel=0.1)
    assert since.cumulative()[-1] == 3


def test_a_copy_does_not_change_with_its_original() -> None:
    counted = histogram(5 * MS)
    copied = counted.copy()
    counted.add(7 * MS)

    assert copied.count == 1
    assert copied.percentile_ns(50) == pytest.approx(5 * MS, rel=0.1)


def test_nothing_since_is_nothing() -> None:
    counted = histogram(5 * MS)

    assert counted.since(counted.copy()).percentile_ns(95) == 0


def test_what_another_one_counted_can_be_added() -> None:
    counted = histogram(5 * MS, 100 * MS)

    counted.add_all(histogram(5 * MS, 300 * MS, 300 * MS))

    assert (counted.count, counted.total_ns, counted.maximum_ns) == (5, 710 * MS, 300 * MS)
    assert counted.percentile_ns(95) == pytest.approx(300 * MS, rel=0.1)
    assert counted.cumulative() == histogram(5 * MS, 5 * MS, 100 * MS, 300 * MS, 300 * MS).cumulative()
