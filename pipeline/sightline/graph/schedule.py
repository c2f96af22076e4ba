"""Schedules: hours of the week, as people write them, in a time zone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sightline.graph.described import Described

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_MINUTES = 1_440
_WEEK_MINUTES = 7 * _DAY_MINUTES
_MINUTE_NS = 60_000_000_000
_SPAN = re.compile(r"(?:(?P<days>[a-z, -]*[a-z])\s*)?(?:(?P<begin>\d{1,2}:\d{2})\s*-\s*(?P<end>\d{1,2}:\d{2}))?")
_FORM = 'write it like "mon-fri 08:00-18:00", "22:00-06:00" or "sat, sun"'

Week = npt.NDArray[np.bool_]
"""(10080,): for each minute from Monday 00:00 on, whether it belongs to a schedule."""


def minutes_of(hours: str) -> Iterator[range]:
    """Yield the minutes of the week that hours such as `mon-fri 08:00-18:00` mean, one range for each day on which they
    begin; a range may reach into the next day, and behind the end of the week.

    Raises ValueError when they are not written so, or mean no time at all.
    """
    match = _SPAN.fullmatch(hours.strip().lower())
    if match is None or not any(match.groups()):
        raise ValueError(f"{hours!r} are no hours of a week: {_FORM}")
    begin, end = (0, _DAY_MINUTES) if match["begin"] is None else (_minute(match["begin"]), _minute(match["end"]))
    if begin == end:
        raise ValueError(f"{hours!r} begins and ends at the same minute, which is no time at all: {_FORM}")
    length = end - begin if end > begin else end - begin + _DAY_MINUTES
    for day in range(7) if match["days"] is None else _days(match["days"]):
        yield range(day * _DAY_MINUTES + begin, day * _DAY_MINUTES + begin + length)


def _minute(text: str) -> int:
    hour, minute = map(int, text.split(":"))
    if minute > 59 or hour * 60 + minute > _DAY_MINUTES:
        raise ValueError(f"there is no {text} on a clock: hours go from 00:00 to 24:00")
    return hour * 60 + minute


def _days(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, *last = (_day(name.strip()) for name in part.split("-"))
        if len(last) > 1:
            raise ValueError(f"{part.strip()!r} names more than two days: {_FORM}")
        yield from (
            day % 7 for day in range(first, (last[0] if last else first) + (7 if last and last[0] < first else 0) + 1)
        )


def _day(name: str) -> int:
    found = next((number for number, day in enumerate(_DAYS) if len(name) > 2 and day.startswith(name)), None)
    if found is None:
        raise ValueError(f"{name!r} is no day: they are {', '.join(day[:3] for day in _DAYS)}")
    return found


def _check_hours(hours: str) -> str:
    list(minutes_of(hours))
    return hours


def _check_any(hours: tuple[str, ...]) -> tuple[str, ...]:
    if not hours:
        raise ValueError(f"names no hours, so it would never be active: {_FORM}")
    return hours


def _check_zone(name: str) -> str:
    if name not in available_timezones():
        places = {one.rsplit("/", 1)[-1]: one for one in available_timezones()}
        near = places.get(name.rsplit("/", 1)[-1].title().replace(" ", "_"))
        close = [near] if near else get_close_matches(name, available_timezones(), n=1)
        hint = f", did you mean {close[0]}?" if close else ": write it like Europe/Berlin or UTC"
        raise ValueError(f"there is no time zone {name!r}{hint}")
    return name


class Schedule(Described):
    """Hours of the week. Written as text, as a list of text, or with a time zone."""

    hours: Annotated[
        tuple[Annotated[str, AfterValidator(_check_hours)], ...],
        AfterValidator(_check_any),
        Field(examples=[["mon-fri 08:00-18:00", "sat, sun"]]),
    ]
    """When, such as `mon-fri 08:00-18:00`. Days without hours are whole days, hours without days are those of every
    day; hours such as `22:00-06:00` end on the next day."""
    timezone: Annotated[str, AfterValidator(_check_zone)] | None = None
    """The time zone of the hours, such as `Europe/Berlin`; that of the machine when not given."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if isinstance(value, str):
            return {"hours": (value,)}
        if isinstance(value, list | tuple):
            return {"hours": tuple(value)}
        if not isinstance(value, Mapping | cls):
            raise ValueError(f"{value!r} is no schedule: {_FORM}")
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, handler(schema)]}

    def is_active(self, epoch_ns: int) -> bool:
        """Whether a time of day, in nanoseconds since the epoch, belongs to it."""
        return bool(_week(self.hours)[_minute_of_week(self.timezone, epoch_ns // _MINUTE_NS)])


@lru_cache(maxsize=256)
def _week(hours: Sequence[str]) -> Week:
    week = np.zeros(_WEEK_MINUTES, np.bool_)
    for one in hours:
        for minutes in minutes_of(one):
            week[np.arange(minutes.start, minutes.stop) % _WEEK_MINUTES] = True
    return week


@lru_cache(maxsize=256)
def _minute_of_week(timezone: str | None, epoch_minute: int) -> int:
    """The minute since Monday 00:00, by the clock on the wall there."""
    zone: tzinfo | None = None if timezone is None else ZoneInfo(timezone)
    moment = datetime.fromtimestamp(epoch_minute * 60, UTC).astimezone(zone)
    return moment.weekday() * _DAY_MINUTES + moment.hour * 60 + moment.minute
