from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.unit.rules.motions import RATES, Way, along, sampled, seen_by

from sightline.media import Arrows
from sightline_plugins.rules.direction import Direction

RIGHT = along({0: (100, 500), 6: (1000, 500)})
LEFT = along({0: (1000, 400), 6: (100, 400)})
BACK = along({0: (100, 300), 6: (900, 300), 12: (100, 300)})


def direction(**options: Any) -> Direction:
    return Direction.model_validate({"ramp": options})


def states(element: Direction, ways: dict[int, Way], *, fps: float, noise: float = 0) -> list[tuple[int, str]]:
    events, totals = seen_by(element, sampled(ways, fps=fps, seconds=12, noise=noise))
    found = sorted((data["track_id"], data["state"]) for _, _, _, data in events)
    assert totals["ramp"] == {state: sum(one == state for _, one in found) for state in ("right", "wrong")}
    return found


@pytest.mark.parametrize("noise", [0, 1.5])
@pytest.mark.parametrize("fps", RATES)
def test_each_object_is_judged_once_for_each_state_at_any_rate(fps: int, noise: float) -> None:
    allowed = direction(allowed={"from": [0.1, 0.5], "to": [0.9, 0.5]})

    assert states(allowed, {1: RIGHT, 2: LEFT, 3: BACK}, fps=fps, noise=noise) == [
        (1, "right"),
        (2, "wrong"),
        (3, "right"),
        (3, "wrong"),
    ]


@pytest.mark.parametrize("angle", range(0, 360, 30))
def test_angles_are_those_of_the_screen(angle: int) -> None:
    x, y = np.cos(np.radians(angle)) * 300, -np.sin(np.radians(angle)) * 300
    way = along({0: (640, 360), 5: (640 + x, 360 + y)})

    ((_, _, _, data),), _ = seen_by(direction(forbidden=angle, tolerance=10), sampled({1: way}, fps=25, seconds=5))

    assert data == {"state": "wrong", "angle": pytest.approx(angle, abs=0.2), "track_id": 1}


def test_an_arrow_points_in_pixels_of_the_frame() -> None:
    diagonal = direction(allowed={"from": [0, 0], "to": [1, 1]}, tolerance=5)

    assert states(diagonal, {1: along({0: (0, 0), 6: (640, 360)})}, fps=25) == [(1, "right")]
    assert states(diagonal, {1: along({0: (0, 0), 6: (600, 600)})}, fps=25) == [(1, "wrong")]


def test_directions_are_shown_as_arrows() -> None:
    rule = direction(allowed={"from": [0.2, 0.8], "to": [0.7, 0.3]}, forbidden=90).watch(None)
    rule.place((1000, 500))

    allowed, forbidden = rule.graphics()

    assert isinstance(allowed, Arrows)
    assert isinstance(forbidden, Arrows)
    assert allowed.ends.tolist() == [pytest.approx([200, 400, 700, 150])]
    assert forbidden.ends.tolist() == [pytest.approx([500, 300, 500, 200])]
    assert (allowed.is_forbidden, forbidden.is_forbidden) == (False, True)


def test_what_is_neither_allowed_nor_forbidden_is_not_judged() -> None:
    both = direction(allowed=0, forbidden=180)
    up = along({0: (640, 700), 6: (640, 100)})

    assert states(both, {1: RIGHT, 2: LEFT, 3: up}, fps=10) == [(1, "right"), (2, "wrong")]


@pytest.mark.parametrize("fps", RATES)
def test_who_stands_with_a_box_that_trembles_is_not_judged(fps: int) -> None:
    batch = sampled({1: lambda _: (500, 500)}, fps=fps, seconds=120, noise=3)

    assert seen_by(direction(allowed=0), batch)[0] == []


@pytest.mark.parametrize("fps", RATES)
def test_a_turn_of_less_than_the_distance_is_no_other_direction(fps: int) -> None:
    back_a_little = along({0: (100, 300), 4: (700, 300), 5: (640, 300), 9: (1200, 300)})

    assert states(direction(allowed=0, distance=0.1), {1: back_a_little}, fps=fps) == [(1, "right")]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({}, "ramp"),
        ({"allowed": {"from": [0.1, 0.1], "to": [0.1, 0.1]}}, "ramp.allowed"),
        ({"allowed": 0, "tolerance": 200}, "ramp.tolerance"),
        ({"allowed": 0, "forbidden": 0}, "ramp"),
        ({"forbidden": {"from": [0, 0], "to": [2, 0]}}, "ramp.forbidden.to"),
        ({"allowed": 0, "polygon": [[0, 0], [1, 1]]}, "ramp.polygon"),
    ],
)
def test_wrong_options_are_one_error_with_the_place(options: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        direction(**options)
    paths = {".".join(part for part in map(str, one["loc"]) if part.islower()) for one in caught.value.errors()}
    assert any(path.startswith(place) for path in paths), caught.value
