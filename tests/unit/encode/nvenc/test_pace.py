"""How many images a second a video has, learnt from their times."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sightline_plugins.encode.nvenc import Pace


def told(pace: Pace, *, ticks_apart: int, count: int, start: int = 0) -> list[Fraction]:
    given = [pace.note(start + number * ticks_apart) for number in range(count)]
    return [fps for fps in given if fps is not None]


@pytest.mark.parametrize("ticks_apart", [3000, 3003, 2900])
def test_at_about_30_images_a_second_nothing_is_told(ticks_apart: int) -> None:
    assert told(Pace(), ticks_apart=ticks_apart, count=100) == []


@pytest.mark.parametrize(("ticks_apart", "fps"), [(9000, 10), (1500, 60), (1, 240), (10**6, 1)])
def test_another_rate_is_told_once(ticks_apart: int, fps: int) -> None:
    assert told(Pace(), ticks_apart=ticks_apart, count=100) == [fps]


def test_it_is_told_with_the_fifth_image() -> None:
    assert told(Pace(), ticks_apart=9000, count=4) == []
    assert told(Pace(), ticks_apart=9000, count=5) == [10]


def test_a_rate_that_changes_is_told_again() -> None:
    pace = Pace()
    assert told(pace, ticks_apart=9000, count=37) == [10]

    assert told(pace, ticks_apart=3600, count=64, start=36 * 9000 + 3600)[-1] == 25
