from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.rules.scenes import events, path, scene, truth_scene

from sightline.devices import Device
from sightline.graph import Site
from sightline.media import Batch, Overlay
from sightline.testing import run_element
from sightline_plugins.rules.lines import Line, Lines

LEVEL = {"from": [0.2, 0.5], "to": [0.8, 0.5]}
DOWN = path([(50, 40), (50, 60)])
UP = path([(50, 60), (50, 40)])


def lines(**options: Any) -> Lines:
    return Lines.model_validate({"gate": {**LEVEL, **options}})


def directions(element: Lines, batches: list[Batch]) -> list[str]:
    return [str(event.data["direction"]) for _, event in events(run_element(element, batches))]


@pytest.mark.parametrize("sequence", ["TUD-Campus", "TUD-Stadtmitte"])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_crossings_of_true_tracks_are_exactly_the_known_ones(shared_data: Path, sequence: str, size: int) -> None:
    truth, batches = truth_scene(shared_data, sequence, size=size)
    shapes = {name: {"from": line["from"], "to": line["to"]} for name, line in truth["lines"].items()}
    signs = {"in": "negative_to_positive", "out": "positive_to_negative"}
    found: dict[str, list[list[object]]] = {name: [] for name in shapes}
    for index, event in events(run_element(Lines.model_validate({"pixels": True, **shapes}), batches)):
        found[event.rule].append([index + 1, event.data["track_id"], signs[str(event.data["direction"])]])
    assert found == {name: line["events_frame_id_direction"] for name, line in truth["lines"].items()}


def test_downwards_over_a_line_from_left_to_right_is_in() -> None:
    assert directions(lines(), scene({1: DOWN}, frames=2)) == ["in"]


def test_upwards_over_a_line_from_left_to_right_is_out() -> None:
    assert directions(lines(), scene({1: UP}, frames=2)) == ["out"]


def test_an_event_names_rule_direction_and_track_in_that_order() -> None:
    index, event = events(run_element(lines(), scene({7: DOWN}, frames=2)))[0]
    assert (index, event.kind, event.rule, list(event.data.items())) == (
        1,
        "line",
        "gate",
        [("direction", "in"), ("track_id", 7)],
    )


def test_every_crossing_counts() -> None:
    walk = path([(50, 40), (50, 60), (50, 40), (50, 60)])
    assert directions(lines(), scene({1: walk}, frames=4)) == ["in", "out", "in"]


def test_a_fast_object_can_not_jump_a_line() -> None:
    assert directions(lines(), scene({1: path([(50, 1), (50, 99)])}, frames=2)) == ["in"]


def test_walking_around_the_end_of_a_line_does_not_count() -> None:
    walk = path([(50, 40), (95, 45), (95, 55), (50, 60)])
    assert directions(lines(), scene({1: walk}, frames=4)) == []


def test_a_step_whose_end_lies_beyond_the_segment_counts_when_it_passes_through() -> None:
    assert directions(lines(), scene({1: path([(70, 30), (90, 70)])}, frames=2)) == ["in"]


def test_standing_on_the_line_keeps_the_former_side() -> None:
    walk = path([(50, 40), (50, 50), (50, 50), (50, 40)])
    assert directions(lines(), scene({1: walk}, frames=4)) == []


def test_crossing_with_a_rest_on_the_line_counts_once_it_is_left() -> None:
    walk = path([(50, 40), (50, 50), (52, 50), (50, 60)])
    assert [(index, e.data["direction"]) for index, e in events(run_element(lines(), scene({1: walk}, frames=4)))] == [
        (3, "in")
    ]


def test_a_track_that_begins_on_the_line_has_not_crossed_it() -> None:
    assert directions(lines(), scene({1: path([(50, 50), (50, 60)])}, frames=2)) == []


def test_a_track_hidden_while_it_crosses_counts_when_it_is_seen_again() -> None:
    assert directions(lines(), scene({1: {0: (50, 40), 5: (50, 60)}}, frames=6)) == ["in"]


def test_trembling_counts_each_time_without_a_margin() -> None:
    walk = path([(50, 40), (50, 51), (50, 49), (50, 51), (50, 60)])
    assert directions(lines(), scene({1: walk}, frames=5)) == ["in", "out", "in"]


@pytest.mark.parametrize("size", [1, 3, 5])
def test_trembling_counts_once_with_a_margin(size: int) -> None:
    walk = path([(50, 40), (50, 51), (50, 49), (50, 51), (50, 60)])
    assert directions(lines(margin=0.03), scene({1: walk}, frames=5, size=size)) == ["in"]


def test_turning_back_within_the_margin_does_not_count() -> None:
    walk = path([(50, 40), (50, 51), (50, 40)])
    assert directions(lines(margin=0.03), scene({1: walk}, frames=3)) == []


def test_only_the_classes_asked_for_count() -> None:
    assert directions(lines(classes=["car"]), scene({1: DOWN}, frames=2, class_id=0)) == []


def test_the_anchor_decides() -> None:
    head_crosses = path([(50, 55), (50, 60)])
    assert directions(lines(anchor="top"), scene({1: head_crosses}, frames=2)) == ["in"]


def test_objects_without_a_track_do_not_count() -> None:
    assert directions(lines(), scene({-1: DOWN}, frames=2)) == []


def test_streams_do_not_mix() -> None:
    above, below = scene({1: path([(50, 40)])}, frames=1), scene({1: path([(50, 60)])}, frames=1, stream="other")
    assert directions(lines(), above + below) == []


def test_counts_are_drawn_from_the_frame_of_the_crossing_on() -> None:
    batch = run_element(lines(), scene({1: path([(50, 40), (50, 60), (50, 70)])}, frames=3, size=3))[0]
    points = ((20.0, 50.0), (80.0, 50.0))
    before = (Overlay("line", "gate", points, (("in", 0), ("out", 0))),)
    after = (Overlay("line", "gate", points, (("in", 1), ("out", 0))),)
    assert batch.columns.overlays == (before, after, after)


def test_overlays_are_the_same_objects_while_nothing_crosses() -> None:
    first, second = run_element(lines(), scene({1: path([(50, 10), (50, 20)])}, frames=2))
    assert first.columns.overlays[0] is second.columns.overlays[0]


def test_totals_outlive_the_run() -> None:
    rule = lines().build(Site(device=Device()))
    for batch in scene({1: DOWN, 2: UP, 3: DOWN}, frames=2):
        rule.process(batch)
    rule.end_stream(batch.frames[0].stream)
    rule.close()
    assert rule.totals() == {"cam": {"gate": {"in": 2, "out": 1}}}


def test_tracks_long_gone_are_forgotten() -> None:
    rule = lines().build(Site(device=Device()))
    batches = scene({number: {number: (50, 40)} for number in range(200)}, frames=200, fps=1)
    for batch in batches:
        rule.process(batch)
    saved = rule.save(batches[0].frames[0].stream)
    assert saved is not None
    assert len(saved["rules"]["settling"]["tracks"]["track_id"]) <= 2 * 61


def test_a_track_that_was_not_seen_for_long_is_another_one() -> None:
    walk = {0: (50.0, 40.0), 61: (50.0, 60.0), 62: (50.0, 40.0)}
    assert directions(lines(), scene({1: walk}, frames=63, fps=1)) == ["out"]


def test_events_stand_in_the_order_of_frames_lines_and_rows() -> None:
    element = Lines.model_validate({"a": LEVEL, "b": {"from": [0.2, 0.55], "to": [0.8, 0.55]}})
    batches = scene({2: DOWN, 1: DOWN}, frames=2, size=2)
    assert [(event.rule, event.data["track_id"]) for _, event in events(run_element(element, batches))] == [
        ("a", 2),
        ("b", 2),
        ("a", 1),
        ("b", 1),
    ]


def test_events_already_there_stay() -> None:
    batches = scene({1: DOWN}, frames=2, size=2)
    crossed = run_element(lines(), batches)
    again = run_element(lines(), [batch.with_columns(overlays=()) for batch in crossed])
    assert len(again[0].events) == 2


@pytest.mark.parametrize(
    ("text", "location", "message"),
    [
        ({"gate": {"form": [0, 0], "to": [1, 1]}}, ("gate", "form"), "Extra inputs are not permitted"),
        ({"gate": {"from": [0, 0]}}, ("gate", "to"), "Field required"),
        ({"gate": {"from": [0, 0], "to": [0, 0]}}, ("gate",), "a line needs a length"),
        ({"gate": {"from": [0, 0], "to": [120, 30]}}, ("gate", "to"), "[120, 30] is outside the image"),
        ({"gate": {"from": [0, 0], "to": [1, 1], "anchor": "foot"}}, ("gate", "anchor"), "Input should be 'bottom'"),
        ({"pixel": True}, ("pixel",), "is neither a line, which is written"),
        ({}, (), "no line is given"),
    ],
)
def test_a_mistake_is_reported_where_it_is(text: dict[str, Any], location: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Lines.model_validate(text)
    assert [(error["loc"], message in error["msg"]) for error in caught.value.errors() if error["loc"] == location] == [
        (location, True)
    ]


def test_lines_made_in_python_equal_those_from_yaml() -> None:
    assert Lines(gate=Line(start=(0.2, 0.5), to=(0.8, 0.5))) == lines()


def test_plain_form_loads_again() -> None:
    plain = lines(classes=["car"]).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert (plain, Lines.model_validate(plain)) == (
        {"gate": {**LEVEL, "classes": ["car"]}},
        lines(classes=["car"]),
    )


def test_the_classes_of_each_line_are_reported_with_their_paths() -> None:
    element = Lines.model_validate({"a": {**LEVEL, "classes": ["car", "bus"]}, "b": LEVEL})
    assert list(element.wanted_labels()) == [(("a", "classes", 0), "car"), (("a", "classes", 1), "bus")]
