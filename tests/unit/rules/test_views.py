"""Rules in the coordinates of a view are where the view lies in the frame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.rules.scenes import path, scene

from sightline.config.step_checks import unknown_views
from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph.rule import Rule, RuleOperator
from sightline.graph.site import Site
from sightline.media import Batch, Views
from sightline_plugins import Dewarp, Lines, Stopped, Track, Zones
from sightline_plugins.replay.replay import Replay
from sightline_plugins.warp.views import View

SIZE = 100
WHOLE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]


def views(*rectangles: Sequence[int]) -> Views:
    return Views(("left", "right"), np.array(rectangles, np.int32), lambda _, points: points)


SIDE_BY_SIDE = views((0, 0, 40, 50), (60, 0, 100, 50))


def shown(batches: Sequence[Batch], own: Views | None) -> list[Batch]:
    return [replace(batch, frames=tuple(replace(frame, views=own) for frame in batch.frames)) for batch in batches]


def operator_of(rule: Rule) -> RuleOperator:
    return rule.build(Site(device=Device()))


def directions(operator: RuleOperator, batches: Sequence[Batch]) -> list[object]:
    return [event.data["direction"] for batch in batches for event in operator.process(batch).events]


def test_a_zone_of_a_view_is_where_the_view_lies() -> None:
    rule = Zones.model_validate({"desk": {"view": "right", "polygon": WHOLE, "margin": 0}})
    batches = shown(scene({1: path([(50, 30), (80, 30), (80, 60)])}, frames=3), SIDE_BY_SIDE)

    operator = operator_of(rule)

    [first, *_] = [operator.process(batch) for batch in batches[:1]]
    assert list(first.columns.overlays[0][0].points) == [(60, 0), (100, 0), (100, 50), (60, 50)]
    assert directions(operator, batches[1:]) == ["enter", "leave"]


@pytest.mark.parametrize("pixels", [False, True])
def test_a_line_of_a_view_is_crossed_in_that_view_only(pixels: bool) -> None:
    ends = {"from": [20, 0], "to": [20, 50]} if pixels else {"from": [0.5, 0], "to": [0.5, 1]}
    rule = Lines.model_validate({"pixels": pixels, "door": {"view": "right", "margin": 0, **ends}})
    crossing = {1: path([(70, 30), (75, 30), (85, 30), (90, 30)]), 2: path([(10, 30), (15, 30), (25, 30), (30, 30)])}

    operator = operator_of(rule)
    events = [
        event for batch in shown(scene(crossing, frames=4), SIDE_BY_SIDE) for event in operator.process(batch).events
    ]

    assert [event.data["track_id"] for event in events] == [1]


def test_a_shape_without_a_polygon_is_the_whole_view() -> None:
    placed = Stopped.model_validate({"here": {"view": "right"}}).in_views(SIDE_BY_SIDE, size_wh=(SIZE, SIZE))

    [shape] = placed.rule_options().values()
    assert shape.model_dump()["polygon"] == ((0.6, 0), (1, 0), (1, 0.5), (0.6, 0.5))


def test_what_lasts_in_a_view_goes_on_in_another_process() -> None:
    rule = Zones.model_validate({"desk": {"view": "right", "polygon": WHOLE, "margin": 0}})
    batches = shown(scene({1: path([(50, 30), (80, 30), (80, 30), (50, 30)])}, frames=4), SIDE_BY_SIDE)
    former, later = operator_of(rule), operator_of(rule)

    before = directions(former, batches[:2])
    later.restore("cam", json.loads(json.dumps(former.save(batches[0].frames[0].stream))))

    assert before == ["enter"]
    assert directions(later, batches[2:]) == ["leave"]
    assert later.totals()["cam"]["desk"]["entered"] == 1


def test_a_rule_of_a_view_changes_while_it_counts() -> None:
    narrow = {"desk": {"view": "right", "polygon": [[0, 0], [0.25, 0], [0.25, 1], [0, 1]], "margin": 0}}
    operator = operator_of(Zones.model_validate({"desk": {"view": "right", "polygon": WHOLE, "margin": 0}}))
    batches = shown(scene({1: path([(80, 30), (80, 30), (65, 30)])}, frames=3), SIDE_BY_SIDE)

    operator.process(batches[0])
    for _ in range(2):  # also when no frame comes between two changes
        operator.change(Zones.model_validate(narrow))
    [last] = [operator.process(batch) for batch in batches[1:]][1:]

    assert list(last.columns.overlays[0][0].points) == [(60, 0), (70, 0), (70, 50), (60, 50)]
    assert [event.data["direction"] for event in last.events] == ["enter"]


def test_views_that_move_take_their_rules_along() -> None:
    rule = Zones.model_validate({"desk": {"view": "right", "polygon": WHOLE, "margin": 0}})
    operator = operator_of(rule)
    batches = scene({1: path([(80, 30), (80, 30), (30, 80)])}, frames=3)

    moved = views((0, 0, 40, 50), (0, 50, 60, 100))
    places = [
        operator.process(batch).columns.overlays[0][0].points[0]
        for batch in [*shown(batches[:2], SIDE_BY_SIDE), *shown(batches[2:], moved)]
    ]

    assert places == [(60, 0), (60, 0), (0, 50)]


def test_a_view_that_is_not_there_is_one_clear_error() -> None:
    rule: dict[str, Any] = {"desk": {"view": "rigth", "polygon": WHOLE}}
    zones, dewarp = Zones.model_validate(rule), Dewarp(views={"left": View(), "right": View()})
    found = [Replay(path="det.txt", label="person"), Track()]

    [(key, message)] = unknown_views([dewarp, *found, zones], streams=("hall",))
    assert key == ("pipeline", 3, "zones", "desk", "view")
    assert "no step before it makes a view 'rigth'" in message
    [(key, message)] = unknown_views([*found, zones], streams=("hall",))
    assert "put dewarp before it" in message
    [(key, message)] = unknown_views([dewarp, dewarp], streams=("hall",))
    assert key == ("pipeline", 1, "dewarp")
    with pytest.raises(ConfigurationError, match="no view 'rigth': its views are left, right"):
        zones.in_views(SIDE_BY_SIDE, size_wh=(SIZE, SIZE))
