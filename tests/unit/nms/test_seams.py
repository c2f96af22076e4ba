"""Merging of parts, with a detector that sees everything: it gives what of each thing lies in the part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightline_plugins.infer.targets import tile_regions
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.nms.seams import Merged, merge_parts
from tests.unit.nms import plain

Box = tuple[float, float, float, float]
SIZE_WH = (900, 700)
TWO_HALVES: list[Box] = [(0, 0, 500, 700), (400, 0, 900, 700)]
CELL = 150
SMALLEST = 3


@st.composite
def things(draw: st.DrawFn) -> list[Box]:
    """Boxes that do not overlap, each in a cell of its own."""
    cells = draw(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12))
    boxes: list[Box] = []
    for column, row in sorted(cells):
        left, top = draw(st.integers(0, 100)), draw(st.integers(0, 100))
        right, bottom = draw(st.integers(left + 20, CELL)), draw(st.integers(top + 20, CELL))
        x, y = column * CELL, row * CELL
        boxes.append((x + left, y + top, x + right, y + bottom))
    return boxes


def merge(
    found: Sequence[tuple[int, Box]],
    regions: Sequence[Box],
    *,
    confidence: Sequence[float] | None = None,
    classes: Sequence[int] | None = None,
    corners: Sequence[plain.Turned] | None = None,
    **options: object,
) -> Merged:
    return merge_parts(
        np.array([box for _, box in found], np.float32).reshape(-1, 4),
        np.array(confidence or [0.5] * len(found), np.float32),
        np.array(classes or [0] * len(found), np.int32),
        part=np.array([part for part, _ in found], np.intp),
        regions=np.array(regions, np.float64),
        size_wh=SIZE_WH,
        options=NmsOptions(**options),  # type: ignore[arg-type]
        corners=None if corners is None else np.array([plain.corners(turned) for turned in corners]),
    )


def seen(things: Sequence[Box], regions: Sequence[Box]) -> list[tuple[int, Box]]:
    """What of each thing lies in each region, unless next to nothing does."""
    found = []
    for part, region in enumerate(regions):
        for box in things:
            left, top = max(box[0], region[0]), max(box[1], region[1])
            right, bottom = min(box[2], region[2]), min(box[3], region[3])
            if right - left >= SMALLEST and bottom - top >= SMALLEST:
                found.append((part, (left, top, right, bottom)))
    return found


def boxes(merged: Merged) -> list[list[float]]:
    rows: list[list[float]] = merged.xyxy.tolist()
    return rows


@plain.FEWER
@given(things(), st.booleans(), st.sampled_from([(300, 250), (170, 700), (900, 160)]), st.sampled_from([0.0, 0.2, 0.5]))
def test_each_thing_is_found_once_and_whole(
    wanted: list[Box], whole: bool, tile_wh: tuple[int, int], overlap: float
) -> None:
    regions = tile_regions(SIZE_WH, tile_wh=tile_wh, overlap=overlap, whole=whole)

    merged = merge(seen(wanted, regions), regions)

    assert sorted(boxes(merged)) == sorted(list(map(float, box)) for box in wanted)


def test_a_piece_is_dropped_where_another_part_has_the_whole() -> None:
    merged = merge([(0, (450, 100, 500, 200)), (1, (450, 100, 560, 200))], TWO_HALVES, confidence=[0.9, 0.4])

    assert boxes(merged) == [[450, 100, 560, 200]]


def test_the_pieces_of_what_no_part_has_whole_become_one_with_the_confidence_of_the_best() -> None:
    merged = merge([(0, (300, 100, 500, 200)), (1, (400, 104, 620, 200))], TWO_HALVES, confidence=[0.4, 0.9])

    assert (boxes(merged), merged.rows.tolist()) == ([[300, 100, 620, 200]], [1])
    assert [sorted(rows) for rows in merged.things] == [[0, 1]]


def test_pieces_that_lie_at_another_height_are_two_things() -> None:
    merged = merge([(0, (300, 100, 500, 200)), (1, (400, 200, 620, 300))], TWO_HALVES)

    assert len(merged.rows) == 2


def test_a_small_thing_in_front_of_a_cut_one_stays() -> None:
    found = [(0, (100, 100, 500, 400)), (0, (440, 300, 480, 390)), (1, (400, 100, 700, 400)), (1, (440, 300, 480, 390))]

    assert sorted(boxes(merge(found, TWO_HALVES))) == [[100, 100, 700, 400], [440, 300, 480, 390]]


def test_a_piece_of_another_class_that_looks_like_the_whole_is_dropped() -> None:
    found = [(0, (450, 100, 500, 200)), (1, (450, 100, 560, 200))]

    assert boxes(merge(found, TWO_HALVES, classes=[1, 0])) == [[450, 100, 560, 200]]


def test_a_piece_that_another_part_sees_whole_and_does_not_find_is_nothing() -> None:
    assert boxes(merge([(0, (450, 100, 500, 200))], TWO_HALVES)) == []


def test_a_piece_that_only_a_much_smaller_image_of_it_shows_stays() -> None:
    regions = [(0.0, 0.0, 900.0, 700.0), (0.0, 0.0, 300.0, 300.0)]

    assert boxes(merge([(1, (270, 100, 300, 200))], regions)) == [[270, 100, 300, 200]]


def test_what_ends_at_the_edge_of_a_region_that_stands_alone_stays() -> None:
    assert boxes(merge([(0, (50, 50, 100, 100))], [(0, 0, 100, 100), (500, 0, 900, 700)])) == [[50, 50, 100, 100]]


def test_complete_boxes_of_two_parts_are_one_thing() -> None:
    merged = merge([(0, (420, 100, 470, 200)), (1, (421, 100, 471, 201))], TWO_HALVES, confidence=[0.5, 0.6])

    assert boxes(merged) == [[421, 100, 471, 201]]


def test_two_things_that_a_part_tells_apart_stay_two_when_both_parts_see_them() -> None:
    near: list[Box] = [(420, 100, 480, 200), (430, 100, 485, 200)]
    found = [(0, near[0]), (0, near[1]), (1, near[0]), (1, near[1])]

    assert sorted(boxes(merge(found, TWO_HALVES, iou=0.8))) == sorted(list(map(float, box)) for box in near)


def test_things_of_different_classes_stay_unless_suppression_looks_at_no_class() -> None:
    found = [(0, (420.0, 100.0, 470.0, 200.0)), (1, (421.0, 100.0, 471.0, 201.0))]

    kept = [
        len(merge(found, TWO_HALVES, classes=[0, 1], class_agnostic=class_agnostic).rows)
        for class_agnostic in (False, True)
    ]

    assert kept == [2, 1]


def test_of_equal_confidences_the_first_goes_first() -> None:
    found = [(0, (420.0, 100.0, 470.0, 200.0)), (1, (421.0, 100.0, 471.0, 201.0))]

    assert merge(found, TWO_HALVES).rows.tolist() == [0]


def test_the_pieces_of_an_oriented_box_become_the_rectangle_around_both() -> None:
    found = [(0, (300.0, 100.0, 500.0, 200.0)), (1, (400.0, 100.0, 620.0, 200.0))]
    turned: list[plain.Turned] = [(400, 150, 200, 100, 0), (510, 150, 220, 100, 0)]

    merged = merge(found, TWO_HALVES, corners=turned)

    assert merged.corners is not None
    corners = sorted(map(tuple, merged.corners[0].round(2).tolist()))
    assert corners == [(300, 100), (300, 200), (620, 100), (620, 200)]


def test_oriented_boxes_that_cross_are_two_things() -> None:
    turned: list[plain.Turned] = [(450, 350, 60, 4, 0.8), (450, 350, 60, 4, -0.8)]
    found = [(0, (428.0, 328.0, 472.0, 372.0)), (1, (428.0, 328.0, 472.0, 372.0))]

    assert len(merge(found, TWO_HALVES, corners=turned).rows) == 2


def test_no_finds_are_no_trouble() -> None:
    assert len(merge([], TWO_HALVES).rows) == 0
