"""Options that nobody knows are answered with the right name, and texts that are too long are shortened."""

from __future__ import annotations

import pytest

from sightline.errors import ConfigurationError
from sightline.graph.wording import suggest
from sightline.redaction import shortened
from sightline_plugins import Detect, Track


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("conf", "did you mean 'confidence'?"),
        ("thresh", "here it is 'confidence'"),
        ("score_threshold", "here it is 'confidence'"),
        ("imgsz", "here it is 'size'"),
        ("weights", "here it is 'model'"),
        ("names", "here it is 'labels'"),
        ("class", "did you mean 'classes'?"),
        ("device", "'device' is set for the whole pipeline"),
    ],
)
def test_words_of_other_programs_are_understood(option: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Detect(model="a.onnx", **{option: 0.3})

    assert told in str(caught.value)


def test_a_tracker_knows_them_too() -> None:
    with pytest.raises(ConfigurationError, match="here it is 'max_lost'"):
        Track(max_age=30)


def test_what_begins_with_the_word_is_nearer_than_what_resembles_it() -> None:
    assert suggest("conf", ["on", "confidence"]) == "; did you mean 'confidence'?"
    assert suggest("cofidence", ["on", "confidence"]) == "; did you mean 'confidence'?"


def test_a_text_that_is_too_long_keeps_its_ends() -> None:
    word = shortened("file: " + "a" * 5000 + " is wrong")

    assert len(word) < 300
    assert word.startswith("file: aaa")
    assert word.endswith("aaa is wrong")
    assert "4800 characters" in word
    assert len(shortened("many words " * 5000)) < 1600
    assert shortened("a short one") == "a short one"
