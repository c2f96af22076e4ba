from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.rules.motions import RATES, along, sampled, seen_by

from sightline.errors import ConfigurationError
from sightline_plugins.rules.stopped import Stopped

STOP = along({0: (100, 500), 4: (500, 500), 16: (500, 500), 20: (900, 500)})
"""Comes at 100 pixels a second, stands from second 4 to 16, and goes on."""


def stopped(**options: Any) -> Stopped:
    return Stopped.model_validate({"lane": options})


@pytest.mark.parametrize("noise", [0, 1.5])
@pytest.mark.parametrize("fps", RATES)
def test_a_stop_begins_and_ends_at_the_same_time_at_any_rate(fps: int, noise: float) -> None:
    (begin, end), totals = seen_by(stopped(), sampled({7: STOP}, fps=fps, seconds=20, noise=noise))

    assert begin[1:3] == ("stopped", "lane")
    assert begin[3]["state"] == "stopped"
    assert begin[0] == pytest.approx(9, abs=0.2 + 1 / fps)
    assert (end[3]["state"], end[3]["track_id"]) == ("moving", 7)
    assert end[3]["stopped_seconds"] == pytest.approx(12, abs=0.2 + 1 / fps)
    assert totals == {"lane": {"stopped": 1, "mean_stopped_seconds": end[3]["stopped_seconds"]}}


@pytest.mark.parametrize("fps", RATES)
def test_who_passes_slowly_or_stands_for_a_moment_has_not_stopped(fps: int) -> None:
    slow = along({0: (100, 500), 20: (500, 500)})
    short = along({0: (100, 300), 2: (300, 300), 5.5: (300, 300), 8: (600, 300)})

    events, totals = seen_by(stopped(), sampled({1: slow, 2: short}, fps=fps, seconds=20, noise=1))

    assert (events, totals["lane"]["stopped"]) == ([], 0)


@pytest.mark.parametrize("fps", RATES)
def test_a_gap_and_a_box_that_jumps_end_no_stop(fps: int) -> None:
    def jumping(seconds: float) -> tuple[float, float] | None:
        return None if 8.2 < seconds < 9.8 else (500, 400) if 12 < seconds < 12.3 else (500, 500)

    events, _ = seen_by(stopped(), sampled({7: jumping}, fps=fps, seconds=20))

    assert [data["state"] for _, _, _, data in events] == ["stopped"]


@pytest.mark.parametrize("fps", RATES)
def test_a_track_that_vanishes_has_stood_until_it_was_last_seen(fps: int) -> None:
    (_, end), _ = seen_by(stopped(), sampled({7: along({0: (5, 5), 9: (5, 5)})}, fps=fps, seconds=14))

    assert (end[3]["state"], end[3]["stopped_seconds"]) == ("gone", 9)
    assert end[0] == pytest.approx(11, abs=1 / fps)


def test_noise_ends_no_long_stop() -> None:
    long = sampled({7: lambda _: (500, 500)}, fps=5, seconds=900, noise=2)

    assert [data["state"] for _, _, _, data in seen_by(stopped(), long)[0]] == ["stopped"]


def test_only_objects_in_the_area_and_of_the_classes_count() -> None:
    places = {1: (100, 100), 2: (900, 600), 3: (910, 610)}
    batch = sampled(
        {number: along({0: place, 9: place}) for number, place in places.items()}, fps=5, seconds=9, labels={3: "car"}
    )
    element = stopped(polygon=[[0.5, 0.5], [1, 0.5], [1, 1], [0.5, 1]], classes=["car"])

    assert [data["track_id"] for _, _, _, data in seen_by(element, batch)[0]] == [3]


def test_times_that_are_uneven_change_nothing() -> None:
    steps = np.random.default_rng(5).uniform(0.01, 0.8, 60)
    pts_ns = (np.cumsum(steps) * 1e9).astype(np.int64)
    begin, end = seen_by(stopped(), sampled({7: STOP}, fps=1, seconds=0, pts_ns=pts_ns[pts_ns <= 20e9]))[0]

    assert begin[0] == pytest.approx(9, abs=1)
    assert end[3]["stopped_seconds"] == pytest.approx(12, abs=1)


def test_a_distance_larger_than_the_frame_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigurationError, match=r"lane\.distance is 20 times the height of the frame"):
        Stopped(lane={"distance": 20})
