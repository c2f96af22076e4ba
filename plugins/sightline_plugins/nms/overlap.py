"""How much boxes overlap: upright ones by intersection over union, oriented ones as Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Overlap: TypeAlias = Callable[[Floats, Floats], Floats]
"""One shape (k,) and others (N, k) -> how much it overlaps each of them (N,), 0 to 1."""

_SMALL = 1e-7


def upright_overlap(one: Floats, others: Floats) -> Floats:
    """Intersection over union of a box (4,) with each of the others (N, 4) -> (N,); 0 where both are empty."""
    low = np.maximum(one[:2], others[:, :2])
    high = np.minimum(one[2:], others[:, 2:])
    sides = np.maximum(high - low, 0)
    both = sides[:, 0] * sides[:, 1]
    size, sizes = np.maximum(one[2:] - one[:2], 0), np.maximum(others[:, 2:] - others[:, :2], 0)
    union = size[0] * size[1] + sizes[:, 0] * sizes[:, 1] - both
    shared: Floats = np.divide(both, union, out=np.zeros_like(both), where=union > 0)
    return shared


def gaussians(corners: npt.NDArray[Any]) -> Floats:
    """Oriented boxes (N, 4, 2) as Gaussians (N, 5): the middle x and y, then the covariances xx, yy and xy.

    A rectangle's covariance is that of points spread evenly over it, as in "Gaussian Bounding Boxes and
    Probabilistic Intersection-over-Union" (Llerena and others, 2021).
    """
    wide = np.asarray(corners, np.float64)
    middle = wide.mean(axis=1)
    across, down = wide[:, 1] - wide[:, 0], wide[:, 3] - wide[:, 0]
    spread = (across**2 + down**2) / 12
    turned = (across[:, 0] * across[:, 1] + down[:, 0] * down[:, 1]) / 12
    return np.concatenate([middle, spread, turned[:, None]], axis=1)


def oriented_overlap(one: Floats, others: Floats) -> Floats:
    """One minus the Hellinger distance of a Gaussian (5,) to others (N, 5) -> (N,): the probabilistic IoU.

    The measure with which Ultralytics suppresses oriented boxes (`batch_probiou` of its `utils/metrics.py`).
    """
    xx, yy, xy = (one[2:] + others[:, 2:]).T
    shift_x, shift_y = (one[:2] - others[:, :2]).T
    together = xx * yy - xy**2
    apart = (xx * shift_y**2 + yy * shift_x**2 - 2 * xy * shift_x * shift_y) / (together + _SMALL) / 4
    alone = np.maximum(one[2] * one[3] - one[4] ** 2, 0) * np.maximum(
        others[:, 2] * others[:, 3] - others[:, 4] ** 2, 0
    )
    unlike = np.log(together / (4 * np.sqrt(alone) + _SMALL) + _SMALL) / 2
    distance = np.clip(apart + unlike, _SMALL, 100)
    shared: Floats = 1 - np.sqrt(1 - np.exp(-distance) + _SMALL)
    return np.maximum(shared, 0)
