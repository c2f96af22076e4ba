"""Mistakes in Python get the same sentences as in YAML, as ConfigurationError."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline_plugins.infer.detect import Detect
from sightline_plugins.rules.lines import Lines
from sightline_plugins.rules.zones import Zones
from sightline_plugins.sinks.jsonl import Jsonl
from sightline_plugins.sources.images.element import Images
from sightline_plugins.track.track import Track

WRONG: dict[str, tuple[Callable[..., object], dict[str, object], str]] = {
    "unknown": (
        Track,
        {"xyz": 1},
        "Track: xyz: there is no such option. Allowed: algorithm, untracked, class_votes, tracker_confidence, fol",
    ),
    "a near one": (
        Detect,
        {"model": "x", "labls": "y"},
        "Detect: labls: there is no such option; did you mean 'labels'?",
    ),
    "missing": (Detect, {}, "Detect: model: is required: the ONNX file"),
    "out of range": (Detect, {"model": "x", "confidence": 3}, "Detect: confidence: must be at most 1"),
    "in a list": (Detect, {"model": "x", "tiles": {"size": [1, 64]}}, "Detect: tiles.size.0: must be at least 32"),
    "too few entries": (Detect, {"model": "x", "tiles": {"size": [64]}}, "tiles.size: must have 2 entries, not 1"),
    "of a rule": (Lines, {"door": {"from": [0, 0]}}, "Lines: door.to: is required: where it ends"),
    "of a source": (Images, {"uri": "a/*.jpg", "fps": 0}, "Images: fps: must be more than 0"),
    "of the pipeline": (Pipeline, {"sources": {}, "batch": {"size": 0}}, "size: must be at least 1"),
    "its name": (Pipeline, {"sources": {}, "name": "a b"}, "name: may hold only letters, digits"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_in_our_words(name: str) -> None:
    make, options, told = WRONG[name]

    with pytest.raises(ConfigurationError) as raised:
        make(**options)

    assert told in str(raised.value)
    assert "pydantic" not in str(raised.value)


def test_every_mistake_has_a_line() -> None:
    options: dict[str, object] = {"model": "x", "confidence": 3, "labls": "y"}

    with pytest.raises(ConfigurationError) as raised:
        Detect(**options)

    assert [line.split(":")[1].strip() for line in str(raised.value).splitlines()] == ["confidence", "labls"]


def test_options_are_given_by_name() -> None:
    make: Callable[..., object] = Track

    with pytest.raises(TypeError, match=r"Track takes its options by name"):
        make("adaptive")


def test_paths_and_numbers_of_numpy_are_taken_as_yaml_holds_them() -> None:
    corners = [[0.25, 0.25], [0.75, 0.25], [0.75, 0.75]]

    assert Jsonl(path=Path("out/{stream}.jsonl")) == Jsonl(path="out/{stream}.jsonl")
    assert Detect(model="x", confidence=np.float32(0.5)) == Detect(model="x", confidence=0.5)
    assert Zones.model_validate({"a": {"polygon": np.array(corners)}}) == Zones.model_validate(
        {"a": {"polygon": corners}}
    )
    made = Pipeline(sources={}, steps=[{"jsonl": {"path": Path("a.jsonl")}}], keep_running=True)
    assert made.description == Pipeline(sources={}, steps=[Jsonl(path="a.jsonl")], keep_running=True).description


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (print, "pipeline.1: a function is no step: name it, as in Apply("),
        (
            {"track": {"max_lost": object()}},
            "pipeline.1: a configuration holds texts, numbers, lists and mappings, not obj",
        ),
    ],
)
def test_a_step_that_yaml_could_not_hold_is_a_mistake_with_its_place(step: object, told: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Pipeline(sources={"a": {"pattern": "bars"}}, steps=["track", step])  # type: ignore[list-item]

    assert told in str(raised.value)
