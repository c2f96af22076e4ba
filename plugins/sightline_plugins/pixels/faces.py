"""Turning faces upright by their five landmarks, as models that recognise faces were trained with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline_plugins.pixels.placement import Matrix, SizeWh

_REFERENCE_SIZE = 112
_REFERENCE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]], np.float64
)
"""Where eyes, nose and corners of the mouth stand in a face of 112 x 112 (deepinsight/insightface, `face_align.py`)."""


def align_face(points: npt.NDArray[np.float32], *, size_wh: SizeWh) -> Matrix | None:
    """The map from an aligned face of `size_wh` to the image, for landmarks (5+, 2 or 3) in pixels of the image.

    Turn, scale and shift that bring the landmarks closest to their usual places (least squares: S. Umeyama, 1991). None
    when there are fewer than five landmarks or they all fall on one point.
    """
    found = points[:5, :2].astype(np.float64)
    if len(found) < 5 or not np.isfinite(found).all():
        return None
    width, height = size_wh
    usual = _REFERENCE * (height / _REFERENCE_SIZE)
    usual[:, 0] += (width - height) / 2
    from_usual = _similarity(usual, found)
    if from_usual is None:
        return None
    (a, b, x), (c, d, y) = from_usual
    return (float(a), float(b), float(x)), (float(c), float(d), float(y))


def _similarity(source: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """The similarity (2, 3) that takes `source` (N, 2) closest to `target`."""
    near, far = source.mean(axis=0), target.mean(axis=0)
    u, v = source - near, target - far
    spread = float((u * u).sum())
    turn = float((u * v).sum())
    cross = float((u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]).sum())
    if spread == 0 or turn * turn + cross * cross == 0:
        return None
    a, b = turn / spread, cross / spread
    linear = np.array([[a, -b], [b, a]])
    return np.concatenate([linear, (far - linear @ near)[:, None]], axis=1)
