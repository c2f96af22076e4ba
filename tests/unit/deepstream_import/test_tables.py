"""Every key that DeepStream's parsers know is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.deepstream_import.keys import KEYS

from sightline_plugins.deepstream_import.outcomes import Outcome, Outcomes
from sightline_plugins.deepstream_import.sections import Entry, Section
from sightline_plugins.deepstream_import.settings import Settings, differs, rule_of, takes
from sightline_plugins.deepstream_import.source_text import Place


@pytest.mark.parametrize("section", KEYS)
def test_every_key_is_mapped_or_explained(section: str) -> None:
    table, keys = KEYS[section]

    assert [key for key in keys.split() if rule_of(table, key) is None] == []


@pytest.mark.parametrize("section", KEYS)
def test_what_is_different_or_not_possible_says_more_than_that(section: str) -> None:
    table, _ = KEYS[section]

    assert [key for key, rule in table.items() if len(rule.text.split()) < 2 and "`" not in rule.text] == []


def closed(*entries: tuple[str, str]) -> Outcomes:
    """What is found of a section with the keys `size`, `limit` (0 switches it off) and `colour-*`."""
    table = {"size": takes("`size`"), "limit": differs("`most`", off=("0",)), "colour-*": takes("`draw`")}
    section = Section("box", Place(Path("a.txt"), 1))
    for number, (key, value) in enumerate(entries, 2):
        section.add(Entry(key, value, Place(Path("a.txt"), number)))
    settings = Settings(section, table, Outcomes())
    settings.close()
    return settings.outcomes


def test_a_key_that_nothing_knows_comes_with_the_nearest() -> None:
    (outcome,) = closed(("sise", "3")).found

    assert outcome.outcome is Outcome.UNKNOWN
    assert outcome.text == "no such key is known; did you mean 'size'?"
    assert str(outcome.place) == "a.txt:2"


def test_a_value_that_switches_a_key_off_has_no_effect() -> None:
    assert [one.outcome for one in closed(("limit", "0"), ("colour-7", "1;0;0")).found] == [
        Outcome.NO_EFFECT,
        Outcome.TAKEN,
    ]


def test_the_later_of_two_keys_counts_and_both_are_reported() -> None:
    earlier, later = closed(("size", "3"), ("size", "4")).ordered()

    assert (earlier.outcome, earlier.value, later.outcome, later.value) == (
        Outcome.NO_EFFECT,
        "3",
        Outcome.TAKEN,
        "4",
    )
