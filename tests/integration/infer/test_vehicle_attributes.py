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
    options = steps[-1].model_dump(by_alias=True, exclude_unset=True)
    attributes = read_card(options["model"]).attributes or {}
    always = {f"{name}_always": labels for name, labels in attributes.items()}
    steps.append(Classify.model_validate({**options, "id": "always", "reinfer_interval": "0s", "attributes": always}))
    sources = {clip: str(REPOSITORY / "sample_videos" / f"{clip}.mp4") for clip in CLIPS}
    pipeline = Pipeline(sources=sources, steps=steps)
    finals: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for frame in pipeline:
        for obj in frame.objects:
            if obj.track_id is not None:
                final = {name: value for name, value in obj.attributes.items() if isinstance(value, str)}
                finals[frame.stream.name, obj.track_id] |= final
    assert pipeline.report is not None
    return Outcome(finals, {name: dict(counted) for name, counted in pipeline.report.totals.items()})


def test_85_of_100_runs_are_saved(outcome: Outcome) -> None:
    runs, always = outcome.totals["vehicle"]["runs"], outcome.totals["always"]["runs"]

    assert always > 2000
    assert runs <= 0.15 * always


def test_the_final_results_are_those_of_running_on_every_frame(outcome: Outcome) -> None:
    pairs = [
        (final.get(name), final[f"{name}_always"])
        for final in outcome.finals.values()
        for name in ("colour", "kind")
        if f"{name}_always" in final
    ]

    assert len(pairs) > 80
    # Of a bus that stands at the edge of the image, running on every frame makes a car.
    assert [pair for pair in pairs if pair[0] not in (None, pair[1])] in ([], [("bus", "car")])
    assert [some for some, _ in pairs].count(None) <= 2
