"""Options that change live, over all elements: operators take them, and do afterwards what a new one would do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.config import parse_steps
from sightline.graph import Element, Operator, Registry, TakesChanges
from sightline.graph.live_options import changes_live
from sightline.media import Batch, Event, Objects, Origin
from sightline.testing import make_batches, make_frames
from sightline.testing.run import site_for

CHANGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "direction": ({"a": {"allowed": 0}}, {"a": {"allowed": 90, "tolerance": 30}}),
    "absence": (
        {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]], "after": "1s"}},
        {"left": {"polygon": [[0, 0], [0.8, 0], [0.8, 1], [0, 1]], "after": "1s"}},
    ),
    "camera_health": ({"after": "20s"}, {"after": "30s", "match": 0.5, "severity": "high"}),
    "combine": ({"a": "lines.a.in"}, {"a": "lines.a.out then lines.a.in"}),
    "crowd": (
        {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]], "at_least": 1}},
        {"left": {"polygon": [[0, 0], [0.8, 0], [0.8, 1], [0, 1]], "at_least": 1}},
    ),
    "drift": ({}, {"threshold": 0.2, "relearn": "7d", "severity": "high"}),
    "draw": ({"trail": "0s"}, {"trail": "0s", "color": "track", "labels": False, "thickness": 5}),
    "flow": ({"mode": "dense"}, {"mode": "dense", "arrows": True}),
    "flows": (
        {
            "left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]},
            "right": {"polygon": [[0.6, 0], [1, 0], [1, 1], [0.6, 1]]},
        },
        {
            "left": {"polygon": [[0, 0], [0.8, 0], [0.8, 1], [0, 1]]},
            "right": {"polygon": [[0.6, 0], [1, 0], [1, 1], [0.6, 1]]},
        },
    ),
    "heat_map": ({"a": {"measure": "feet"}}, {"a": {"measure": "feet"}, "opacity": 0.3}),
    "left_objects": ({"a": {"after": "1s"}}, {"a": {"after": "2s"}}),
    "lines": ({"a": {"from": [0, 0.5], "to": [1, 0.5]}}, {"a": {"from": [0, 0.2], "to": [1, 0.2]}}),
    "loitering": (
        {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]}},
        {"left": {"polygon": [[0, 0], [0.8, 0], [0.8, 1], [0, 1]]}},
    ),
    "parking": (
        {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]}},
        {"left": {"polygon": [[0, 0], [0.8, 0], [0.8, 1], [0, 1]]}},
    ),
    "queue": (
        {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]}},
        {"left": {"polygon": [[0, 0], [0.8, 0], [0.8, 1], [0, 1]]}},
    ),
    "record": (
        {"path": "{stream}-{time}.mp4"},
        {"path": "{stream}-{time}.mp4", "before": "1s", "after": "2s", "memory": "2MB"},
    ),
    "snapshots": (
        {"path": "{stream}-{frame}.png", "limit": 2},
        {"path": "{stream}-{frame}.png", "limit": 4, "quality": 50},
    ),
    "speed": (
        {"a": {"ground": {"from": [0, 0], "to": [1, 0], "length": 9}}},
        {"a": {"ground": {"from": [0, 0], "to": [1, 0], "length": 10}}, "unit": "mph"},
    ),
    "stopped": ({"a": {"after": "1s"}}, {"a": {"after": "2s"}}),
    "tile": (
        {"video": "wall.mp4"},
        {"video": "wall.mp4", "select": "cam", "columns": 2, "rows": 2, "labels": False, "keep_aspect": False},
    ),
    "zones": (
        {"a": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]}},
        {"a": {"polygon": [[0, 0], [0.8, 0], [0.8, 1], [0, 1]]}},
    ),
}
"""Options of each element with such, and others that differ from them in these alone."""
MODELS = {"classify", "detect", "embed", "infer", "pose", "read", "segment", "tensors"}
"""Elements whose model changes live: `tests/unit/infer/test_exchange.py`."""


def element_of(name: str, options: dict[str, Any]) -> Element:
    (element,) = parse_steps([{name: options}])
    assert isinstance(element, Element)
    return element


def scene() -> list[Batch]:
    """Eight frames with an object that walks to the right, and an event on each."""
    batches = []
    for batch in make_batches(make_frames(8)):
        left = 4.0 + 6 * batch.frames[0].index
        objects = Objects.from_columns(
            frame=[0],
            xyxy=[[left, 10, left + 12, 30]],
            confidence=[0.9],
            class_id=[0],
            track_id=[3],
            source=Origin("test", ("car",)),
        )
        batches.append(batch.with_objects(objects).with_events([Event("line", "a", 0, {"track_id": 3}, "lines-1")]))
    return batches


def run(operator: Operator, batches: Sequence[Batch]) -> list[Batch]:
    results = [operator.process(batch.shared()) for batch in batches]
    assert all(isinstance(result, Batch) for result in results)
    return results  # type: ignore[return-value]


def test_every_element_with_options_that_change_live_is_here() -> None:
    registry = Registry()
    elements = [registry.element(name) for name in registry.element_names if registry.package(name) == "sightline"]
    found = {
        one.name for one in elements if one.others_change_live or any(map(changes_live, one.model_fields.values()))
    }

    assert found == set(CHANGED) | MODELS


@pytest.mark.parametrize("name", CHANGED)
def test_its_operator_takes_them_and_may_take_them_before_any_frame(name: str, tmp_path: Path) -> None:
    first, second = (element_of(name, options) for options in CHANGED[name])
    assert first.changes_live_into(second)
    operator = first.build(site_for(name, tmp_path))

    assert isinstance(operator, TakesChanges)
    operator.change(second)
    operator.change(first)
    run(operator, scene())
    operator.close()


def test_drawing_goes_on_as_by_a_new_step(tmp_path: Path) -> None:
    first, second = (element_of("draw", options) for options in CHANGED["draw"])
    operator, fresh = (one.build(site_for("draw", tmp_path)) for one in (first, second))
    assert isinstance(operator, TakesChanges)
    run(operator, scene()[:4])
    operator.change(second)

    drawn = run(operator, scene()[4:])

    for one, other in zip(drawn, run(fresh, scene()[4:]), strict=True):
        for plane, wanted in zip(one.frames[0].surface.planes, other.frames[0].surface.planes, strict=True):
            assert np.array_equal(plane, wanted)
    assert not np.array_equal(drawn[0].frames[0].surface.planes[0], scene()[4].frames[0].surface.planes[0])


def test_images_that_are_saved_count_for_another_limit(tmp_path: Path) -> None:
    first, second = (element_of("snapshots", options) for options in CHANGED["snapshots"])
    operator = first.build(site_for("snapshots", tmp_path))
    assert isinstance(operator, TakesChanges)

    run(operator, scene()[:4])
    assert len(list(tmp_path.iterdir())) == 2
    operator.change(second)
    run(operator, scene()[4:])
    operator.close()

    assert sorted(path.name for path in tmp_path.iterdir()) == [f"cam-{index:06d}.png" for index in (0, 1, 4, 5)]
