from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline_plugins.nms.cpu import Kept, gaussians, mean_rectangle, oriented_overlap, suppress_by_method
from sightline_plugins.nms.options import Method, NmsOptions
from tests.unit.nms import plain

LIMIT = 0.4371
Rows = list[tuple[plain.Turned, float, int]]


def thin(found: Rows, *, method: Method = "hard", class_agnostic: bool = False, least: float = 0.0) -> Kept:
    shapes, scores, classes = zip(*found, strict=True)
    corners = np.array([plain.corners(shape) for shape in shapes])
    return suppress_by_method(
        np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1),
        np.array(scores, np.float32),
        np.array(classes, np.int32),
        options=NmsOptions(method=method, iou=LIMIT, class_agnostic=class_agnostic),
        corners=corners,
        least=least,
    )


def overlap(a: plain.Turned, b: plain.Turned) -> float:
    shapes = gaussians(np.array([plain.corners(a), plain.corners(b)]))
    return float(oriented_overlap(shapes[0], shapes[1:])[0])


def test_crossed_bars_whose_upright_boxes_are_equal_both_stay() -> None:
    crossed: Rows = [((50, 50, 60, 4, math.pi / 4), 0.9, 0), ((50, 50, 60, 4, -math.pi / 4), 0.8, 0)]

    assert thin(crossed).rows.tolist() == [0, 1]


def test_nearly_the_same_oriented_box_is_dropped() -> None:
    assert thin([((50, 50, 60, 20, 0.5), 0.9, 0), ((51, 50, 60, 20, 0.52), 0.8, 0)]).rows.tolist() == [0]


def test_a_box_overlaps_itself_wholly_whichever_corner_comes_first() -> None:
    corners = plain.corners((50, 40, 30, 10, 0.3))
    shapes = gaussians(np.array([np.roll(corners, turn, axis=0) for turn in range(4)]))

    assert oriented_overlap(shapes[0], shapes) == pytest.approx(np.ones(4), abs=1e-3)


def test_boxes_without_an_area_are_no_trouble() -> None:
    flat: plain.Turned = (5, 5, 0, 0, 0)

    assert np.isfinite([overlap(flat, flat), overlap(flat, (5, 5, 10, 10, 0)), overlap(flat, (90, 5, 0, 3, 0))]).all()


def test_the_mean_of_two_rectangles_lies_between_them_whichever_corner_comes_first() -> None:
    first, second = plain.corners((10, 10, 8, 4, 0.2)), plain.corners((12, 10, 10, 4, 0.4))

    mean = mean_rectangle(np.array([first, np.roll(second, 1, axis=0)], np.float64), weights=np.ones(2))

    assert mean == pytest.approx(plain.corners((11, 10, 9, 4, 0.3)).astype(np.float64), abs=1e-4)


def test_corners_listed_the_other_way_round_keep_their_order() -> None:
    backwards = plain.corners((10, 10, 8, 4, 0.2))[::-1].astype(np.float64)

    assert mean_rectangle(np.array([backwards]), weights=np.ones(1)) == pytest.approx(backwards, abs=1e-5)


def test_fusion_gives_a_rectangle_and_the_box_around_it() -> None:
    kept = thin([((50, 50, 60, 20, 0.0), 0.9, 0), ((50, 54, 60, 20, 0.0), 0.3, 0)], method="fusion")

    assert kept.corners is not None
    assert kept.xyxy is not None
    assert kept.corners.round(3).tolist() == [[[20, 41], [80, 41], [80, 61], [20, 61]]]
    assert kept.xyxy.round(3).tolist() == [[20, 41, 80, 61]]


def test_soft_suppression_looks_at_the_oriented_boxes() -> None:
    crossed: Rows = [((50, 50, 60, 4, math.pi / 4), 0.9, 0), ((50, 50, 60, 4, -math.pi / 4), 0.8, 0)]
    shared = plain.probiou(crossed[0][0], crossed[1][0])

    kept = thin(crossed, method="soft")

    assert kept.confidence == pytest.approx([0.9, 0.8 * math.exp(-(shared**2) / 0.5)], abs=1e-3)


@plain.FEWER
@given(plain.turned_rows(), plain.turned_rows())
def test_the_overlap_is_that_of_the_paper(
    a: tuple[plain.Turned, float, int], b: tuple[plain.Turned, float, int]
) -> None:
    assert overlap(a[0], b[0]) == pytest.approx(plain.probiou(a[0], b[0]), abs=2e-3)


@plain.FEWER
@given(st.lists(plain.turned_rows(), min_size=2, max_size=20), st.booleans())
def test_it_keeps_what_the_plain_loop_keeps(found: Rows, class_agnostic: bool) -> None:
    expected = plain.hard(
        [score for _, score, _ in found],
        [class_id for _, _, class_id in found],
        iou=lambda a, b: overlap(found[a][0], found[b][0]),
        limit=LIMIT,
        class_agnostic=class_agnostic,
    )

    assert thin(found, class_agnostic=class_agnostic).rows.tolist() == expected
