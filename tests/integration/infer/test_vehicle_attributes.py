"""The classifier of vehicles on the sample world: what is known of a track saves looks, and changes no answer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from sightline import Pipeline
from sightline.config import load_description
from sightline_plugins import Classify, Detect, Track
from sightline_plugins.infer.card import read_card
from tests.conftest import REPOSITORY

CONFIG = REPOSITORY / "configs" / "vehicle-attributes.yaml"
CLIPS = ("street", "dusk")


@dataclass(frozen=True)
class Outcome:
    """The last answers about each track, by attribute, and what both classifiers counted.

    The one looks as often as the configuration says; the other on every frame, and adds `_always` to the attributes.
    """

    finals: dict[tuple[str, int], dict[str, str]]
    totals: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    elements = [element for _, element in load_description(CONFIG).elements()]
    steps = [element for element in elements if isinstance(element, Detect | Track | Classify)]
    said = steps[-1].model_dump(by_alias=True, exclude_unset=True)
    attributes = read_card(said["model"]).attributes or {}
    always = {f"{name}_always": labels for name, labels in attributes.items()}
    steps.append(Classify.model_validate({**said, "id": "always", "reinfer_interval": "0s", "attributes": always}))
    sources = {clip: str(REPOSITORY / "sample_videos" / f"{clip}.mp4") for clip in CLIPS}
    pipeline = Pipeline(sources=sources, steps=steps)
    finals: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for frame in pipeline:
        for thing in frame.objects:
            if thing.track_id is not None:
                told = {name: value for name, value in thing.attributes.items() if isinstance(value, str)}
                finals[frame.stream.name, thing.track_id] |= told
    assert pipeline.report is not None
    return Outcome(finals, {name: dict(counted) for name, counted in pipeline.report.totals.items()})


def test_85_of_100_looks_are_saved(outcome: Outcome) -> None:
    runs, always = outcome.totals["vehicle"]["runs"], outcome.totals["always"]["runs"]

    assert always > 2000
    assert runs <= 0.15 * always


def test_the_final_answers_are_those_of_looking_at_every_frame(outcome: Outcome) -> None:
    pairs = [
        (told.get(name), told[f"{name}_always"])
        for told in outcome.finals.values()
        for name in ("colour", "kind")
        if f"{name}_always" in told
    ]

    assert len(pairs) > 80
    assert [pair for pair in pairs if pair[0] not in (None, pair[1])] == []
    assert [some for some, _ in pairs].count(None) <= 2
