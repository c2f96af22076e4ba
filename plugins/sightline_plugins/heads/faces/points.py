"""Landmarks as the findings hold them, for all heads of faces."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline_plugins.heads.head import Array

LANDMARKS = 5
"""Right eye, left eye, nose, right and left corner of the mouth, each side as the person has it: the order of all heads
here and of `sightline.media.shapes.FACE_5`. Training code calls them left and right as they stand in the image."""


def with_confidence(points: Array, confidence: Array) -> npt.NDArray[np.float32]:
    """Points (N, K, 2) as (N, K, 3): each is as sure as its face (N,)."""
    column = np.broadcast_to(confidence[:, None, None], (*points.shape[:2], 1))
    return np.concatenate([points, column], axis=2).astype(np.float32)
