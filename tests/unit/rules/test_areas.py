"""Rules on areas, each by what makes it one: on walks over small frames, ten a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.rules.scenes import events, path, scene

from sightline.devices import Device
from sightline.graph import Site
from sightline.graph.rule import Rule, RuleOperator
from sightline.media import Batch
from sightline.testing import run_element
from sightline_plugins import Absence, Crowd, Flows, Loitering, Parking, Queue

SQUARE = [[0.2, 0.2], [0.8, 0.2], [0.8, 0.8], [0.2, 0.8]]
OUT, IN, THERE = (10.0, 50.0), (50.0, 50.0), (70.0, 70.0)
LEFT = [[0, 0], [0.3, 0], [0.3, 1], [0, 1]]
MIDDLE = [[0.35, 0], [0.65, 0], [0.65, 1], [0.35, 1]]
RIGHT = [[0.7, 0], [1, 0], [1, 1], [0.7, 1]]
Told = list[tuple[int, str, object]]


def rule(kind: type[Rule], *, gone: str = "500ms", **options: Any) -> Rule:
    return kind.model_validate({"a": {"polygon": SQUARE, **options}, "gone": gone})


def told(element: Rule, batches: Sequence[Batch]) -> Told:
    """Frame, state and track of each event."""
    return [
        (index, str(event.data.get("state", event.kind)), event.data.get("track_id"))
        for index, event in events(run_element(element, batches))
    ]


def run(element: Rule, batches: Sequence[Batch], changes: Mapping[int, Rule]) -> tuple[Told, RuleOperator]:
    """Change the options in front of these frames."""
    operator = element.build(Site(device=Device()))
    found: Told = []
    for batch in batches:
        if (changed := changes.get(batch.frames[0].index)) is not None:
            operator.change(changed)
        found += [
            (index, str(event.data["state"]), event.data.get("track_id"))
            for index, event in events([operator.process(batch)])
        ]
    return found, operator


# crowd


def test_a_crowd_is_not_cleared_by_the_occlusion_of_one_object() -> None:
    crowd = rule(Crowd, at_least=2, after=0)
    batches = scene({1: path([IN] * 20), 2: {0: IN, 1: IN, 5: IN, 6: IN}}, frames=20)
    assert told(crowd, batches) == [(0, "crowded", None), (12, "cleared", None)], "gone at 7, for 5 frames"


def test_a_crowd_has_a_time_of_its_own_to_clear() -> None:
    crowd = rule(Crowd, at_least=1, after="200ms", clear_after="400ms")
    walk = path([IN] * 4 + [OUT] * 3 + [IN] + [OUT] * 8)
    assert told(crowd, scene({1: walk}, frames=16)) == [(2, "crowded", None), (12, "cleared", None)]


# loitering


def test_a_short_step_outside_does_not_end_loitering() -> None:
    walk = path([IN] * 3 + [OUT] * 4 + [IN] * 3 + [OUT] * 8)
    batches = run_element(rule(Loitering, after="800ms"), scene({1: walk}, frames=18))
    assert [(index, dict(event.data)) for index, event in events(batches)] == [
        (8, {"state": "began", "track_id": 1, "seconds": 0.8}),
        (15, {"state": "ended", "track_id": 1, "seconds": 1.0}),
    ]


def test_who_walks_about_does_not_loiter_in_one_place() -> None:
    walks = {1: path([(25 + 2 * number, 50.0) for number in range(20)] + [(63.0, 50.0)] * 12), 2: path([THERE] * 32)}
    assert told(rule(Loitering, after="1s", within=0.05), scene(walks, frames=32)) == [
        (10, "began", 2),
        (24, "began", 1),
    ], "the last 10 pixels of the way belong to the place where it stands"


def test_who_moves_on_no_longer_loiters_in_that_place() -> None:
    walk = path([IN] * 12 + [THERE] * 12)
    assert told(rule(Loitering, after="1s", within=0.05), scene({1: walk}, frames=24)) == [
        (10, "began", 1),
        (12, "ended", 1),
        (22, "began", 1),
    ]


# absence


def test_a_stream_that_pauses_is_no_absence() -> None:
    absence = rule(Absence, after="1s", longest_gap="200ms")
    before, after = scene({1: path([IN, OUT])}, frames=4), scene({1: path([OUT])}, frames=100)[90:]
    (first, *_) = told(absence, [*before, *after])
    assert first == (96, "absent", None), "0.2 s until the pause, 0.2 s of it, and 0.6 s after it"


def test_only_the_classes_asked_for_are_present() -> None:
    absence = rule(Absence, after="300ms", classes=["car"])
    assert told(absence, scene({1: path([IN] * 6)}, frames=6)) == [(3, "absent", None)]


def test_who_is_hidden_is_not_absent() -> None:
    assert told(rule(Absence, after="200ms"), scene({1: {0: IN, 4: IN, 5: IN}}, frames=6)) == []


# queue


def test_who_leaves_without_passing_the_exit_gave_up() -> None:
    queue = rule(Queue, exit=[[0.6, 0.6], [0.8, 0.6]])
    walks = {1: path([IN] * 4 + [OUT] * 10), 2: path([IN] * 3 + [(70.0, 50.0), THERE] + [(95.0, 95.0)] * 9)}
    assert told(queue, scene(walks, frames=14)) == [(4, "served", 2), (9, "gave_up", 1)]


def test_who_enters_over_the_exit_is_not_served() -> None:
    queue = rule(Queue, exit=[[0.2, 0.2], [0.2, 0.8]])
    walks = {
        1: path([(20.0, 50.0), *[IN] * 4, *[OUT] * 9]),
        2: path([OUT, (20.0, 40.0), *[IN] * 4, *[(90.0, 50.0)] * 8]),
    }
    assert told(queue, scene(walks, frames=14)) == [(5, "served", 1), (11, "gave_up", 2)], "the edge is the exit"


def test_an_exit_can_be_an_area_outside_the_queue() -> None:
    queue = rule(Queue, exit=[[0.85, 0.4], [1, 0.4], [1, 0.6], [0.85, 0.6]])
    batches = run_element(queue, scene({1: path([IN] * 4 + [(82.0, 50.0), (90.0, 50.0)] + [OUT] * 8)}, frames=14))
    assert [(index, dict(event.data)) for index, event in events(batches)] == [
        (5, {"state": "served", "track_id": 1, "wait_seconds": 0.5})
    ]


def test_who_has_stepped_out_makes_no_wait_too_long() -> None:
    queue = rule(Queue, exit=RIGHT, wait_limit="800ms")
    walks = {1: path([IN] * 6 + [OUT] * 24), 2: dict.fromkeys(range(2, 30), IN)}
    assert told(queue, scene(walks, frames=30)) == [(10, "long", None), (11, "gave_up", 1)], "2 has waited 0.8 s at 10"


def test_a_step_outside_does_not_end_a_wait_that_is_too_long() -> None:
    queue = rule(Queue, exit=RIGHT, wait_limit="800ms")
    walks = {1: path([IN] * 10 + [OUT] * 3 + [IN] * 7 + [OUT] * 10)}
    expected = [(8, "long", None), (25, "gave_up", 1), (25, "short", None)]
    assert told(queue, scene(walks, frames=30)) == expected


def test_who_is_hidden_goes_on_waiting() -> None:
    queue = rule(Queue, exit=RIGHT, wait_limit="800ms")
    walks = {1: {frame: IN for frame in range(20) if not 6 <= frame < 10}}
    assert told(queue, scene(walks, frames=20)) == [(8, "long", None)]


def test_who_passes_without_standing_has_not_queued() -> None:
    walks = {1: path([(25.0 + 5 * number, 50.0) for number in range(11)] + [OUT] * 9), 2: path([IN] * 11 + [OUT] * 9)}
    assert told(rule(Queue, speed=0.2), scene(walks, frames=20)) == [(16, "served", 2)]


def test_the_waits_of_a_queue_are_summed_up() -> None:
    walks = {number: path([IN] * number + [OUT] * 8) for number in range(1, 12)}
    operator = rule(Queue).build(Site(device=Device()))
    batches = [operator.process(batch) for batch in scene(walks, frames=20)]
    assert dict(batches[-1].columns.overlays[0][0].counts) == {"length": 0, "served": 11, "mean_wait": 1, "p90_wait": 1}
    assert operator.totals()["cam"]["a"] == {
        "served": 11,
        "gave_up": 0,
        "longest_queue": 11,
        "mean_wait_seconds": 0.6,
        "p90_wait_seconds": 1.0,
        "longest_wait_seconds": 1.1,
    }


# parking


def parking(**options: Any) -> Rule:
    return rule(Parking, gone="5s", anchor="bottom", after="1s", **options)


def test_a_car_that_passes_does_not_park() -> None:
    assert told(parking(), scene({1: path([(22.0 + 3 * number, 50.0) for number in range(19)])}, frames=30)) == []


def test_an_occlusion_does_not_free_a_place() -> None:
    walk = {index: IN for index in range(90) if not 20 <= index < 60}
    assert told(parking(), scene({1: walk}, frames=90)) == [(10, "occupied", 1)]


def test_another_id_in_the_same_place_goes_on_with_the_stay() -> None:
    walks = {1: path([IN] * 20), 2: path([IN] * 80 + [OUT] * 40, start=25)}
    batches = run_element(parking(), scene(walks, frames=145))
    assert [(index, dict(event.data)) for index, event in events(batches)] == [
        (10, {"state": "occupied", "track_id": 1, "occupied_seconds": 1.0}),
        (135, {"state": "free", "track_id": 2, "occupied_seconds": 10.5}),
    ]


def test_a_car_that_comes_later_is_another_one() -> None:
    walks = {1: path([IN] * 20), 2: path([IN] * 30, start=60)}
    assert told(parking(), scene(walks, frames=90)) == [(10, "occupied", 1), (70, "free", 1), (70, "occupied", 2)]


def test_a_car_that_hides_another_one_does_not_take_its_place() -> None:
    walks = {1: {index: IN for index in range(60) if not 20 <= index < 26}, 2: path([OUT, IN, IN, IN, OUT], start=20)}
    assert told(parking(), scene(walks, frames=60)) == [(10, "occupied", 1)]


def test_places_are_counted_together() -> None:
    places = Parking.model_validate({"P1": {"polygon": LEFT, "after": 0}, "P2": {"polygon": RIGHT, "after": 0}})
    (last,) = run_element(places, scene({1: path([OUT])}, frames=1))
    assert {overlay.name: dict(overlay.counts) for overlay in last.columns.overlays[0]} == {
        "P1": {"occupied": 1, "parked": 1},
        "P2": {"occupied": 0, "parked": 0},
        "parking": {"occupied": 1, "free": 1},
    }
    assert last.columns.overlays[0][-1].points == ((0, 0), (100, 0), (100, 100), (0, 100))


# flows


def flows(**options: Any) -> Flows:
    named = {"left": {"polygon": LEFT}, "middle": {"polygon": MIDDLE}, "right": {"polygon": RIGHT}}
    return Flows.model_validate({"gone": "300ms", **named, **options})


def trips(element: Rule, batches: Sequence[Batch]) -> list[tuple[int, object, object, object]]:
    return [
        (index, event.data["from"], event.data["to"], event.data["seconds"])
        for index, event in events(run_element(element, batches))
    ]


WAY = path([(20.0, 50.0), (32.0, 50.0), (50.0, 50.0), (67.0, 50.0), (68.0, 50.0), (90.0, 50.0)])


def test_a_trip_is_counted_from_each_area_to_the_next() -> None:
    assert trips(flows(), scene({1: WAY}, frames=6)) == [(2, "left", "middle", 0.1), (5, "middle", "right", 0.2)]


def test_a_trip_can_be_counted_from_the_first_area_to_the_last() -> None:
    element = flows(through=False, within="400ms")
    assert trips(element, scene({1: WAY}, frames=20)) == [(11, "left", "right", 0.4)], "it left at 6"


def test_a_trip_that_takes_too_long_is_none() -> None:
    assert trips(flows(within="150ms"), scene({1: WAY}, frames=6)) == [(2, "left", "middle", 0.1)]


def test_who_comes_back_has_gone_nowhere() -> None:
    walk = path([(20.0, 50.0), (32.0, 50.0), (20.0, 50.0)])
    assert trips(flows(), scene({1: walk}, frames=3)) == []


def test_trips_go_on_under_the_new_name_of_an_area() -> None:
    operator = flows().build(Site(device=Device()))
    batches = scene({1: WAY, 2: WAY}, frames=6)
    for batch in batches[:4]:
        operator.process(batch)
    renamed = {"left": {"polygon": LEFT}, "hall": {"polygon": MIDDLE}, "right": {"polygon": RIGHT}}
    operator.change(Flows.model_validate({"gone": "300ms", **renamed}))
    for batch in batches[4:]:
        operator.process(batch)
    totals = operator.totals()["cam"]
    assert {name: own["to"] for name, own in totals.items()} == {"left": {"hall": 2}, "hall": {"right": 2}, "right": {}}


# edits


def test_an_edit_that_puts_an_object_outside_ends_what_lasts() -> None:
    before, after = rule(Loitering, after="200ms"), rule(Loitering, after="200ms", anchor="top_left")
    away = Loitering.model_validate({"a": {"polygon": RIGHT, "after": "200ms"}, "gone": "500ms"})
    batches = scene({1: path([IN] * 10)}, frames=10)

    assert run(before, batches, {4: after})[0] == [(2, "began", 1)], "the other corner is inside as well"
    assert run(before, batches, {4: away})[0] == [(2, "began", 1), (4, "ended", 1)]


def test_an_edit_that_puts_an_object_inside_begins_its_time() -> None:
    away = Loitering.model_validate({"a": {"polygon": RIGHT, "after": "200ms"}, "gone": "500ms"})
    batches = scene({1: path([IN] * 10)}, frames=10)

    assert run(away, batches, {4: rule(Loitering, after="200ms")})[0] == [(5, "began", 1)], "with the frame before"


@pytest.mark.parametrize(
    ("kind", "text", "location", "message"),
    [
        (Crowd, {"a": {"polygon": SQUARE, "at_least": 0}}, ("a", "at_least"), "greater than or equal to 1"),
        (Crowd, {"a": {"polygon": SQUARE}}, ("a", "at_least"), "Field required"),
        (Loitering, {"a": {"polygon": SQUARE, "within": 0}}, ("a", "within"), "greater than 0"),
        (Absence, {"a": {"polygon": SQUARE, "after": 0}}, ("a", "after"), "greater than 0"),
        (Queue, {"a": {"polygon": SQUARE, "exit": [[0, 0]]}}, ("a", "exit"), "at least 2 items"),
        (Queue, {"a": {"polygon": SQUARE, "exit": [[0, 0], [0, 0]]}}, ("a", "exit"), "a line needs a length"),
        (Queue, {"a": {"polygon": SQUARE, "exit": [[0, 0], [1, 1], [1, 0], [0, 1]]}}, ("a", "exit"), "crosses itself"),
        (Queue, {"a": {"polygon": SQUARE, "exit": [[0, 0], [2, 0]]}}, ("a", "exit", 1), "outside the image"),
        (
            Parking,
            {"a": {"polygon": SQUARE, "after": "5s", "overtime": "4s"}},
            ("a",),
            "overtime is shorter than after",
        ),
        (Parking, {"parking": {"polygon": SQUARE}}, (), "no place can be named parking"),
        (Flows, {"a": {"polygon": SQUARE}}, (), "only one zone is given"),
        (Flows, {"a": {"polygon": SQUARE}, "b": {"polygon": LEFT}, "within": 0}, ("within",), "greater than 0"),
    ],
)
def test_a_mistake_is_reported_where_it_is(
    kind: type[Rule], text: dict[str, Any], location: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(text)
    assert [(error["loc"], message in error["msg"]) for error in caught.value.errors()] == [(location, True)]
