"""Plane geometry of rules: anchors of boxes, sides of lines, insides of polygons. Arrays in, arrays out.

All in float64 and pixels of the image, y downwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def anchor_points(xyxy: npt.NDArray[np.floating[Any]], *, fractions: Floats) -> Floats:
    """Return points of boxes (N, 4) at fractions (K, 2) of their width and height -> (N, K, 2)."""
    corners = xyxy.astype(np.float64)
    low, high = corners[:, None, :2], corners[:, None, 2:]
    points: Floats = low + (high - low) * fractions
    return points


def line_sides(points: Floats, *, segments: Floats) -> Floats:
    """Return cross product (to - from) x (point - from) of points (N, L, 2) and segments (L, 2, 2) -> (N, L).

    Positive on the right-hand side of somebody who walks along the segment as it is seen on the screen, zero on the
    line, and in size the distance from the line times the length of the segment.
    """
    start = segments[:, 0]
    along = segments[:, 1] - start
    offset = points - start
    cross: Floats = along[:, 0] * offset[..., 1] - along[:, 1] * offset[..., 0]
    return cross


def lie_on_a_line(corners: Floats) -> bool:
    """Return whether the corners (V, 2) of a polygon lie on one line, within a billionth of its length."""
    offset = corners - corners[0]
    along = offset[np.argmax((offset * offset).sum(axis=1))]
    across = np.abs(along[0] * offset[:, 1] - along[1] * offset[:, 0])
    return bool(across.max() <= 1e-9 * (along @ along))


def first_meeting_edges(corners: Floats) -> tuple[int, int] | None:
    """Return the numbers of the first two edges of a polygon (V, 2) that meet and are no neighbours, or None.

    Edge i goes from corner i to the next. Neighbours that fold back on each other are such a pair as well. Edges meet
    when they have a point in common: by the signs of four triangles (Cormen et al., Introduction to Algorithms, 33.1).
    """
    count, following = len(corners), np.roll(corners, -1, axis=0)
    first, second = np.triu_indices(count, 1)
    a, b, c, d = corners[first], following[first], corners[second], following[second]
    abc, abd, cda, cdb = _turn(a, b, c), _turn(a, b, d), _turn(c, d, a), _turn(c, d, b)
    meets = (abc * abd < 0) & (cda * cdb < 0)
    for turn, start, end, point in ((abc, a, b, c), (abd, a, b, d), (cda, c, d, a), (cdb, c, d, b)):
        low, high = np.minimum(start, end), np.maximum(start, end)
        meets |= (turn == 0) & ((low <= point) & (point <= high)).all(axis=1)
    comes_next, comes_last = second == first + 1, (first == 0) & (second == count - 1)
    back = ((b - a) * (d - c)).sum(axis=1) < 0
    meets &= ~(comes_next | comes_last) | ((abd == 0) & (abc == 0) & back)
    found = np.flatnonzero(meets)
    return (int(first[found[0]]), int(second[found[0]])) if len(found) else None


def _turn(start: Floats, end: Floats, point: Floats) -> Floats:
    """Return the sign of the turn at `end` on the way from `start` to `point`, of (N, 2) each -> (N,)."""
    along, offset = end - start, point - start
    turn: Floats = np.sign(along[:, 0] * offset[:, 1] - along[:, 1] * offset[:, 0])
    return turn


def polygon_edges(polygons: Sequence[Floats]) -> Floats:
    """Return the edges of polygons (V, 2), each as x1, y1, x2, y2, in one array (Z, V, 4).

    Where corners lack, the last one is repeated, which adds nothing.
    """
    most = max(len(polygon) for polygon in polygons)
    corners = np.stack([np.concatenate([polygon, polygon[-1:].repeat(most - len(polygon), 0)]) for polygon in polygons])
    return np.concatenate([corners, np.roll(corners, -1, axis=1)], axis=2)


def inside_polygons(points: Floats, *, edges: Floats) -> Mask:
    """Return whether points (N, Z, 2) lie in polygons (Z, V, 4), each in its own, by the even-odd rule -> (N, Z)."""
    x, y = points[..., 0, None], points[..., 1, None]
    x1, y1, x2, y2 = edges[..., 0], edges[..., 1], edges[..., 2], edges[..., 3]
    straddles = (y1 > y) != (y2 > y)
    height = np.where(y1 == y2, 1.0, y2 - y1)
    crossed = straddles & (x < (x2 - x1) * (y - y1) / height + x1)
    inside: Mask = np.logical_xor.reduce(crossed, axis=-1)
    return inside
