"""Paths are simplified, and stay within the tolerance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sightline_plugins.delivery.paths import distances_to_segment, simplify, simplify_to

Floats = npt.NDArray[np.float64]

TRAILS = st.integers(1, 60).flatmap(
    lambda count: arrays(np.float64, (count, 2), elements=st.floats(-4000, 4000, allow_nan=False, width=32))
)
ROUNDING = 1e-9
TOLERANCES = st.floats(0, 500, allow_nan=False)


def farthest(points: Floats, kept: npt.NDArray[np.intp]) -> float:
    """How far a point is from the line between the kept ones around it, at most."""
    return max(
        (
            float(distances_to_segment(points[first : last + 1], start=points[first], end=points[last]).max())
            for first, last in zip(kept[:-1].tolist(), kept[1:].tolist(), strict=True)
        ),
        default=0.0,
    )


@given(TRAILS, TOLERANCES)
def test_every_point_is_within_the_tolerance_of_what_is_kept(points: Floats, tolerance: float) -> None:
    kept = simplify(points, tolerance=tolerance)

    assert farthest(points, kept) <= tolerance + ROUNDING


@given(TRAILS, TOLERANCES)
def test_the_ends_are_kept_and_the_order(points: Floats, tolerance: float) -> None:
    kept = simplify(points, tolerance=tolerance)

    assert kept[0] == 0
    assert kept[-1] == len(points) - 1
    assert (np.diff(kept) > 0).all()


@given(TRAILS, TOLERANCES, st.integers(2, 20))
def test_there_are_no_more_points_than_allowed(points: Floats, tolerance: float, most: int) -> None:
    kept, needed = simplify_to(points, tolerance=tolerance, most=most)

    assert len(kept) <= most
    assert needed >= tolerance
    assert farthest(points, kept) <= needed + ROUNDING


def test_a_straight_walk_is_its_two_ends() -> None:
    points = np.stack([np.arange(50.0), 2 * np.arange(50.0)], axis=1)

    assert simplify(points, tolerance=0.1).tolist() == [0, 49]


def test_a_corner_is_kept() -> None:
    points = np.array([[0, 0], [5, 0], [10, 0], [10, 5], [10, 10]], np.float64)

    assert simplify(points, tolerance=1).tolist() == [0, 2, 4]


def test_a_walk_there_and_back_keeps_its_turning_point() -> None:
    points = np.array([[0, 0], [5, 0], [10, 0], [5, 0], [0, 0]], np.float64)

    assert simplify(points, tolerance=1).tolist() == [0, 2, 4]
