"""Whether the camera moves: where it stands, corners of what it sees stay where they are.

Objects, shadows and reflections move their own corners only, so it is not asked which motion is shared (which large
objects can win), but whether anything stands still. A corner is a place whose content changes whichever way it is
shifted: the smaller eigenvalue of its structure tensor (Shi and Tomasi, "Good Features to Track", CVPR 1994) is at
most the mean square by which a shift of one cell changes it. So it has moved when it has changed by a good part of
that, and nothing needs to be followed.

A road without texture may have all of its corners on the vehicles that pass. So corners that have stood for a while
are asked alone where there are some: a vehicle never stands on them for long, and covers a few of them at a time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma

_EVERY_SECONDS = 0.4
_AROUND = 3
"""Side of the square of cells that makes a corner."""
_LEAST_SLOPE = 4.0
"""Grey levels a cell: flatter corners are lost in noise, and so are those below so many times the noise."""
_NOISE_SLOPES = 3.0
_MOST_NOISE = 3.0
"""Grey levels of a cell; where the quietest quarter of the image differs by more, that is not noise."""
_MOVED = 0.5
"""Part of a cell that a corner of a still scene may move: noise, and masts in the wind."""
_FEWEST = 8
"""Corners that are asked at least; with fewer, the camera counts as still."""
_STANDING = 0.06
"""Share of all corners that stands still at least, where the camera does."""
_ESTABLISHED_LOOKS, _MOST_LOOKS = 3, 5
"""A corner is established when it stood on so many more looks than it moved; more than five do not count."""
_ESTABLISHED_STANDING = 0.04
"""Share of established corners that stands still at least, where the camera does."""
_SOBEL = 3
_EIGENVALUE = (2 ** (_SOBEL - 1) * _AROUND * 255 / 8) ** 2 / _AROUND**2
"""From OpenCV's eigenvalues of 8-bit images to squares of grey levels a cell: its scale, the gain of the Sobel filter,
and a mean instead of a sum."""

Values = npt.NDArray[np.float32]


class CameraWatch:
    """Looks at the cells of one stream's images each 0.4 seconds, all of one size. One thread uses it."""

    def __init__(self) -> None:
        self.moves = False
        """Whether the camera moved between the last two images that were looked at."""
        self._cells: Luma | None = None
        self._corners: Values = np.zeros((0, 0), np.float32)
        self._stood: npt.NDArray[np.int8] = np.zeros((0, 0), np.int8)
        self._waited = 0.0

    def look(self, cells: Luma, *, seconds: float) -> None:
        """Take the cells (h, w) of the next image, which nobody changes; `seconds` have passed since the one before."""
        from sightline_plugins.opencv import cv2

        self._waited += seconds
        if self._cells is None:
            self._stood = np.zeros(cells.shape, np.int8)
        elif self._waited < _EVERY_SECONDS:
            return
        else:
            self._compare(self._cells, cells)
        self._waited = 0.0
        self._cells = cells
        self._corners = np.asarray(cv2.cornerMinEigenVal(cells, _AROUND, ksize=_SOBEL), np.float32) * _EIGENVALUE

    def _compare(self, before: Luma, cells: Luma) -> None:
        from sightline_plugins.opencv import cv2

        change = np.asarray(cv2.subtract(cells, before, dtype=cv2.CV_32F), np.float32)
        shared = change[::4, ::4]
        change -= np.partition(shared, shared.size // 2, axis=None)[shared.size // 2]
        few = np.abs(change[::2, ::2])
        noise = min(_MOST_NOISE, float(np.partition(few, few.size // 4, axis=None)[few.size // 4]))
        square = cv2.boxFilter(cv2.multiply(change, change), -1, (_AROUND, _AROUND))
        corners = self._corners > max(_LEAST_SLOPE, _NOISE_SLOPES * noise) ** 2
        standing = corners & (square < _MOVED**2 * self._corners)
        established = corners & (self._stood >= _ESTABLISHED_LOOKS)
        asked, least = established, _ESTABLISHED_STANDING
        if np.count_nonzero(established) < _FEWEST:
            asked, least = corners, _STANDING
        count = np.count_nonzero(asked)
        self.moves = bool(count >= _FEWEST and np.count_nonzero(standing & asked) < least * count)
        self._stood += standing
        self._stood -= corners & ~standing
        np.clip(self._stood, 0, _MOST_LOOKS, out=self._stood)
