"""Soft suppression: what overlaps a more confident box loses confidence (Bodla and others, 2017, "Soft-NMS")."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sightline_plugins.nms.greedy import Index, by_confidence
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.nms.overlap import Floats, Overlap


def soften(
    shapes: Floats,
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.int32],
    *,
    overlap: Overlap,
    options: NmsOptions,
    least: float,
) -> tuple[Index, npt.NDArray[np.float32]]:
    """The rows that stay and their confidences afterwards, both by falling confidence; of equal ones the first.

    Again and again the most confident of those left is taken, and the others of its class (all, when
    `options.class_agnostic`) lose confidence as they overlap it; those that fall below `least` are dropped. One
    vectorised step for each box that stays.
    """
    order = by_confidence(confidence)
    shapes, classes = shapes[order], class_id[order]
    left = confidence[order].astype(np.float64)
    floor = float(np.float32(max(least, 0.0)))
    rows: list[int] = []
    values: list[float] = []
    while len(left) and len(rows) < options.max_detections:
        best = int(left.argmax())
        if left[best] < floor:
            break
        rows.append(best)
        values.append(float(left[best]))
        left[best] = -1
        near = np.flatnonzero((left >= floor) & (options.class_agnostic | (classes == classes[best])))
        left[near] *= _decay(overlap(shapes[best], shapes[near]), options)
    return order[np.array(rows, np.intp)], np.array(values, np.float32)


def _decay(shared: npt.NDArray[Any], options: NmsOptions) -> Floats:
    if options.decay == "linear":
        return np.where(shared > options.iou, 1 - shared, 1.0)
    factors: Floats = np.exp(-(shared**2) / options.sigma)
    return factors
