"""Non-maximum suppression: the one place that does it. Pure: arrays in, indices out."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes

MAX_CANDIDATES = 10_000

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class NmsOptions:
    """`iou` above which the lower of two boxes gives way (1: none does), among all classes when `agnostic`."""

    iou: float = 0.45
    agnostic: bool = False
    max_detections: int = 300


def suppress(
    xyxy: Boxes, confidence: npt.NDArray[np.float32], class_id: npt.NDArray[np.int32], *, options: NmsOptions
) -> Index:
    """The boxes (N, 4) that stay, as indices by falling confidence; of equal ones the first goes first.

    Greedy: each box, from the most to the least confident, stays unless it overlaps one that stays by more than
    `options.iou` (and is of the same class, unless `options.agnostic`). At most `MAX_CANDIDATES` of the most confident
    boxes are looked at. Boxes must be finite. The loop is OpenCV's, on boxes that are moved apart class by class.
    """
    order = np.argsort(-confidence, kind="stable")[:MAX_CANDIDATES]
    if options.iou >= 1 or len(order) < 2:
        return order[: options.max_detections]
    boxes = xyxy[order].astype(np.float64)
    if not options.agnostic:
        boxes[:, ::2] += (class_id[order] * (boxes.max() - boxes.min() + 1))[:, None]
    boxes[:, 2:] -= boxes[:, :2]
    ranks = np.arange(len(order), 0, -1).astype(np.float32)
    kept = cv2.dnn.NMSBoxes(boxes, ranks, 0.0, options.iou)  # type: ignore[arg-type]
    return order[np.asarray(kept, np.intp).reshape(-1)[: options.max_detections]]
