"""`parking` and `left_objects` count exactly what happens in streets and at entrances that nobody has seen."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.rules.stays_world import LEAST_STAND, LONGEST_HALT, World, left_bags, parked_cars

from sightline.devices import Device
from sightline.graph import Site
from sightline.graph.rule import Rule
from sightline.media import Batch, Event
from sightline_plugins import LeftObjects, Parking

SEEDS = (404, 505, 606)
RATES = (5, 10)
HIDDEN = 2.0
"""Seconds for which a car may not be seen when it comes or goes, because another one is before it."""
AFTER = (LEAST_STAND + LONGEST_HALT) / 2


def reported(
    element: Rule, world: World, *, fps: int, seed: int
) -> tuple[tuple[Event, ...], dict[str, dict[str, int]]]:
    operator = element.build(Site(device=Device()))
    made = operator.process(world.batch(fps=fps, seed=seed))
    assert isinstance(made, Batch)
    return made.events, {name: dict(own) for name, own in operator.totals()["cam"].items()}


@pytest.mark.parametrize("fps", RATES)
@pytest.mark.parametrize("seed", SEEDS)
def test_who_parks_is_counted_and_who_halts_or_passes_is_not(seed: int, fps: int) -> None:
    world = parked_cars(seed)
    places = {name: {"polygon": polygon, "after": AFTER} for name, polygon in world.places.items()}
    element = Parking.model_validate({"pixels": True, "gone": "8s", **places})

    events, totals = reported(element, world, fps=fps, seed=seed)

    for name, happened in world.happened.items():
        own = [event for event in events if event.rule == name]
        parked = len(happened.stays) + happened.stands_now
        assert totals[name]["parked"] == parked
        assert (
            Counter(event.data["state"] for event in own)
            == Counter(occupied=parked, free=len(happened.stays)) - Counter()
        )
        lasted = [event.data["occupied_seconds"] for event in own if event.data["state"] == "free"]
        assert lasted == pytest.approx(happened.stays, abs=HIDDEN)
    assert sum(happened.halts for happened in world.happened.values()) > 0


@pytest.mark.parametrize("fps", RATES)
@pytest.mark.parametrize("seed", SEEDS)
def test_bags_that_are_left_fetched_and_taken_are_counted(seed: int, fps: int) -> None:
    world = left_bags(seed)
    element = LeftObjects.model_validate(
        {"plaza": {"classes": ["suitcase"], "after": "10s", "distance": 0.35, "gone": "3s"}}
    )

    events, totals = reported(element, world, fps=fps, seed=seed)

    assert totals["plaza"] == {"left": 4, "removed": 3}, "all but the one that is kept; all but the forgotten two"
    assert Counter(event.data["state"] for event in events if event.kind == "left") == {
        "left": 4,
        "attended": 1,
        "removed": 1,
    }
    assert [event.data["how"] for event in events if event.kind == "removed"] == ["vanished"] * 3
