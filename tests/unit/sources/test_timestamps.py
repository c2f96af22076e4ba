from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from sightline_plugins.decode.timestamps import RateLimit, Timestamps, last_ticks, nanoseconds

MILLISECOND = 1_000_000


def run(
    stamps: list[int | None], *, dts: list[int | None] | None = None, warnings: list[str] | None = None
) -> list[int]:
    heard: list[str] = [] if warnings is None else warnings
    timestamps = Timestamps(time_base=Fraction(1, 1000), interval_ns=40 * MILLISECOND, warn=heard.append)
    decoding = dts or [None] * len(stamps)
    return [timestamps.next_ns(pts, at) // MILLISECOND for pts, at in zip(stamps, decoding, strict=True)]


@pytest.mark.parametrize(
    ("ticks", "time_base", "expected"),
    [
        (1, Fraction(1, 3), 333_333_333),
        (2, Fraction(1, 3), 666_666_667),
        (-1, Fraction(1, 3), -333_333_333),
        (127_995, Fraction(1, 15_360), 8_333_007_812),
        (1, Fraction(1001, 24_000), 41_708_333),
    ],
)
def test_a_timestamp_is_the_nearest_nanosecond(ticks: int, time_base: Fraction, expected: int) -> None:
    assert nanoseconds(ticks, time_base) == expected


def test_a_time_between_two_ticks_belongs_to_the_earlier_one() -> None:
    assert last_ticks(79_999_999, Fraction(1, 25)) == 1


def test_timestamps_that_rise_are_left_alone() -> None:
    assert run([5, 40, 400, 401]) == [5, 40, 400, 401]


def test_a_missing_timestamp_is_the_decoding_time() -> None:
    assert run([0, None], dts=[0, 33]) == [0, 33]


def test_a_missing_timestamp_without_a_decoding_time_is_one_interval_later() -> None:
    assert run([10, None, None, 130]) == [10, 50, 90, 130]


def test_a_stream_without_any_timestamp_counts_intervals_from_zero() -> None:
    assert run([None, None, None]) == [0, 40, 80]


def test_a_timestamp_that_steps_back_or_stays_is_one_interval_after_the_previous_one() -> None:
    assert run([0, 100, 60, 140, 180, 220]) == [0, 100, 140, 180, 220, 260]


def test_a_clock_that_begins_anew_goes_on_with_its_distances() -> None:
    assert run([5000, 5040, 0, 100, 110]) == [5000, 5040, 5080, 5180, 5190]


def test_repairs_are_reported_once() -> None:
    warnings: list[str] = []
    run([0, None, 5, 5, 5], warnings=warnings)
    assert len(warnings) == 1


@pytest.mark.parametrize(("fps", "max_fps"), [(30, 15), (25, 10), (60, 15), (50, 5), (12.5, 5), (24, 1), (30, 7.5)])
def test_a_rate_limit_takes_its_share_evenly(fps: float, max_fps: float) -> None:
    limit = RateLimit(max_fps)
    # Timestamps as Matroska rounds them, to milliseconds.
    taken = [n for n in range(600) if limit.takes(round(n / fps * 1000) * MILLISECOND)]
    gaps = {after - before for before, after in itertools.pairwise(taken)}
    assert len(taken) == pytest.approx(600 * max_fps / fps, abs=1)
    assert max(gaps) - min(gaps) <= (0 if fps / max_fps == fps // max_fps else 1)


def test_a_rate_limit_above_the_rate_takes_everything_in_spite_of_jitter() -> None:
    limit = RateLimit(25)
    jitter = (0, 9, -9, 4, -4)
    assert all(limit.takes((40 * n + jitter[n % 5]) * MILLISECOND) for n in range(500))
