"""Hard suppression: of two boxes that overlap too much the less confident is dropped."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes
from sightline_plugins.nms.options import MAX_CANDIDATES, NmsOptions
from sightline_plugins.nms.overlap import Floats, gaussians, oriented_overlap

Index = npt.NDArray[np.intp]


def by_confidence(confidence: npt.NDArray[Any]) -> Index:
    """The rows by falling confidence, `MAX_CANDIDATES` at most; of equal ones the first goes first."""
    return np.argsort(-confidence, kind="stable")[:MAX_CANDIDATES]


def suppress(
    xyxy: Boxes, confidence: npt.NDArray[np.float32], class_id: npt.NDArray[np.int32], *, options: NmsOptions
) -> Index:
    """The boxes (N, 4) that stay, as indices by falling confidence; of equal ones the first goes first.

    Greedy: each box, from the most to the least confident, stays unless it overlaps one that stays by more than
    `options.iou` (and is of the same class, unless `options.class_agnostic`). At most `MAX_CANDIDATES` of the most
    confident boxes are looked at. Boxes must be finite. The loop is OpenCV's, on boxes moved apart by class.
    """
    order = by_confidence(confidence)
    if options.iou >= 1 or len(order) < 2:
        return order[: options.max_detections]
    boxes = xyxy[order].astype(np.float64)
    if not options.class_agnostic:
        boxes[:, ::2] += (class_id[order] * (boxes.max() - boxes.min() + 1))[:, None]
    boxes[:, 2:] -= boxes[:, :2]
    ranks = np.arange(len(order), 0, -1).astype(np.float32)
    kept = cv2.dnn.NMSBoxes(boxes, ranks, 0.0, options.iou)  # type: ignore[arg-type]
    return order[np.asarray(kept, np.intp).reshape(-1)[: options.max_detections]]


def suppress_oriented(
    corners: npt.NDArray[np.float32],
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.int32],
    *,
    options: NmsOptions,
) -> Index:
    """The oriented boxes (N, 4, 2) that stay, as `suppress` does with upright ones; overlap is probabilistic IoU.

    One vectorised step for each box that stays.
    """
    order = by_confidence(confidence)
    shapes, classes = gaussians(corners[order]), class_id[order]
    kept: list[int] = []
    rest = np.arange(len(order))
    while len(rest) and len(kept) < options.max_detections:
        best, rest = int(rest[0]), rest[1:]
        kept.append(best)
        rest = rest[~_dropped(shapes, classes, best, rest, options)]
    return order[np.array(kept, np.intp)]


def _dropped(
    shapes: Floats, classes: npt.NDArray[np.int32], best: int, rest: Index, options: NmsOptions
) -> npt.NDArray[np.bool_]:
    dropped: npt.NDArray[np.bool_] = oriented_overlap(shapes[best], shapes[rest]) > options.iou
    return dropped if options.class_agnostic else dropped & (classes[rest] == classes[best])
