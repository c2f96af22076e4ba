"""What counts as growth."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sightline_plugins.commands.soak.samples import Judged, Sample, judge, slope

MINUTES = 120


def sample(hours: float, *, memory: float = 200.0, threads: int = 9, files: int = 20, p95: float = 8.0) -> Sample:
    return Sample(hours, memory, threads, files, 100, 0, p95 / 2, p95, p95 * 2)


def judged(make: Callable[[int], Sample], *, minutes: int = MINUTES) -> dict[str, Judged]:
    return {one.what: one for one in judge([make(minute) for minute in range(1, minutes + 1)])}


def test_what_does_not_change_has_not_grown() -> None:
    verdict = judged(lambda minute: sample(minute / 60))

    assert list(verdict) == ["memory", "threads", "open files", "latency p95"]
    assert not any(one.grew for one in verdict.values())


def test_a_leak_of_two_mebibytes_an_hour_is_growth() -> None:
    memory = judged(lambda minute: sample(minute / 60, memory=200 + 2 * minute / 60))["memory"]

    assert memory.grew
    assert memory.slope_an_hour == pytest.approx(2)


def test_half_a_mebibyte_an_hour_is_allowed() -> None:
    assert not judged(lambda minute: sample(minute / 60, memory=200 + minute / 120))["memory"].grew


def test_what_grows_while_it_warms_up_is_not_judged() -> None:
    assert not judged(lambda minute: sample(minute / 60, memory=min(200.0, 100 + 10 * minute)))["memory"].grew


def test_memory_that_jumps_for_a_moment_has_not_grown() -> None:
    assert not judged(lambda minute: sample(minute / 60, memory=400.0 if minute % 10 == 9 else 200.0))["memory"].grew


@pytest.mark.parametrize("what", ["threads", "files"])
def test_one_more_every_half_hour_is_growth(what: str) -> None:
    verdict = judged(lambda minute: sample(minute / 60, **{what: 10 + minute // 30}))

    assert [one.what for one in verdict.values() if one.grew] == ["threads" if what == "threads" else "open files"]


def test_latency_that_doubles_over_the_run_is_growth() -> None:
    assert judged(lambda minute: sample(minute / 60, p95=50 + minute))["latency p95"].grew


def test_some_slow_minutes_are_no_growth() -> None:
    assert not judged(lambda minute: sample(minute / 60, p95=500.0 if minute > 100 else 50.0))["latency p95"].grew


def test_few_samples_say_nothing() -> None:
    with pytest.raises(ValueError, match="4 samples after warming up, 5 are needed: let it run longer"):
        judge([sample(minute / 60) for minute in (1, 2, 3, 4, 5)])


def test_a_slope_of_many_points_is_found_among_some_of_them() -> None:
    times = [float(number) for number in range(5_000)]

    assert slope(times, [3 * time for time in times]) == pytest.approx(3)
