"""Corners of an image, and where they are in the next one: sparse optical flow.

Corners are those of Shi and Tomasi ("Good Features to Track", CVPR 1994), followed by the pyramid of Lucas and Kanade
(Bouguet, 2000). Forward-backward errors are those of Kalal et al. ("Forward-Backward Error", ICPR 2010).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma

Points = npt.NDArray[np.float32]
"""(N, 2): x, y in pixels of the image that they were found in."""


@dataclass(frozen=True, slots=True)
class CornerOptions:
    """Which corners are found: how many at most, how strong they are beside the strongest, how far apart in pixels, and
    the side of the block that each is judged by.
    """

    most: int = 1000
    quality: float = 0.01
    distance: float = 1
    block: int = 3


def find_corners(image: Luma, options: CornerOptions) -> Points:
    """Return the corners (N, 2) of an image (H, W), the strongest first; perhaps none."""
    from sightline_plugins.opencv import cv2

    found = cv2.goodFeaturesToTrack(image, options.most, options.quality, options.distance, blockSize=options.block)
    return np.zeros((0, 2), np.float32) if found is None else found.reshape(-1, 2).astype(np.float32)


def follow_corners(
    before: Luma, now: Luma, corners: Points, *, most_error: float | None = None
) -> tuple[Points, Points]:
    """Return the corners (K, 2) of `before` that were followed, and where they are in `now` (K, 2).

    With `most_error` a corner that is followed back has to arrive within so many pixels of where it was.
    """
    from sightline_plugins.opencv import cv2

    if not len(corners):
        return corners, corners
    start = np.ascontiguousarray(corners[:, None])
    there, status, _ = cv2.calcOpticalFlowPyrLK(before, now, start, np.empty_like(start))
    kept = status[:, 0] == 1
    if most_error is not None:
        back, status, _ = cv2.calcOpticalFlowPyrLK(now, before, there, np.empty_like(start))
        kept &= (status[:, 0] == 1) & (np.linalg.norm(back - start, axis=2)[:, 0] <= most_error)
    return corners[kept], there[kept, 0]
