"""`compat: deepstream` of `zones` counts as nvdsanalytics does, where that differs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.rules.walkers import Walker, sampled, walker

from sightline.testing import run_element
from sightline.testing.rule_conformance import RuleConformance
from sightline_plugins.rules.zones import Zones

SQUARE = [[400, 200], [800, 200], [800, 600], [400, 600]]


def zones(**options: Any) -> Zones:
    return Zones.model_validate(_options(**options))


def _options(**options: Any) -> dict[str, Any]:
    return {"pixels": True, "compat": "deepstream", "hall": {"polygon": SQUARE, **options}}


def plain(**options: Any) -> Zones:
    return Zones.model_validate({"pixels": True, "hall": {"polygon": SQUARE, **options}})


def states(element: Zones, *walkers: Walker) -> list[str]:
    batches = run_element(element, sampled(walkers, fps=10))
    return [str(event.data["state"]) for batch in batches for event in batch.events if event.kind == "crowd"]


def inside(element: Zones, *walkers: Walker) -> list[int]:
    """The number inside on each frame."""
    batches = run_element(element, sampled(walkers, fps=10, seconds=3))
    return [dict(own[0].counts)["inside"] for batch in batches for own in batch.columns.overlays]


def standing(track_id: int, *, hidden: tuple[float, float] = (9, 9)) -> Walker:
    return walker((0, 600, 400), (3, 600, 400), track_id=track_id, hidden=[hidden])


def test_as_many_as_the_limit_are_a_crowd_at_once() -> None:
    two = standing(1), standing(2)

    assert states(zones(limit=2), *two) == ["crowded", "cleared"]
    assert states(plain(limit=2), *two) == []


def test_an_occlusion_ends_a_crowd() -> None:
    one = standing(1, hidden=(1.0, 1.15))

    assert states(zones(limit=1), one) == ["crowded", "cleared", "crowded", "cleared"]


def test_a_box_that_trembles_on_the_edge_comes_and_goes() -> None:
    steps = [(number / 10, 399 + 2 * (number % 2), 400) for number in range(30)]

    assert set(inside(zones(), walker(*steps))[10:29]) == {0, 1}
    assert len(set(inside(plain(), walker(*steps))[10:29])) == 1


def test_the_mean_height_of_the_object_decides_where_its_foot_is() -> None:
    """A box that is suddenly half as high: its foot is lowered by half of the mean height, out of the zone."""
    tall = Walker(1, (0.0, 1.95), ((600.0, 595.0), (600.0, 595.0)))
    low = Walker(1, (2.0, 3.0), ((600.0, 595.0), (600.0, 595.0)), box_wh=(40.0, 50.0))

    assert inside(zones(), tall, low)[15:25] == [1] * 5 + [0] * 5
    assert inside(plain(), tall, low)[15:25] == [1] * 10


def test_a_smooth_zone_shows_the_most_frequent_number_of_the_window() -> None:
    """Four frames are in 300 ms at 10 a second. Of two objects one is hidden on frames 10 and 11: 2, 2, 2, 1 make 2;
    2, 2, 1, 1 make 1, the newest of both; 2, 1, 1, 2 make 2.
    """
    smooth = Zones.model_validate({**_options(smooth=True), "window": 300})
    hidden = standing(1), standing(2, hidden=(0.95, 1.15))

    assert inside(zones(), *hidden)[9:14] == [2, 1, 1, 2, 2]
    assert inside(smooth, *hidden)[9:14] == [2, 2, 1, 2, 2]


def test_frames_before_the_first_object_are_not_smoothed() -> None:
    smooth = Zones.model_validate({**_options(smooth=True), "window": 1000})

    assert inside(smooth, walker((1, 600, 400), (3, 600, 400)))[9:12] == [0, 1, 1]


class TestDeepStreamZones(RuleConformance):
    element = Zones.model_validate(
        {
            "compat": "deepstream",
            "window": 200,
            "hall": {"polygon": [[0.3, 0.3], [0.7, 0.3], [0.7, 0.7], [0.3, 0.7]], "limit": 1},
            "smooth": {"polygon": [[0, 0], [1, 0], [1, 0.6], [0, 0.6]], "smooth": True},
        }
    )
    changed = Zones.model_validate(
        {
            "compat": "deepstream",
            "window": 200,
            "hall": {"polygon": [[0.3, 0.3], [0.7, 0.3], [0.7, 0.7], [0.3, 0.8]], "limit": 2},
            "smooth": {"polygon": [[0, 0], [1, 0], [1, 0.6], [0, 0.6]], "smooth": True},
        }
    )


def test_options_that_mean_nothing_are_refused_with_their_place() -> None:
    with pytest.raises(ValidationError) as caught:
        zones(dwell="3s", margin=2)
    assert [error["loc"] for error in caught.value.errors()] == [("hall", "margin"), ("hall", "dwell")]


@pytest.mark.parametrize(("option", "place"), [({"window": 300}, ("window",)), ({}, ("hall", "smooth"))])
def test_options_of_deepstream_need_it(option: dict[str, Any], place: tuple[str, ...]) -> None:
    zone = {"polygon": SQUARE} if option else {"polygon": SQUARE, "smooth": True}
    with pytest.raises(ValidationError, match="needs `compat: deepstream`") as caught:
        Zones.model_validate({"pixels": True, "hall": zone, **option})
    assert [error["loc"] for error in caught.value.errors()] == [place]
