"""Durations as people write them, and times of day as records hold them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h|d)\s*")


def parse_duration_ns(value: object) -> int:
    """Nanoseconds from a duration as YAML holds it: `40ms`, `2s`, `1.5h`, `7d`, or a number of seconds.

    Raises ValueError when it is neither, or negative.
    """
    if isinstance(value, bool):
        raise ValueError('a duration is written like "40ms", "2s" or "5m"')
    if isinstance(value, int | float):
        nanoseconds = round(value * _UNITS_NS["s"])
    else:
        match = _DURATION.fullmatch(str(value))
        if match is None:
            raise ValueError(f'{value!r} is not a duration: write it like "40ms", "2s" or "5m"')
        nanoseconds = round(Decimal(match[1]) * _UNITS_NS[match[2]])
    if nanoseconds < 0:
        raise ValueError("a duration cannot be negative")
    return nanoseconds


def format_duration(nanoseconds: int) -> str:
    """The shortest exact way to write a duration, such as `40ms`."""
    for unit in ("d", "h", "m", "s", "ms", "us"):
        if nanoseconds and nanoseconds % _UNITS_NS[unit] == 0:
            return f"{nanoseconds // _UNITS_NS[unit]}{unit}"
    return f"{nanoseconds}ns" if nanoseconds else "0s"


def format_time(epoch_ns: int) -> str:
    """A time of day as RFC 3339 in UTC with milliseconds."""
    moment = datetime.fromtimestamp(epoch_ns // 1_000_000 / 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{epoch_ns // 1_000_000 % 1_000:03d}Z"


Duration = Annotated[
    int,
    BeforeValidator(parse_duration_ns),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": ["string", "number"], "unit": "duration", "examples": ["40ms", "2s", "5m"]}),
]
"""A field that holds nanoseconds and is written as a duration in YAML ("40ms", or a number of seconds)."""
