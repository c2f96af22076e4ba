"""Schedules: hours of the week as people write them, in time zones."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import TypeAdapter, ValidationError

from sightline.graph.schedule import Schedule

SCHEDULE = TypeAdapter(Schedule)


def is_active(schedule: object, moment: str, *, zone: str = "UTC") -> bool:
    """Whether a schedule in UTC is active when the clock on the wall of a zone shows a moment."""
    described = {"hours": schedule, "timezone": "UTC"} if isinstance(schedule, list) else schedule
    at = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone))
    return SCHEDULE.validate_python(described).is_active(int(at.timestamp()) * 1_000_000_000)


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        (
            "mon-fri 08:00-18:00",
            ["2026-11-23T08:00", "2026-11-27T17:59:59"],
            ["2026-11-23T07:59:59", "2026-11-28T12:00"],
        ),
        ("22:00-06:00", ["2026-11-23T22:00", "2026-11-24T05:59"], ["2026-11-24T06:00", "2026-11-24T21:59"]),
        ("sun 22:00-06:00", ["2026-11-29T23:00", "2026-11-30T05:00"], ["2026-11-29T05:00", "2026-11-30T23:00"]),
        ("sat, sun", ["2026-11-28T00:00", "2026-11-29T23:59"], ["2026-11-27T23:59", "2026-11-30T00:00"]),
        ("fri-mon 10:00-24:00", ["2026-11-27T10:00", "2026-11-30T23:59"], ["2026-11-24T10:00", "2026-12-01T00:00"]),
        ("Monday 9:30-10:00", ["2026-11-23T09:30"], ["2026-11-23T09:29", "2026-11-24T09:30"]),
        ("00:00-24:00", ["2026-11-23T00:00", "2026-11-29T23:59"], []),
    ],
)
def test_hours_are_those_that_people_mean(hours: str, inside: list[str], outside: list[str]) -> None:
    assert [is_active([hours], one) for one in inside] == [True] * len(inside)
    assert [is_active([hours], one) for one in outside] == [False] * len(outside)


def test_hours_are_those_on_the_wall_of_the_time_zone_in_summer_and_winter() -> None:
    berlin = {"hours": ["08:00-09:00"], "timezone": "Europe/Berlin"}

    assert is_active(berlin, "2026-07-01T08:30", zone="Europe/Berlin")
    assert is_active(berlin, "2026-12-01T08:30", zone="Europe/Berlin")
    assert is_active(berlin, "2026-07-01T06:30")
    assert not is_active(berlin, "2026-12-01T06:30")
    assert is_active(berlin, "2026-12-01T03:30", zone="America/Toronto") is False


def test_several_hours_add_up() -> None:
    both = ["mon 08:00-12:00", "mon 13:00-17:00"]

    assert [is_active(both, f"2026-11-23T{hour}:00") for hour in ("08", "12", "13", "17")] == [True, False, True, False]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("08:00-08:00", "begins and ends at the same minute"),
        ("mon-fry 08:00-09:00", "'fry' is no day: they are mon, tue"),
        ("mon 25:00-26:00", "there is no 25:00 on a clock"),
        ("08:61-09:00", "there is no 08:61 on a clock"),
        ("mon-tue-wed", "names more than two days"),
        ("", "no hours of a week"),
        ("always", "is no day"),
        ([], "names no hours, so it would never be active"),
        (5, "5 is no schedule: write it like"),
        ({"hours": ["mon"], "timezone": "Berlin"}, "did you mean Europe/Berlin"),
        ({"hours": ["mon"], "timezone": "nowhere"}, "there is no time zone 'nowhere'"),
    ],
)
def test_an_impossible_schedule_is_refused_in_words(value: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SCHEDULE.validate_python(value)

    (error,) = caught.value.errors()
    assert message in error["msg"]
