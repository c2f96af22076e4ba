"""Corrections of known boxes: how SSD and those after it write a box down."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes, xyxy_from_cxcywh

Floats = npt.NDArray[np.floating]


def boxes_from_offsets(offsets: Floats, priors: Floats, *, variances: tuple[float, float]) -> Boxes:
    """Boxes (N, 4) as x1, y1, x2, y2 in the units of `priors` (N, 4), which are centre, width and height.

    `offsets` (N, 4) shift the centre in shares of the prior's size and hold the logarithm of the change of size, both
    divided by a variance (W. Liu et al., "SSD: Single Shot MultiBox Detector", 2016).
    """
    near, far = variances
    centre = priors[:, :2] + offsets[:, :2] * near * priors[:, 2:]
    with np.errstate(over="ignore", invalid="ignore"):
        size = priors[:, 2:] * np.exp(offsets[:, 2:] * far)
        return xyxy_from_cxcywh(np.concatenate([centre, size], axis=1).astype(np.float32))


def points_from_offsets(offsets: Floats, priors: Floats, *, variance: float) -> Floats:
    """Points (N, K, 2) in the units of `priors` from shifts (N, K, 2) in shares of the prior's size, divided by the
    variance.
    """
    shifts: Floats = offsets * variance * priors[:, None, 2:]
    return shifts + priors[:, None, :2]
