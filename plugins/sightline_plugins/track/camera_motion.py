"""How the camera moved from one frame to the next: sparse optical flow of corners, and the affine map that most follow.

Corners are those of Shi and Tomasi ("Good Features to Track", CVPR 1994), followed by the pyramid of Lucas and Kanade
(Bouguet, 2000); the map turns, shifts and scales, found with RANSAC. As in BoT-SORT (Aharon et al., 2022, section
3.2.1), whose settings these are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma

Points = npt.NDArray[np.floating]
Affine = npt.NDArray[np.float64]
"""(2, 3): x' = A[:, :2] @ x + A[:, 2], in pixels of the source image."""

DOWNSCALE = 2
MOST_CORNERS = 1000
QUALITY, DISTANCE, BLOCK = 0.01, 1, 3
FEWEST = 5
"""Corners that have to be followed; with fewer the camera counts as still."""
LEAST_AGREEING = 0.4
"""Share of them that has to agree with the motion: after a cut or in the dark, corners are followed to anywhere."""
STILL: Affine = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


class CameraMotion:
    """Follows corners of one stream; it needs every frame. `since` is the motion since `restart`."""

    def __init__(self) -> None:
        self.since = STILL
        self._image: Luma | None = None
        self._corners: npt.NDArray[np.float32] | None = None

    def look(self, image: Luma) -> None:
        """Add the motion from the frame before to this one (H, W)."""
        from sightline_plugins.opencv import cv2

        height, width = image.shape
        size_wh = max(1, width // DOWNSCALE), max(1, height // DOWNSCALE)
        small: Luma = np.asarray(cv2.resize(image, size_wh, interpolation=cv2.INTER_LINEAR), np.uint8)
        before, corners = self._image, self._corners
        found = cv2.goodFeaturesToTrack(small, MOST_CORNERS, QUALITY, DISTANCE, blockSize=BLOCK)
        self._image, self._corners = small, None if found is None else found.astype(np.float32)
        if before is not None and corners is not None and before.shape == small.shape:
            now = _motion(before, small, corners)
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


def _motion(before: Luma, now: Luma, corners: npt.NDArray[np.float32]) -> Affine:
    from sightline_plugins.opencv import cv2

    there = np.empty_like(corners)
    followed, status, _ = cv2.calcOpticalFlowPyrLK(before, now, corners, there)
    kept = status[:, 0] == 1
    if int(kept.sum()) < FEWEST:
        return STILL
    motion, agrees = cv2.estimateAffinePartial2D(corners[kept], followed[kept], method=cv2.RANSAC)
    if motion is None or not np.isfinite(motion).all() or agrees.mean() < LEAST_AGREEING:
        return STILL
    whole: Affine = motion.astype(np.float64)
    whole[:, 2] *= DOWNSCALE
    return whole
