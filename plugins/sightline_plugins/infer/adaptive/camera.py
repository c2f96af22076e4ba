"""Whether the camera moves: a camera that stands has corners in its image that stay where they are.

Objects, shadows and reflections move their own corners only, so it is not asked which motion is shared (which large
objects can win), but whether anything stands still.
"""

from __future__ import annotations

import numpy as np

from sightline.graph.tracker import Luma
from sightline_plugins.flow.corners import CornerOptions, Points, find_corners, follow_corners
from sightline_plugins.flow.luma import LumaReducer

_WIDEST = 320
"""Longer side of the images in which corners are followed."""
_CORNERS = CornerOptions(most=60, quality=0.005, distance=16)
"""Weak corners too, spread over the image: strong ones alone may all be on one object."""
_EVERY_SECONDS = 0.4
_STILL = 0.005 * _WIDEST
"""Pixels of such an image that a corner of a still scene may move: noise, and masts in the wind."""
_FEWEST = 8
"""Corners that have to be followed; with fewer, the camera counts as still."""
_STANDING = 0.06
"""Share of the corners that stand still at least, where the camera does."""


class CameraWatch:
    """Looks at an image of one stream each 0.4 seconds. One thread uses it."""

    def __init__(self) -> None:
        self.moves = False
        """Whether the camera moved between the last two images that were looked at."""
        self._reducer = LumaReducer()
        self._image: Luma | None = None
        self._corners: Points = np.zeros((0, 2), np.float32)
        self._waited = 0.0

    def look(self, luma: Luma, *, seconds: float) -> None:
        """Take the next image (H, W); `seconds` have passed since the one before."""
        self._waited += seconds
        if self._image is not None and self._waited < _EVERY_SECONDS:
            return
        self._waited = 0.0
        scale = max(1.0, max(luma.shape) / _WIDEST)
        size_wh = max(1, round(luma.shape[1] / scale)), max(1, round(luma.shape[0] / scale))
        image = self._reducer.reduced(luma, size_wh)
        if self._image is not None:
            followed, there = follow_corners(self._image, image, self._corners)
            standing = np.hypot(*(there - followed).T) < _STILL
            self.moves = len(standing) >= _FEWEST and float(standing.mean()) < _STANDING
        self._image, self._corners = image, find_corners(image, _CORNERS)
