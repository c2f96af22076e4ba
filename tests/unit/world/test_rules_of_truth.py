"""What the truth says about hand-made tracks."""

from __future__ import annotations

import numpy as np
import pytest
from tools.world.rules import Crossing, Line, Stay, Zone, anchors, crossings, inside, stays

SIZE_WH = (100, 100)
LEFT_TO_RIGHT = Line("gate", (0.2, 0.5), (0.8, 0.5))
SQUARE = Zone("square", ((0.4, 0.4), (0.6, 0.4), (0.6, 0.6), (0.4, 0.6)))


def test_the_anchor_is_the_middle_of_the_bottom_edge() -> None:
    assert anchors(np.array([[10.0, 20.0, 30.0, 60.0]])).tolist() == [[20.0, 60.0]]


def test_downwards_over_a_line_drawn_left_to_right_is_in() -> None:
    track = np.array([[50.0, 30], [50, 45], [50, 55], [50, 70]])
    assert crossings(track, line=LEFT_TO_RIGHT, size_wh=SIZE_WH) == [Crossing(2, "in")]


def test_upwards_over_a_line_drawn_left_to_right_is_out() -> None:
    track = np.array([[50.0, 55], [50, 45]])
    assert crossings(track, line=LEFT_TO_RIGHT, size_wh=SIZE_WH) == [Crossing(1, "out")]


def test_passing_beside_the_ends_of_a_line_is_no_crossing() -> None:
    track = np.array([[10.0, 45], [10, 55]])
    assert crossings(track, line=LEFT_TO_RIGHT, size_wh=SIZE_WH) == []


def test_a_point_on_the_line_belongs_to_the_side_it_came_from() -> None:
    touching = np.array([[50.0, 45], [50, 50], [50, 45]])
    through = np.array([[50.0, 45], [50, 50], [50, 55]])
    assert crossings(touching, line=LEFT_TO_RIGHT, size_wh=SIZE_WH) == []
    assert crossings(through, line=LEFT_TO_RIGHT, size_wh=SIZE_WH) == [Crossing(2, "in")]


def test_a_fast_step_is_judged_by_where_it_meets_the_line() -> None:
    meets = np.array([[0.0, 20], [60, 80]])
    misses = np.array([[0.0, 45], [5, 90]])
    assert len(crossings(meets, line=LEFT_TO_RIGHT, size_wh=SIZE_WH)) == 1
    assert crossings(misses, line=LEFT_TO_RIGHT, size_wh=SIZE_WH) == []


def test_crossing_back_counts_again_the_other_way() -> None:
    track = np.array([[50.0, 45], [50, 55], [50, 45]])
    assert [found.direction for found in crossings(track, line=LEFT_TO_RIGHT, size_wh=SIZE_WH)] == ["in", "out"]


@pytest.mark.parametrize(("point", "within"), [((50, 50), True), ((30, 50), False), ((50, 70), False)])
def test_inside_a_polygon_is_decided_by_the_even_odd_rule(point: tuple[float, float], within: bool) -> None:
    corners = np.array(SQUARE.corners) * 100
    assert inside(np.array([point], dtype=np.float64), corners=corners).tolist() == [within]


def test_a_stay_runs_from_the_first_point_inside_to_the_first_outside() -> None:
    track = np.array([[30.0, 50], [50, 50], [55, 50], [70, 50]])
    assert stays(track, zone=SQUARE, size_wh=SIZE_WH) == [Stay(1, 3)]


def test_a_stay_that_the_clip_cuts_off_has_no_end() -> None:
    track = np.array([[30.0, 50], [50, 50], [55, 50]])
    assert stays(track, zone=SQUARE, size_wh=SIZE_WH) == [Stay(1, None)]
