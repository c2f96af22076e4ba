from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.rules.motions import Way, along, sampled, seen_by

from sightline_plugins.rules.left_objects import LeftObjects

RATES = (1, 5, 25)
HERE = (600.0, 600.0)
OWNER = along({0: (100, 600), 5: (600, 600), 12: (600, 600), 15: (1200, 600)})
"""Comes, stands for seven seconds, and goes away."""
BAG = along({0: (120, 600), 5: HERE, 60: HERE})
"""Is carried there, and stays."""


def hall(**options: Any) -> LeftObjects:
    return LeftObjects.model_validate({"hall": {"classes": ["suitcase"], "after": "10s", "gone": "4s", **options}})


def told(
    ways: dict[int, Way],
    *,
    fps: float,
    seconds: float = 60,
    people: tuple[int, ...] = (1,),
    noise: float = 1,
    **options: Any,
) -> tuple[list[tuple[float, str, str]], dict[str, Any]]:
    labels = {number: "person" if number in people else "suitcase" for number in ways}
    events, totals = seen_by(hall(**options), sampled(ways, fps=fps, seconds=seconds, labels=labels, noise=noise))
    return [(at, kind, str(data.get("state", data.get("how")))) for at, kind, _, data in events], totals["hall"]


@pytest.mark.parametrize("fps", RATES)
def test_an_object_is_left_when_nobody_has_been_near_for_long(fps: int) -> None:
    ((at, kind, state),), totals = told({1: OWNER, 7: BAG}, fps=fps)

    assert (kind, state, totals) == ("left", "left", {"left": 1, "removed": 0})
    assert at == pytest.approx(12 + 150 / 200 + 10, abs=0.2 + 1 / fps)


@pytest.mark.parametrize("fps", RATES)
def test_who_passes_by_ends_nothing_and_who_stays_does(fps: int) -> None:
    passing = along({26: (100, 650), 38: (1200, 650)})
    back = along({45: (1200, 600), 48: (620, 600), 60: (620, 600)})

    found, _ = told({1: OWNER, 2: passing, 3: back, 7: BAG}, fps=fps, people=(1, 2, 3))

    assert [state for _, _, state in found] == ["left", "attended"]
    assert found[1][0] == pytest.approx(45 + 3 * 430 / 580 + 5, abs=0.3 + 1 / fps)


@pytest.mark.parametrize("fps", RATES)
def test_an_object_that_is_taken_is_removed_after_it_stood(fps: int) -> None:
    taken = along({0: HERE, 30: HERE, 34: (1200, 600)})

    found, totals = told({7: taken}, fps=fps, seconds=45, people=())

    assert [(kind, state) for _, kind, state in found] == [("left", "left"), ("left", "removed"), ("removed", "moved")]
    assert totals == {"left": 1, "removed": 1}


@pytest.mark.parametrize("fps", RATES)
def test_an_object_that_vanishes_is_removed_and_one_that_is_hidden_is_not(fps: int) -> None:
    hidden = along({0: HERE, 60: HERE}, hidden=[(20, 40)])
    before_it = along({18: (600, 610), 42: (600, 610)})
    vanishes = along({0: (200, 300), 20: (200, 300)})

    found, _ = told({2: before_it, 7: hidden, 8: vanishes}, fps=fps, people=(2,), distance=0.01)

    assert sorted(state for _, _, state in found) == ["left", "left", "removed", "vanished"]
    (at,) = [at for at, _, state in found if state == "vanished"]
    assert at == pytest.approx(24, abs=0.1 + 1 / fps)


def test_an_object_whose_id_changes_is_the_same() -> None:
    found, _ = told({7: along({0: HERE, 15: HERE}), 9: along({15.2: HERE, 30: HERE})}, fps=10, seconds=30, people=())

    assert [state for _, _, state in found] == ["left"]


def test_what_was_there_for_a_moment_is_not_missed() -> None:
    assert told({7: along({0: HERE, 8: HERE})}, fps=5, seconds=30, people=())[0] == []


@pytest.mark.parametrize("options", [{"after": "0s"}, {"distance": 0}, {"owners": []}, {"still": -1}])
def test_wrong_options_are_one_error_with_the_place(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        hall(**options)
    assert caught.value.errors()[0]["loc"][:2] == ("hall", next(iter(options)))
