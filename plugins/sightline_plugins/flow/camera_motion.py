"""How the camera moved from one frame to the next: sparse optical flow of corners, and the affine map that most follow.

The map turns, shifts and scales, found with RANSAC. As in BoT-SORT (Aharon et al., 2022, section 3.2.1), whose settings
these are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma
from sightline_plugins.flow.corners import CornerOptions, find_corners, follow_corners
from sightline_plugins.flow.luma import LumaReducer, SizeWh

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


def reduced_size(size_wh: SizeWh, *, downscale: int) -> SizeWh:
    """Return the size at which frames of that size are looked at."""
    width, height = (max(1, side // downscale) for side in size_wh)
    return width, height


class CameraMotion:
    """Follows corners of one stream; it needs every frame. `since` is the motion since `restart`."""

    def __init__(self, *, downscale: int = DOWNSCALE, options: CornerOptions = CORNERS) -> None:
        self.since = STILL
        self._options = options
        self._downscale = downscale
        self._reducer = LumaReducer()
        self._image: Luma | None = None
        self._corners: npt.NDArray[np.float32] | None = None

    def look(self, image: Luma) -> None:
        """Add the motion from the frame before to this one (H, W), which is reduced by `downscale`."""
        height, width = image.shape
        small_wh = reduced_size((width, height), downscale=self._downscale)
        self.look_reduced(self._reducer.reduced(image, small_wh), downscale=self._downscale)

    def look_reduced(self, small: Luma, *, downscale: int) -> None:
        """Add the motion from the frame before to this one, which has been reduced by `downscale` to (h, w) already.
        The image is kept, and nobody writes to it any more.
        """
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
