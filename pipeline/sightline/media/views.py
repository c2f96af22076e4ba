"""Views: where the parts of a frame lie that a step computed from the image of the camera, and the way back there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes

Points = npt.NDArray[np.floating[Any]]
Written = Literal["box", "polygon"]
_STEPS = 4
"""Pieces of each edge of a polygon; in an image of a fisheye lens, edges are curves."""
_FINE_STEPS = 32
"""Pieces of each edge when a box is sought."""


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """The views that a frame is composed of, such as those that `dewarp` makes of a fisheye image.

    names      V names
    xyxy       int32 (V, 4)  where each lies in the frame, in pixels
    written    how records show objects in pixels of the camera's image: as boxes, as polygons, or not at all
    locate     the way back: (view (N,), points (N, K, 2) in pixels of the frame) -> (N, K, 2) in pixels of the camera's
               image, NaN where the camera sees nothing
    """

    names: tuple[str, ...]
    xyxy: npt.NDArray[np.int32]
    locate: Callable[[npt.NDArray[np.intp], Points], Points]
    written: Written | None = None

    def of(self, xyxy: Boxes) -> npt.NDArray[np.intp]:
        """Return the number of the view (N,) in which the centre of each box (N, 4) lies; -1 for none."""
        centre = (xyxy[:, None, :2] + xyxy[:, None, 2:]) / 2
        at_least, below = centre >= self.xyxy[:, :2], centre < self.xyxy[:, 2:]
        inside = np.asarray((at_least & below).all(axis=2), np.bool_)
        return np.where(inside.any(axis=1), inside.argmax(axis=1), -1)

    def source_boxes(self, xyxy: Boxes) -> Boxes:
        """Return the boxes (N, 4) in pixels of the camera's image that hold these boxes (N, 4) of the frame.

        NaN for a box that lies in no view, or of which the camera sees nothing.
        """
        outlines = self._outlines(xyxy, _FINE_STEPS)
        with np.errstate(invalid="ignore"):
            return np.concatenate([np.fmin.reduce(outlines, axis=1), np.fmax.reduce(outlines, axis=1)], axis=1).astype(
                np.float32
            )

    def source_polygons(self, xyxy: Boxes) -> npt.NDArray[np.float32]:
        """Return the outlines (N, 16, 2) of boxes (N, 4) of the frame in pixels of the camera's image: from the left
        top corner along the upper edge, four pieces an edge. NaN where the camera sees nothing.
        """
        return self._outlines(xyxy, _STEPS).astype(np.float32)

    def _outlines(self, xyxy: Boxes, steps: int) -> Points:
        """The outlines (N, 4 * steps, 2) of boxes, each cut to its view."""
        view = self.of(xyxy)
        found = np.full((len(xyxy), 4 * steps, 2), np.nan)
        rows = np.flatnonzero(view >= 0)
        if len(rows):
            own = self.xyxy[view[rows]]
            low, high = (np.clip(xyxy[rows, part], own[:, :2], own[:, 2:]) for part in (slice(0, 2), slice(2, 4)))
            points = low[:, None] + _outline(steps) * (high - low)[:, None]
            found[rows] = self.locate(view[rows], points)
        return found


def _outline(steps: int) -> Points:
    """Points on the outline of the unit square, (4 * steps, 2), clockwise on the screen."""
    along, zero = np.arange(steps) / steps, np.zeros(steps)
    x = np.concatenate([along, zero + 1, 1 - along, zero])
    y = np.concatenate([zero, along, zero + 1, 1 - along])
    return np.stack([x, y], axis=1)
