"""How the camera moved from one frame to the next: sparse optical flow of corners, and the affine map that most follow.

The map turns, shifts and scales, found with RANSAC. As in BoT-SORT (Aharon et al., 2022, section 3.2.1), whose settings
these are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma
from sightline_plugins.flow.corners import CornerOptions, find_corners, follow_corners, shrink

Points = npt.NDArray[np.floating]
Affine = npt.NDArray[np.float64]
"""(2, 3): x' = A[:, :2] @ x + A[:, 2], in pixels of the source image."""

DOWNSCALE = 2
CORNERS = CornerOptions(most=1000, quality=0.01, distance=1, block=3)
FEWEST = 5
"""Corners that have to be followed; with fewer the camera counts as still."""
LEAST_AGREEING = 0.4
"""Share of them that has to agree with the motion: after a cut or in the dark, corners are followed to anywhere."""
STILL: Affine = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


class CameraMotion:
    """Follows corners of one stream; it needs every frame. `since` is the motion since `restart`.

    Images are reduced by `downscale`, or by more, until they are no wider than `widest` pixels.
    """

    def __init__(
        self, *, downscale: int = DOWNSCALE, widest: int | None = None, options: CornerOptions = CORNERS
    ) -> None:
        self.since = STILL
        self._options = options
        self._downscale, self._widest = downscale, widest
        self._image: Luma | None = None
        self._corners: npt.NDArray[np.float32] | None = None

    def look(self, image: Luma) -> None:
        """Add the motion from the frame before to this one (H, W)."""
        height, width = image.shape
        downscale = max(self._downscale, 1 if self._widest is None else -(-width // self._widest))
        small = shrink(image, (max(1, width // downscale), max(1, height // downscale)))
        before, corners = self._image, self._corners
        self._image, self._corners = small, find_corners(small, self._options)
        if before is not None and corners is not None and before.shape == small.shape:
            now = _motion(before, small, corners, downscale)
            self.since = np.column_stack([now[:, :2] @ self.since[:, :2], _points(self.since[None, :, 2], now)[0]])

    def restart(self) -> None:
        """Forget the motion so far."""
        self.since = STILL

    def follow(self, centre: Points, velocity: Points) -> tuple[Points, Points]:
        """Return where centres (N, 2) are after the motion, and their velocities (N, 2) in this frame's axes."""
        return _points(centre, self.since), (velocity @ self.since[:, :2].T).astype(velocity.dtype)


def _points(points: Points, motion: Affine) -> Points:
    there: Points = (points @ motion[:, :2].T + motion[:, 2]).astype(points.dtype)
    return there


def _motion(before: Luma, now: Luma, corners: npt.NDArray[np.float32], downscale: int) -> Affine:
    from sightline_plugins.opencv import cv2

    followed, there = follow_corners(before, now, corners)
    if len(followed) < FEWEST:
        return STILL
    motion, agrees = cv2.estimateAffinePartial2D(followed, there, method=cv2.RANSAC)
    if motion is None or not np.isfinite(motion).all() or agrees.mean() < LEAST_AGREEING:
        return STILL
    whole: Affine = motion.astype(np.float64)
    whole[:, 2] *= downscale
    return whole
