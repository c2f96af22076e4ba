"""Polygons in pixels of a stream's frames, as the compiled part takes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightline_plugins.native import POINTER, SIZE, function, pointer
from sightline_plugins.rules.geometry import Floats, Mask

_SHORT = 5_000
"""So many pairs of a box and a polygon are judged in about 50 microseconds: for more the GIL is released."""
_SLACK = 1e-3
"""Bounds are wider by so many pixels, so that rounding keeps nothing from the exact test."""
_inside_each = {is_long: function("inside_each", SIZE, SIZE, *[POINTER] * 6, long=is_long) for is_long in (False, True)}


class Polygons:
    """P polygons, each with the point of a box that has to be in it.

    corners    (all corners, 2)  in pixels, those of one polygon after those of another
    first      int64 (P + 1,)    the place of the first corner of each
    bounds     (4, P)            least x and y, most x and y of what may be near
    fractions  (2, P)            where the anchor is in a box, across and down
    """

    def __init__(self, corners: Sequence[Floats], *, fractions: Floats, reach: Floats | float = 0.0) -> None:
        """Take the corners (V, 2) of each polygon and its anchor's fractions (P, 2); near is what is inside, or not
        farther outside than `reach` (P,) pixels.
        """
        self.corners: Floats = np.concatenate(corners)
        self.first = np.cumsum([0, *(len(own) for own in corners)], dtype=np.int64)
        low, high = (np.array([bound(own, axis=0) for own in corners]) for bound in (np.min, np.max))
        slack = np.broadcast_to(reach, len(corners))[:, None] + _SLACK
        self.bounds: Floats = np.ascontiguousarray(np.concatenate([low - slack, high + slack], axis=1).T)
        self.fractions: Floats = np.ascontiguousarray(fractions.T)

    def __len__(self) -> int:
        return len(self.first) - 1

    def inside(self, xyxy: npt.NDArray[np.float32]) -> Mask:
        """Return which boxes (N, 4) in pixels have their anchor in which polygons (N, P): as `inside_polygons`."""
        boxes = np.ascontiguousarray(xyxy, np.float32)
        inside = np.empty((len(boxes), len(self)), np.bool_)
        if len(boxes):
            _inside_each[inside.size > _SHORT](
                *inside.shape,
                pointer(boxes),
                pointer(self.fractions),
                pointer(self.corners),
                pointer(self.first),
                pointer(self.bounds),
                pointer(inside),
            )
        return inside
