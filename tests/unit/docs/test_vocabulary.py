"""Words that the project gave up are found wherever they come back, and nothing else is."""

from __future__ import annotations

import pytest
from tools.vocabulary import allowed, offences_in, problems, written


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Each picture is decoded.", "picture"),
        ("max_pictures = 3", "picture"),
        ("class PictureReader:", "picture"),
        ("the film ends", "film"),
        ("It can not be read.", "cannot"),
        ("The user is told why.", "told"),
        ("class Roster:", "roster"),
        ("agnostic: true", "agnostic"),
        ("stall: 5s", "stall"),
        ("refresh: 500ms", "refresh"),
        ("give_up: 3s", "give_up"),
        ("It is\nsaid once.", "said"),
        ("Boxes are thinned out.", "thinned"),
        ("A token is a must.", "a-must"),
        ("It lets go of the surface.", "lets-go"),
        ("in the place of a detector", "in-the-place-of"),
        ("a function of one's own", "ones-own"),
        ("until the next look", "look"),
        ("a double of a GPU", "gpu-double"),
        ("No GPU has run this.", "no-gpu"),
        ("sure_confidence: 0.7", "sure-confidence"),
        ("new_confidence: 0.4", "new-confidence"),
    ],
)
def test_a_word_that_was_given_up_is_found(text: str, rule: str) -> None:
    assert [offence.rule.name for offence in offences_in("module.py", text)] == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "Read the picture parameter set.",
        "class_agnostic: true",
        "The stream cannot be read.",
        "stall_timeout: 5s",
        "Turn left after the house.",
        "threading.Condition()",
    ],
)
def test_words_of_the_field_and_plain_english_pass(text: str) -> None:
    assert list(offences_in("module.py", text)) == []


def test_a_definition_is_found_in_code_and_not_in_prose() -> None:
    assert [offence.rule.instead for offence in offences_in("a.py", "class Turn:")] == ["StreamSession"]
    assert list(offences_in("a.md", "class Turn:")) == []


def test_a_module_with_a_name_that_was_given_up_is_found() -> None:
    assert [offence.text for offence in offences_in("plugins/looks/test_sheet.py", "")] == ["looks", "test_sheet"]


def test_an_allowed_offence_is_no_problem_and_a_new_one_is() -> None:
    found = list(offences_in("a.md", "a picture\na film"))

    assert problems(found, {"a.md": {"picture", "film"}}) == []
    assert problems(found, {"a.md": {"picture"}}) == ["a.md:2: 'film': write video or clip"]


def test_an_entry_that_is_no_longer_needed_is_a_problem() -> None:
    assert problems([], {"a.md": {"picture"}}) == ["a.md: picture is no longer needed: --shrink"]


def test_lines_for_the_same_file_add_up() -> None:
    assert written(allowed("a.py: film\na.py: picture film\n")) == "a.py: film picture\n"
