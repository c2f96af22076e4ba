"""Which frames people see: those at the end of the main line, unless something is hidden elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.server.frames_shown import FramesShown, hiding_in_branches

REPLAY = {"replay": {"path": "sample_videos/gate.mot.txt", "format": "mot", "label": "car"}}
PRIVACY = {"privacy": {"on": "car", "detector": "replay-1"}}


def pipeline_of(*steps: Any) -> Pipeline:
    return Pipeline(sources={"a": {"pattern": "bars", "frames": 2}}, steps=[REPLAY, *steps])


def test_frames_of_the_main_line_are_shown() -> None:
    pipeline, seen = pipeline_of("draw"), list[int]()
    FramesShown(pipeline, step=None).add(lambda batch, arrivals_ns: seen.extend(arrivals_ns))

    pipeline.run()

    assert len(seen) == 2


@pytest.mark.parametrize(
    ("branch", "hiding"), [(["draw"], []), ([PRIVACY], ["privacy-1"]), ([PRIVACY, "draw"], ["privacy-1"])]
)
def test_a_branch_that_hides_something_is_told_from_one_that_draws(branch: list[Any], hiding: list[str]) -> None:
    steps = pipeline_of({"tee": {"one": [*branch, {"jsonl": "out.jsonl"}]}})

    assert list(hiding_in_branches(steps.description)) == hiding


def test_a_step_of_the_main_line_needs_no_place_of_its_own() -> None:
    assert list(hiding_in_branches(pipeline_of(PRIVACY).description)) == []


def test_a_step_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="draw-2"):
        FramesShown(pipeline_of("draw"), step="draw-2")
