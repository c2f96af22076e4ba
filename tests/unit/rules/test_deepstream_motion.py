"""`compat: deepstream` of `direction` and `stopped` finds what nvdsanalytics does, where that differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.unit.rules.motions import Way, along, sampled, seen_by

from sightline.devices import Device
from sightline.graph import Site
from sightline.testing.rule_conformance import RuleConformance
from sightline_plugins.rules.direction import Direction
from sightline_plugins.rules.stopped import Stopped

RIGHT = {"from": [400, 300], "to": [500, 300]}
COMPAT = {"pixels": True, "compat": "deepstream"}


def east(**options: Any) -> Direction:
    return Direction.model_validate({**COMPAT, "east": {"allowed": RIGHT, **options}})


def plain() -> Direction:
    return Direction.model_validate({"pixels": True, "east": {"allowed": RIGHT, "tolerance": 60}})


def stopped(**options: Any) -> Stopped:
    return Stopped.model_validate({**COMPAT, "lane": options})


def labels(element: Direction, way: Way, *, fps: float, seconds: float) -> list[str]:
    """What the object is labelled with on each frame on which it is seen."""
    batch = element.build(Site(device=Device())).process(sampled({1: way}, fps=fps, seconds=seconds))
    return [str(one) for one in batch.objects.attributes["direction"].tolist()]


def stops(element: Stopped, way: Way, *, seconds: float, fps: float = 25) -> list[tuple[float, str]]:
    events, _ = seen_by(element, sampled({1: way}, fps=fps, seconds=seconds))
    return [(round(at * fps) / fps, str(data["state"])) for at, _, _, data in events]


def right(pixels_per_frame: float, *, frames: int = 80, up: float = 0) -> Way:
    """A way to the right, at 25 frames a second."""
    return along({0: (100, 600), frames / 25: (100 + pixels_per_frame * frames, 600 - up * frames)})


def test_the_squared_way_has_to_exceed_3000_pixels_in_more_than_ten_frames() -> None:
    """At 5 pixels a frame it has come 5 n - 2 on frame n since the mean of the first two: 53 (squared 2809) on frame 11
    and 58 (3364) on frame 12. At 20 pixels it has come far enough on frame 3, and is judged on the eleventh frame, 10.
    """
    assert labels(east(), right(5), fps=25, seconds=1)[10:14] == ["", "", "east", "east"]
    assert labels(east(), right(20), fps=25, seconds=1)[8:12] == ["", "", "east", "east"]


def test_a_direction_is_judged_anew_on_each_frame_by_the_last_fifty() -> None:
    """It goes right for 40 frames and then back at the same speed: the label ends, though nobody was wrong."""
    turning = along({0: (100, 600), 1.6: (500, 600), 3.2: (100, 600)})

    found = labels(east(), turning, fps=25, seconds=3.2)

    assert found[40] == "east"
    assert found[80] == ""
    events, totals = seen_by(east(), sampled({1: turning}, fps=25, seconds=3.2))
    assert [data["state"] for _, _, _, data in events] == ["right"]
    assert totals == {"east": {"right": 1}}
    assert {data["state"] for _, _, _, data in seen_by(plain(), sampled({1: turning}, fps=25, seconds=3.2))[0]} == {
        "right",
        "wrong",
    }


@pytest.mark.parametrize(("up", "expected"), [(17, "east"), (18, "")])
def test_the_cosine_to_the_arrow_has_to_be_at_least_a_half(up: int, expected: str) -> None:
    """10 to the right and 17 upwards are 59.5 degrees off the arrow, 18 upwards are 60.9."""
    assert labels(east(), right(10, up=up, frames=30), fps=25, seconds=1)[-1] == expected


def test_an_object_has_all_directions_that_it_goes_along() -> None:
    both = {"east": {"allowed": RIGHT}, "up right": {"allowed": {"from": [400, 300], "to": [500, 200]}}}

    assert labels(Direction.model_validate({**COMPAT, **both}), right(10), fps=25, seconds=1)[-1] == "east, up right"


def test_who_was_hidden_for_longer_than_300_ms_is_another_object() -> None:
    short, long = (along({0: (100, 600), 4: (1100, 600)}, hidden=[(2, 2 + gap)]) for gap in (0.27, 0.35))

    counts = [seen_by(east(), sampled({1: way}, fps=25, seconds=4))[1]["east"]["right"] for way in (short, long)]

    assert counts == [1, 2]


def test_results_depend_on_the_rate_of_frames() -> None:
    """40 pixels a second are 32 pixels in 50 frames of 60 a second and 160 in those of 12."""
    slow = along({0: (100, 500), 8: (420, 500)})

    assert [set(labels(east(), slow, fps=fps, seconds=8)) for fps in (60, 12)] == [{""}, {"", "east"}]


def test_who_stands_is_known_after_a_full_ring_of_frames() -> None:
    """It is seen to stand on the 51st frame, which is 2 seconds after the first one, and moves from second 5 on."""
    way = along({0: (500, 500), 5: (500, 500), 7: (500, 300)})

    (begin, first), (end, last) = stops(stopped(), way, seconds=7)

    assert (begin, first, last) == (2.0, "stopped", "moving")
    assert 5 < end < 5.5
    assert stops(Stopped.model_validate({"pixels": True, "lane": {"after": "2s"}}), way, seconds=1.9) == []


@pytest.mark.parametrize(("jump", "expected"), [(40, ["stopped"]), (41, [])])
def test_the_centre_may_vary_by_twenty_pixels_sideways(jump: int, expected: list[str]) -> None:
    """A box that is in two places in turn, `jump` pixels apart, has a variance of a quarter of its square: 400."""
    jumping = _in_turn((500, 500), (500 + jump, 500))

    assert [state for _, state in stops(stopped(), jumping, seconds=4)] == expected


@pytest.mark.parametrize(("jump", "expected"), [(2, ["stopped"]), (3, [])])
def test_the_centre_may_vary_by_next_to_nothing_up_and_down(jump: int, expected: list[str]) -> None:
    """The variance of y, 1 for 2 pixels, may be a hundredth of the height of the box, which is 100."""
    jumping = _in_turn((500, 500), (500, 500 + jump))

    assert [state for _, state in stops(stopped(), jumping, seconds=4)] == expected
    assert stops(Stopped.model_validate({"pixels": True, "lane": {"after": "2s"}}), jumping, seconds=4) != []


def test_who_creeps_sideways_stands_and_has_no_direction() -> None:
    """At 1.2 pixels a frame it comes 57 pixels in the ring, which is far enough for a direction, with a variance of
    300. At 1.5 pixels the variance is 469.
    """
    creeping, walking = right(1.2, frames=100), right(1.5, frames=100)

    assert set(labels(east(), creeping, fps=25, seconds=4)[50:]) == {""}
    assert stops(stopped(), creeping, seconds=4) == [(2.0, "stopped")]
    assert set(labels(east(), walking, fps=25, seconds=4)[50:]) == {"east"}
    assert stops(stopped(), walking, seconds=4) == []


def test_a_track_that_vanishes_has_stood_until_it_was_seen_last() -> None:
    events, totals = seen_by(stopped(), sampled({1: along({0: (500, 500), 3: (500, 500)})}, fps=25, seconds=5))

    assert [(round(at, 2), data["state"], data["stopped_seconds"]) for at, _, _, data in events] == [
        (2.0, "stopped", 0.0),
        (3.32, "gone", 1.0),
    ]
    assert totals == {"lane": {"stopped": 1}}


class TestDeepStreamDirection(RuleConformance):
    element = Direction.model_validate(
        {"compat": "deepstream", "east": {"allowed": {"from": [0.2, 0.5], "to": [0.8, 0.5]}}}
    )
    changed = Direction.model_validate(
        {
            "compat": "deepstream",
            "west": {"allowed": {"from": [0.8, 0.5], "to": [0.2, 0.5]}},
            "east": {"allowed": {"from": [0.2, 0.5], "to": [0.8, 0.6]}},
        }
    )


class TestDeepStreamStopped(RuleConformance):
    frames = 58
    element = Stopped.model_validate({"compat": "deepstream", "lane": {}})
    changed = Stopped.model_validate({"compat": "deepstream", "lane": {"classes": ["dog"]}, "all": {}})

    def places(self, index: int) -> list[tuple[int, float, float]]:
        """Two persons, of whom one stands until frame 55 and the other one comes on frame 5."""
        return [(1, 0.5, 0.5 if index < 55 else 0.9), *([(2, 0.2, 0.5)] if index > 4 else [])]


@pytest.mark.parametrize(
    ("options", "location", "message"),
    [
        ({"allowed": 90}, ("east", "allowed"), "has directions as arrows"),
        ({"allowed": RIGHT, "tolerance": 30}, ("east", "tolerance"), "leave it out"),
        ({"allowed": RIGHT, "polygon": [[0, 0], [9, 0], [9, 9]]}, ("east", "polygon"), "leave it out"),
    ],
)
def test_a_mistake_in_a_direction_is_reported_where_it_is(
    options: dict[str, Any], location: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Direction.model_validate({**COMPAT, "east": options})
    assert [error["loc"] for error in caught.value.errors() if message in error["msg"]] == [location]


def test_options_of_stopped_that_mean_nothing_are_refused_with_their_place() -> None:
    with pytest.raises(ValidationError) as caught:
        stopped(after="3s", anchor="top")
    assert [error["loc"] for error in caught.value.errors()] == [("lane", "after"), ("lane", "anchor")]


def _in_turn(one: tuple[float, float], other: tuple[float, float]) -> Way:
    """In one place on even frames of 25 a second, and in another one on odd frames."""

    def place(seconds: float) -> tuple[float, float]:
        return one if int(np.rint(seconds * 25)) % 2 == 0 else other

    return place
