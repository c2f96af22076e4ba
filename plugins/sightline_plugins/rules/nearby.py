"""Which places are covered by boxes of a frame or taken by new ones, and which points have a box near."""

from __future__ import annotations

import numpy as np

from sightline_plugins.native import DOUBLE, FLOAT, POINTER, SIZE, function, pointer
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.track_table import Indices

_SHORT, _SHORT_PAIRS = 1_000, 40_000
"""So many places, or pairs that are looked at one by one, take about 50 microseconds: for more the GIL is released."""
_SLACK = 1.0
"""Boxes are taken for wider by so many pixels, so that rounding keeps none from the exact test."""
_COLUMNS = 128
_mark_covered = {
    is_long: function("mark_covered", *[SIZE] * 3, *[POINTER] * 3, *[DOUBLE] * 3, POINTER, long=is_long)
    for is_long in (False, True)
}
_mark_near_boxes = {
    is_long: function("mark_near_boxes", SIZE, SIZE, *[POINTER] * 4, long=is_long) for is_long in (False, True)
}
_take_places = {
    is_long: function("take_places", SIZE, SIZE, *[POINTER] * 4, FLOAT, POINTER, POINTER, long=is_long)
    for is_long in (False, True)
}


def are_covered(places: Floats, boxes: Floats, *, share: float) -> Mask:
    """Return which places (N, 4) have a box, of boxes (M, 4), that covers that share of them (N,)."""
    covered = np.zeros(len(places), np.bool_)
    if len(places) and len(boxes):
        ordered, own = boxes[boxes[:, 0].argsort()], np.ascontiguousarray(places)
        left = ordered[:, 0]
        widest = (ordered[:, 2] - left).max() + _SLACK
        column = (left[-1] - left[0] + widest) / _COLUMNS
        first = left.searchsorted(left[0] + column * np.arange(_COLUMNS) - widest)
        _mark_covered[len(own) > _SHORT](
            len(own),
            len(ordered),
            _COLUMNS,
            pointer(own),
            pointer(ordered),
            pointer(first),
            left[0],
            1 / column,
            share,
            pointer(covered),
        )
    return covered


def places_taken(
    area: Indices, boxes: Floats, *, place_area: Indices, places: Floats, is_free: Mask, least: float
) -> Indices:
    """Return which of places (R, 4), of areas (R,), each of new boxes (N, 4) takes in its area (N,), -1 for none.

    It is the free one (R,) that overlaps the box most, by `least` intersection over union. The first box has the
    choice, and what it takes is not free for the others.
    """
    taken = np.full(len(boxes), -1, np.intp)
    if len(boxes) and len(places):
        free = is_free.copy()
        columns = [
            np.ascontiguousarray(column, dtype)
            for column, dtype in ((area, np.int64), (boxes, np.float64), (place_area, np.int64), (places, np.float64))
        ]
        _take_places[len(boxes) * len(places) > _SHORT_PAIRS](
            len(boxes), len(places), *map(pointer, columns), least, pointer(free), pointer(taken)
        )
    return taken


def are_near(points: Floats, boxes: Floats, *, reach: Floats) -> Mask:
    """Return which points (N, 2) are not farther from the feet of any of boxes (M, 4), the middle of its lower edge,
    than `reach` (N,) times its height (N,).
    """
    near = np.zeros(len(points), np.bool_)
    if len(points) and len(boxes):
        own, others, most = (np.ascontiguousarray(array, np.float64) for array in (points, boxes, reach))
        _mark_near_boxes[len(own) * len(others) > _SHORT_PAIRS](
            len(own), len(others), pointer(own), pointer(most), pointer(others), pointer(near)
        )
    return near
