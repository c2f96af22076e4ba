"""Times of day in words: "yesterday evening", "between 8 and 9 on Monday", "in the last hour", "at 14:05".

Days begin at midnight of a time zone. A day of the week is the last one that has begun; a time of day without a day is
of today, or of yesterday if it has not come yet. A part of the day without a day means that part of every day.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PARTS = {
    "morning": (time(6), time(12)),
    "forenoon": (time(6), time(12)),
    "noon": (time(11, 30), time(13, 30)),
    "afternoon": (time(12), time(18)),
    "evening": (time(18), time(23)),
    "night": (time(22), time(6)),
}
"""When the parts of a day begin and end."""
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10, "couple of": 2}
_AROUND = timedelta(minutes=5)
"""How far from "at 14:05" a track may be."""
_CLOCK = r"(\d{1,2})(?:[:.](\d{2}))?\s*(am|pm|o'?clock|h(?:ours?)?)?"
_PART = "|".join(PARTS)
_DAY = rf"(today|yesterday|(?:on |last )?(?:{'|'.join(_DAYS)})|(?:on )?\d{{4}}-\d{{2}}-\d{{2}})"


@dataclass(frozen=True, slots=True)
class Moments:
    """What a text says of time. `since` and `until` are with a zone, None where open.

    `daily` is a part of every day, from and to, which may lie across midnight. `rest` is the text without it.
    """

    rest: str
    since: datetime | None = None
    until: datetime | None = None
    daily: tuple[time, time] | None = None


class UnclearTime(ValueError):
    """A text says a time that there is not, such as 25:00."""


def read_moments(text: str, *, now: datetime) -> Moments:
    """Find the times in a text; `now` is with a zone, which all of them are of. Raises UnclearTime."""
    reader = _Reader(f" {text} ", now)
    for pattern, read in _PATTERNS:
        reader.apply(pattern, read)
    return reader.result()


class _Reader:
    """Takes phrases out of a text, one pattern after another."""

    def __init__(self, text: str, now: datetime) -> None:
        self._text = text
        self._now = now
        self._day: date | None = None
        self._window: tuple[time, time] | None = None
        self._is_part = False
        self._span: tuple[datetime, datetime | None] | None = None

    def apply(self, pattern: re.Pattern[str], read: Callable[[_Reader, re.Match[str]], None]) -> None:
        found = pattern.search(self._text)
        if found is not None:
            read(self, found)
            self._text = f"{self._text[: found.start()]} {self._text[found.end() :]}"

    def result(self) -> Moments:
        rest = " ".join(self._text.split())
        zone, today = self._now.tzinfo, self._now.date()
        if self._span is not None:
            return Moments(rest, *self._span)
        if self._window is None:
            if self._day is None:
                return Moments(rest)
            return Moments(rest, _at(self._day, time(0), zone), _at(self._day + timedelta(days=1), time(0), zone))
        if self._day is None and self._is_part:
            return Moments(rest, daily=self._window)
        day = today if self._day is None else self._day
        begins, ends = self._window
        since = _at(day, begins, zone)
        if self._day is None and since > self._now:
            day, since = day - timedelta(days=1), _at(day - timedelta(days=1), begins, zone)
        return Moments(rest, since, _at(day if ends > begins else day + timedelta(days=1), ends, zone))

    def last(self, found: re.Match[str]) -> None:
        """Read "in the last 10 minutes"."""
        number = _number(found[1])
        self._span = self._now - timedelta(seconds=number * _UNITS[found[2]]), self._now

    def ago(self, found: re.Match[str]) -> None:
        """Read "an hour ago"."""
        seconds = _number(found[1]) * _UNITS[found[2]]
        middle = self._now - timedelta(seconds=seconds)
        around = max(timedelta(seconds=seconds / 4), timedelta(minutes=1))
        self._span = middle - around, middle + around

    def this(self, found: re.Match[str]) -> None:
        """Read "tonight", "last night", "this morning"."""
        word, today = " ".join(found[0].split()), self._now.date()
        if word == "last night":
            self._day, self._window = today - timedelta(days=1), PARTS["night"]
        elif word == "tonight":
            self._day, self._window = today, (time(18), time(6))
        else:
            self._day, self._window = today, PARTS[word.rpartition(" ")[2]]

    def day(self, found: re.Match[str]) -> None:
        """Read "yesterday", "on Monday", "2026-11-25"."""
        word, today = found[1].split()[-1], self._now.date()
        if word in ("today", "yesterday"):
            self._day = today - timedelta(days=word == "yesterday")
        elif word in _DAYS:
            back = (today.weekday() - _DAYS.index(word)) % 7
            self._day = today - timedelta(days=back or 7 * found[1].startswith("last"))
        else:
            try:
                self._day = date.fromisoformat(word)
            except ValueError as error:
                raise UnclearTime(f"{word} is no date: write it as YYYY-MM-DD") from error

    def part(self, found: re.Match[str]) -> None:
        """Read "in the evening"."""
        self._window, self._is_part = PARTS[found[1]], True

    def between(self, found: re.Match[str]) -> None:
        """Read "between 8 and 9", "from 8:30 to 9 pm"."""
        ends_in = found[6] if found[6] in ("am", "pm") else None
        begins = self._clock(found[1], found[2], found[3] or ends_in)
        self._set(begins, self._clock(found[4], found[5], found[6]))

    def after(self, found: re.Match[str]) -> None:
        """Read "after 14:00": until the end of the day."""
        self._set(self._clock(found[1], found[2], found[3]), time(0))

    def before(self, found: re.Match[str]) -> None:
        """Read "before 9": from the beginning of the day."""
        self._set(time(0), self._clock(found[1], found[2], found[3]))

    def at(self, found: re.Match[str]) -> None:
        """Read "at 14:05", "14:05", "at 9 pm": some minutes before and after."""
        clock = self._clock(*(found.groups() if found.re is _AT else (found[1], found[2], found[3])))
        middle = datetime.combine(date(2000, 1, 2), clock)
        self._set((middle - _AROUND).time(), (middle + _AROUND).time())

    def _set(self, begins: time, ends: time) -> None:
        self._window, self._is_part = (begins, ends), False

    def _clock(self, hour: str, minute: str | None, half: str | None) -> time:
        """A time of day; a part of the day that was named, such as "evening", tells 8 from 20 o'clock."""
        number = int(hour)
        if half in ("am", "pm") and number <= 12:
            number = number % 12 + 12 * (half == "pm")
        elif half is None and number <= 12 and self._window in (PARTS["evening"], PARTS["afternoon"]):
            number = number % 12 + 12
        try:
            return time(number, int(minute or 0))
        except ValueError as error:
            raise UnclearTime(f"{hour}:{minute or '00'} is no time of day: write it as 14:05 or 2 pm") from error


_UNIT = "|".join(_UNITS)
_COUNT = rf"(\d+|{'|'.join(_NUMBERS)})"
_AT = re.compile(rf"\b(?:at|around|about) {_CLOCK}\b")
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[_Reader, re.Match[str]], None]], ...] = (
    (re.compile(rf"\b(?:in |within |during )?(?:the )?(?:last|past) (?:{_COUNT} )?({_UNIT})s?\b"), _Reader.last),
    (re.compile(rf"\b{_COUNT} ({_UNIT})s? ago\b"), _Reader.ago),
    (re.compile(rf"\b(?:tonight|last night|this (?:{_PART}))\b"), _Reader.this),
    (re.compile(rf"\b{_DAY}\b"), _Reader.day),
    (re.compile(rf"\b(?:in the |at |during the |by )?({_PART})\b"), _Reader.part),
    (re.compile(rf"\b(?:between|from) {_CLOCK} (?:and|to|till|until) {_CLOCK}\b"), _Reader.between),
    (re.compile(rf"\b(?:after|since|from) {_CLOCK}\b"), _Reader.after),
    (re.compile(rf"\b(?:before|until|till) {_CLOCK}\b"), _Reader.before),
    (_AT, _Reader.at),
    (re.compile(r"\b(\d{1,2})[:](\d{2})( ?(?:am|pm))?\b"), _Reader.at),
)
"""What is looked for, in this order: what says more goes before what is a part of it."""


def _number(text: str | None) -> int:
    if text is None:
        return 1
    return int(text) if text.isdigit() else _NUMBERS[text]


def _at(day: date, clock: time, zone: tzinfo | None) -> datetime:
    return datetime.combine(day, clock, zone)
