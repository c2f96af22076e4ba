"""What `sightline search` understands of a text: times, streams, labels, and what is left for the vector."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from sightline.graph.track_search import TrackQuery
from sightline_plugins.search.moments import UnclearTime
from sightline_plugins.search.query import understand

NOW = datetime(2026, 11, 26, 10, 30, tzinfo=ZoneInfo("Europe/Berlin"))
STREAMS = ("gate", "back-yard", "yard")
LABELS = ("person", "bicycle", "car", "van", "truck", "bus")
SPANS = {
    "yesterday evening": ("2026-11-25 18:00", "2026-11-25 23:00"),
    "on Monday": ("2026-11-23 00:00", "2026-11-24 00:00"),
    "cars on monday morning": ("2026-11-23 06:00", "2026-11-23 12:00"),
    "last thursday": ("2026-11-19 00:00", "2026-11-20 00:00"),
    "today": ("2026-11-26 00:00", "2026-11-27 00:00"),
    "tonight": ("2026-11-26 18:00", "2026-11-27 06:00"),
    "last night": ("2026-11-25 22:00", "2026-11-26 06:00"),
    "this morning": ("2026-11-26 06:00", "2026-11-26 12:00"),
    "between 8 and 9": ("2026-11-26 08:00", "2026-11-26 09:00"),
    "in the evening between 8 and 9": ("2026-11-25 20:00", "2026-11-25 21:00"),
    "from 8 to 9 pm on 2026-11-20": ("2026-11-20 20:00", "2026-11-20 21:00"),
    "14:05": ("2026-11-25 14:00", "2026-11-25 14:10"),
    "yesterday at 9 pm": ("2026-11-25 20:55", "2026-11-25 21:05"),
    "after 9": ("2026-11-26 09:00", "2026-11-27 00:00"),
    "before 8:30 today": ("2026-11-26 00:00", "2026-11-26 08:30"),
    "in the last hour": ("2026-11-26 09:30", "2026-11-26 10:30"),
    "within the past 3 days": ("2026-11-23 10:30", "2026-11-26 10:30"),
    "two hours ago": ("2026-11-26 08:00", "2026-11-26 09:00"),
}


def asked(text: str, *, has_times: bool = True) -> TrackQuery:
    return understand(text, streams=STREAMS, labels=LABELS, now=NOW, has_times=has_times)


def test_times_become_spans_of_the_zone_and_leave_the_words() -> None:
    found = {text: asked(f"red bus {text}") for text in SPANS}
    assert {text: (f"{query.since:%F %H:%M}", f"{query.until:%F %H:%M}") for text, query in found.items()} == SPANS
    left = {query.words for query in found.values()}
    assert left == {"red bus", "red bus cars"}
    assert {query.since and query.since.tzname() for query in found.values()} == {"CET"}


def test_a_part_of_the_day_alone_is_of_every_day() -> None:
    query = asked("car at night")
    assert query.daily is not None
    assert (query.since, query.words) == (None, "car")
    assert query.told() == 'label car; time 22:00 to 06:00 of every day (CET); words "car"'


def test_without_times_of_day_it_stays_a_word() -> None:
    query = asked("car at night", has_times=False)
    assert (query.daily, query.words) == (None, "car at night")


@pytest.mark.parametrize("text", ["car at 25:00", "bus between 8 and 9:75", "on 2026-13-40"])
def test_a_time_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(UnclearTime, match="write it as"):
        asked(text)


def test_names_of_streams_become_filters_and_longer_ones_go_first() -> None:
    query = asked("white van at the back yard")
    assert (query.streams, query.words) == (("back-yard",), "white van")
    assert asked("somebody at the gate and in the yard").streams == ("gate", "yard")
    assert asked("an investigation of vans").streams is None


def test_labels_are_named_by_what_people_call_them() -> None:
    texts = ("two people", "a cyclist", "lorries", "buses", "vehicles", "a man on a bike", "something red")
    assert [asked(text).labels for text in texts] == [
        ("person",),
        ("bicycle",),
        ("truck",),
        ("bus",),
        ("car", "van", "truck", "bus"),
        ("person", "bicycle"),
        None,
    ]


@pytest.mark.parametrize(
    ("text", "direction", "words"),
    [
        ("red car leaving yesterday", "away", "red car"),
        ("a cyclist that drives off", "away", "a cyclist"),
        ("somebody seen from behind in blue", "away", "somebody in blue"),
        ("white van coming towards the camera", "towards", "white van"),
        ("truck on its way here", "towards", "truck"),
        ("person walking from right to left", "left", "person"),
        ("bus heading rightwards", "right", "bus"),
        ("car to the left of the door", None, "car to the left of the door"),
        ("a car leaving and a car approaching", None, "a car leaving and a car approaching"),
        ("child with its left arm up", None, "child with its left arm up"),
        ("a coming-out party", None, "a coming-out party"),
    ],
)
def test_where_something_heads_is_a_filter(text: str, direction: str | None, words: str) -> None:
    query = asked(text)
    assert (query.direction, query.words) == (direction, words)
    assert ("direction" in query.told()) == (direction is not None)
