from __future__ import annotations

import numpy as np
import pytest

from sightline_plugins.rules.exits import Exits
from sightline_plugins.rules.geometry import (
    anchor_points,
    first_meeting_edges,
    inside_polygons,
    line_sides,
    polygon_edges,
)

SEGMENT = np.array([[[0.0, 0.0], [10.0, 0.0]]])


def meets(before: tuple[float, float], after: tuple[float, float]) -> bool:
    exits = Exits()
    exits.place({0: SEGMENT[0]}, fractions=np.array([[0.0, 0.0]]))
    found = {}
    for number, point in enumerate((before, after)):
        box = np.array([[*point, *point]], np.float32)
        found = exits.reached(np.array([7]), box, now_ns=number, memory_ns=10)
    return found == {0: {7}}


def test_anchors_lie_at_fractions_of_the_box() -> None:
    points = anchor_points(np.array([[10, 20, 30, 60]], np.float32), fractions=np.array([[0.5, 1], [0, 0]]))
    assert points.tolist() == [[[20, 60], [10, 20]]]


def test_below_a_line_from_left_to_right_is_positive() -> None:
    assert line_sides(np.array([[[5.0, 1.0]]]), segments=SEGMENT)[0, 0] > 0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((5, -1), (5, 1), True),
        ((0, -1), (0, 1), True),
        ((10, -1), (10, 1), True),
        ((11, -1), (11, 1), False),
        ((5, -2), (5, -1), False),
        ((5, -1), (5, 0), True),
        ((5, 0), (5, 1), False),
        ((9, -1), (13, 1), False),
        ((2, 0), (8, 0), False),
    ],
)
def test_a_step_meets_a_segment(before: tuple[float, float], after: tuple[float, float], *, expected: bool) -> None:
    assert meets(before, after) is expected


def test_polygons_of_different_corners_stand_in_one_array() -> None:
    triangle, square = np.array([[0.0, 0], [4, 0], [0, 4]]), np.array([[0.0, 0], [4, 0], [4, 4], [0, 4]])
    edges = polygon_edges([triangle, square])
    points = np.array([[[3.0, 3.0]] * 2, [[1.0, 1.0]] * 2])
    assert inside_polygons(points, edges=edges).tolist() == [[False, True], [True, True]]


def test_inside_is_even_odd() -> None:
    star = np.array([[50.0, 0], [80, 95], [2, 36], [98, 36], [20, 95]])
    centre, arm = [[50.0, 50.0]], [[50.0, 20.0]]
    assert inside_polygons(np.array([centre, arm]), edges=polygon_edges([star])).tolist() == [[False], [True]]


@pytest.mark.parametrize(
    ("corners", "expected"),
    [
        ([(0, 0), (4, 0), (4, 4), (0, 4)], None),
        ([(0, 0), (4, 0), (4, 4), (2, 1), (0, 4)], None),
        ([(0, 0), (4, 4), (4, 0), (0, 4)], (0, 2)),
        ([(0, 0), (4, 0), (4, 4), (2, 0), (0, 4)], (0, 2)),
        ([(0, 0), (4, 0), (2, 0), (2, 4)], (0, 1)),
        ([(0, 0), (4, 0), (4, 4), (3, 0), (1, 0), (0, 4)], (0, 2)),
        ([(0, 0), (2, 0), (4, 0), (4, 4)], None),
    ],
)
def test_edges_that_meet_are_named(corners: list[tuple[float, float]], expected: tuple[int, int] | None) -> None:
    assert first_meeting_edges(np.array(corners, np.float64)) == expected
    assert (first_meeting_edges(np.array(corners[::-1], np.float64)) is None) is (expected is None)
