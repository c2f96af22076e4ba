from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError
from tests.unit.rules.motions import SIZE_WH, Way, along, sampled, seen_by

from sightline.devices import Device
from sightline.graph import Site
from sightline.media import Batch
from sightline_plugins.rules.ground import Ground
from sightline_plugins.rules.speed import Speed
from sightline_plugins.rules.speed_fit import Grounds

FRAME = [(500, 250), (780, 250), (1180, 700), (100, 700)]
"""A strip of road 7 metres wide and 40 long, that a camera sees from 6 metres above or so."""
ROAD = {"frame": [[x / 1280, y / 720] for x, y in FRAME], "width": 7, "length": 40}
ROAD_METRES = [(0, 0), (7, 0), (7, 40), (0, 40)]
PIXELS = np.array(
    [row for (u, v), (x, y) in zip(ROAD_METRES, FRAME, strict=True) for row in
     ([u, v, 1, 0, 0, 0, -x * u, -x * v], [0, 0, 0, u, v, 1, -y * u, -y * v])], np.float64
)  # fmt: skip
TO_FRAME = np.append(np.linalg.solve(PIXELS, np.array(FRAME, np.float64).ravel()), 1).reshape(3, 3)
RATES = (5, 10, 25, 60)


def driving(start: tuple[float, float], velocity: tuple[float, float]) -> Way:
    """The way over the frame of who drives on the ground in metres and metres a second."""

    def place(seconds: float) -> tuple[float, float]:
        x, y, depth = TO_FRAME @ (start[0] + velocity[0] * seconds, start[1] + velocity[1] * seconds, 1)
        return x / depth, y / depth

    return place


def speed(*, unit: str = "m/s", **options: Any) -> Speed:
    return Speed.model_validate({"unit": unit, "road": {"ground": ROAD, **options}})


def measured(element: Speed, batch: Batch) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Speed, uncertainty and track of every object that has a speed."""
    objects = element.build(Site(device=Device())).process(batch).objects
    known = ~np.isnan(objects.extra["speed"])
    return objects.extra["speed"][known], objects.extra["speed_uncertainty"][known], objects.track_id[known]


@pytest.mark.parametrize("noise", [0.5, 2])
@pytest.mark.parametrize("fps", RATES)
def test_the_true_speed_is_within_the_uncertainty_in_95_of_100_cases(fps: int, noise: float) -> None:
    random = np.random.default_rng(fps)
    truth = {number: random.uniform(1, 12) for number in range(1, 81)}
    angles = {number: random.normal(np.pi / 2, 0.2) for number in truth}
    ways = {
        number: driving((random.uniform(0, 7), 3), (np.cos(angles[number]) * own, np.sin(angles[number]) * own))
        for number, own in truth.items()
    }

    found, uncertainty, track_id = measured(speed(), sampled(ways, fps=fps, seconds=3, noise=noise))

    true = np.array([truth[number] for number in track_id.tolist()])
    assert len(set(track_id.tolist())) == len(truth)
    assert np.mean(np.abs(found - true) <= uncertainty) >= 0.95
    assert np.median(uncertainty / true) < (0.2 if noise < 1 or fps > 10 else 0.5)


@pytest.mark.parametrize(("unit", "expected"), [("m/s", 10), ("km/h", 36), ("mph", 22.37)])
def test_units(unit: str, expected: float) -> None:
    found, uncertainty, _ = measured(speed(unit=unit), sampled({1: driving((3, 2), (0, 10))}, fps=25, seconds=3))

    assert found == pytest.approx(np.full(len(found), expected), rel=0.01)
    assert (uncertainty < 0.1 * expected).all()


def test_a_change_of_the_unit_applies_at_once() -> None:
    operator = speed(unit="m/s").build(Site(device=Device()))
    batch = sampled({1: driving((3, 2), (0, 10))}, fps=25, seconds=3)
    operator.process(batch)
    operator.change(speed(unit="km/h"))

    found = operator.process(batch).objects.extra["speed"]
    assert found[~np.isnan(found)][-1] == pytest.approx(36, rel=0.01)
    assert operator.totals()["cam"]["road"]["mean_speed"] == pytest.approx(36, rel=0.01)


def test_four_points_with_places_are_the_rectangle() -> None:
    ground = {"frame": ROAD["frame"], "metres": [[u + 100, v - 50] for u, v in ROAD_METRES]}
    batch = sampled({1: driving((3, 2), (0, 10))}, fps=25, seconds=3)

    assert measured(speed(ground=ground), batch)[0] == pytest.approx(measured(speed(), batch)[0], abs=0.01)


def test_a_known_length_is_enough_from_straight_above() -> None:
    above = {"from": [0, 0.5], "to": [1, 0.5], "length": 32}
    found, _, _ = measured(speed(ground=above), sampled({1: along({0: (100, 100), 4: (500, 400)})}, fps=25, seconds=4))

    assert found == pytest.approx(np.full(len(found), 125 * 32 / 1280), rel=0.01)


@pytest.mark.parametrize("fps", RATES)
def test_only_who_is_faster_beyond_doubt_is_over_the_limit(fps: int) -> None:
    ways = {1: driving((1, 2), (0, 10)), 2: driving((3, 2), (0, 14)), 3: driving((5, 2), (0, 6))}
    events, totals = seen_by(speed(unit="km/h", limit=40), sampled(ways, fps=fps, seconds=2.4, noise=0.5))

    assert [(kind, rule, data["track_id"], data["unit"]) for _, kind, rule, data in events] == [
        ("speed", "road", 2, "km/h")
    ]
    assert events[0][3]["speed"] - events[0][3]["uncertainty"] > 40
    assert totals["road"] | {"mean_speed": 0} == {"measured": 3, "over": 1, "near": 0, "mean_speed": 0}
    assert totals["road"]["mean_speed"] == pytest.approx(36, rel=0.05)


@pytest.mark.parametrize("fps", RATES)
def test_two_who_are_near_each_other_on_the_ground_are_reported_until_they_part(fps: int) -> None:
    ways = {4: driving((3, 20), (0, 0)), 9: driving((3, 10), (0, 1)), 2: driving((6, 20), (0, 0))}
    batch = sampled(ways, fps=fps, seconds=16, noise=0.3)

    (begin, end), totals = seen_by(speed(near={"distance": 2, "after": "1s"}), batch)

    assert (begin[3]["state"], begin[3]["track_id"], begin[3]["other_id"]) == ("near", 4, 9)
    assert begin[0] == pytest.approx(9, abs=0.2 + 1 / fps)
    assert end[3]["state"] == "apart"
    assert end[3]["seconds"] == pytest.approx(4.4, abs=0.4 + 1 / fps)
    assert totals["road"]["near"] == 1


def test_slow_frames_are_measured_over_more_time() -> None:
    found, _, _ = measured(speed(), sampled({1: driving((3, 2), (0, 5))}, fps=1, seconds=7))

    assert found == pytest.approx(np.full(len(found), 5), rel=0.05)
    assert len(found) == 5


def test_nothing_is_measured_above_the_horizon_or_of_who_has_just_come() -> None:
    ways = {1: along({0: (100, 10), 3: (900, 10)}), 2: driving((3, 2), (0, 10))}
    batch = sampled(ways, fps=25, seconds=3)
    objects = speed().build(Site(device=Device())).process(batch).objects

    missing = np.isnan(objects.extra["speed"])
    assert missing[objects.track_id == 1].all()
    assert missing[objects.track_id == 2].tolist() == [True] * 13 + [False] * 63


def test_grounds_map_points_of_their_areas() -> None:
    road = Ground.model_validate(ROAD).plane(SIZE_WH, pixels=False)
    above = Ground.model_validate({"from": [0, 0], "to": [1, 0], "length": SIZE_WH[0] / 10}).plane(
        SIZE_WH, pixels=False
    )
    unused = np.zeros(2, np.int64)
    grounds = Grounds.of([road, above], anchors=np.zeros((2, 2)), window_ns=unused, longest_ns=unused)
    points = np.array(FRAME, np.float64)

    assert grounds.places(np.zeros(4, np.intp), points) == pytest.approx(np.array(ROAD_METRES, np.float64), abs=1e-9)
    assert grounds.places(np.ones(4, np.intp), points) == pytest.approx(points / 10)


@pytest.mark.parametrize(
    ("ground", "message"),
    [
        (None, "Field required"),
        ({}, "give `frame`"),
        ({"frame": ROAD["frame"]}, "give `frame`"),
        ({"frame": ROAD["frame"], "width": 7}, "give `frame`"),
        ({"from": [0, 0], "to": [1, 0]}, "from, to and length alone"),
        ({"from": [0, 0], "to": [0, 0], "length": 3}, "the same point"),
        ({"from": [0, 0], "to": [1, 0], "length": 0}, "greater than 0"),
        ({**ROAD, "frame": [[0, 0], [0.5, 0.5], [1, 1], [0, 1]]}, "points 1, 2 and 3 of frame lie on one line"),
        ({"frame": ROAD["frame"], "metres": [[0, 0], [1, 0], [2, 0], [0, 1]]}, "points 1, 2 and 3 of metres"),
        ({**ROAD, "frame": [ROAD["frame"][number] for number in (0, 2, 1, 3)]}, "not in the order"),  # type: ignore[index]
        ({**ROAD, "frame": [[0.4, 0.3], [0.6, 0.3], [1.5, 1], [0, 1]]}, "outside the image"),
        ({**ROAD, "frame": [[1, 0], [0.5, 0], [0.5, 1], [0, 1]]}, "not in the order"),
    ],
)
def test_wrong_ground_is_one_error_with_the_place(ground: Any, message: str) -> None:
    options = {"limit": 30} if ground is None else {"limit": 30, "ground": ground}
    with pytest.raises(ValidationError, match=message) as caught:
        Speed.model_validate({"road": options})

    (error,) = caught.value.errors()
    assert error["loc"][:2] == ("road", "ground")
