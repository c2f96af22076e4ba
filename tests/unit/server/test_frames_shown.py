"""Which frames people see: those at the end of the main line, unless something is hidden elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.graph.hiding import branches_of, may_hide, shown_behind
from sightline.server.frames_shown import FramesShown

REPLAY = {"replay": {"path": "sample_videos/gate.mot.txt", "format": "mot", "label": "car"}}
PRIVACY = {"privacy": {"on": "car", "detector": "replay-1"}}


def pipeline_of(*steps: Any) -> Pipeline:
    return Pipeline(sources={"a": {"pattern": "bars", "frames": 2}}, steps=[REPLAY, *steps])


def test_frames_of_the_main_line_are_shown() -> None:
    pipeline, seen = pipeline_of("draw"), list[int]()
    FramesShown(pipeline, step=None).add(lambda batch, arrivals_ns: seen.extend(arrivals_ns))

    pipeline.run()

    assert len(seen) == 2


OTHER = {"privacy": {"id": "later", "on": "car", "detector": "replay-1"}}
SINK = {"jsonl": "out.jsonl"}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["draw"], (None, None)),
        ([PRIVACY], ("privacy-1", None)),
        ([{"tee": {"one": ["draw", SINK]}}], (None, None)),
        ([{"tee": {"one": [PRIVACY, "draw", SINK]}}], ("privacy-1", None)),
        ([PRIVACY, {"tee": {"one": [OTHER, SINK]}}], ("later", None)),
        ([{"tee": {"one": [PRIVACY, SINK]}}, OTHER], ("later", "privacy-1")),
        ([{"tee": {"one": [PRIVACY, SINK], "two": [OTHER, SINK]}}], ("later", "privacy-1")),
    ],
)
def test_frames_lack_all_that_is_hidden_behind_the_last_step_unless_branches_hide_apart(
    steps: list[Any], expected: tuple[str | None, str | None]
) -> None:
    description = pipeline_of(*steps).description
    hiding = [name for name, element in description.elements() if may_hide(element)]

    assert shown_behind(hiding, branches_of(description)) == expected


def test_no_frame_is_shown_where_parts_are_hidden_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    steps: list[Any] = [REPLAY, {"tee": {"one": [PRIVACY, SINK]}}, OTHER]
    sources: dict[str, Any] = {"a": {"pattern": "bars", "frames": 2}}
    pipeline, seen = Pipeline(sources=sources, steps=steps, outputs=tmp_path), list[int]()
    FramesShown(pipeline, step=None).add(lambda batch, arrivals_ns: seen.extend(arrivals_ns))

    pipeline.run()

    assert seen == []
    assert "later and privacy-1 hide parts of them in different branches" in caplog.text


def test_a_step_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="draw-2"):
        FramesShown(pipeline_of("draw"), step="draw-2")
