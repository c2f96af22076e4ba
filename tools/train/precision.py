"""Average precision of detections, with objects that do not count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tools.world.arrays import Floats

LEAST_VISIBLE = 0.25
LEAST_SIDE_PX = 8.0


@dataclass(frozen=True, slots=True)
class Detections:
    """What was found in one image: boxes (N, 4) xyxy, class ids and confidences."""

    xyxy: Floats
    class_id: npt.NDArray[np.int64]
    confidence: Floats


@dataclass(frozen=True, slots=True)
class Expected:
    """What is in one image: boxes (N, 4) xyxy, class ids and visibilities."""

    xyxy: Floats
    class_id: npt.NDArray[np.int64]
    visibility: Floats

    def counts(self) -> npt.NDArray[np.bool_]:
        """Which are visible and large enough to be demanded."""
        sides = (self.xyxy[:, 2:] - self.xyxy[:, :2]).min(axis=1, initial=np.inf)
        demanded: npt.NDArray[np.bool_] = (self.visibility >= LEAST_VISIBLE) & (sides >= LEAST_SIDE_PX)
        return demanded


def overlaps(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """IoU (N, M) and the share of each first box that lies in each second one (N, M)."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    both = np.clip(high - low, 0, None).prod(axis=2)
    area_first = (first[:, 2:] - first[:, :2]).prod(axis=1)
    area_second = (second[:, 2:] - second[:, :2]).prod(axis=1)
    iou = both / np.maximum(area_first[:, None] + area_second[None] - both, 1e-9)
    return iou, both / np.maximum(area_first[:, None], 1e-9)


def judge(found: Detections, expected: Expected, *, class_id: int, threshold: float) -> tuple[Floats, int]:
    """Rows (confidence, 1 when right) of the detections of a class that count, and how many were demanded.

    The most confident is matched first. A detection that is not matched is left out when it overlaps an object
    that does not count (IoU >= threshold, or more than half of it inside), or is itself too small to count.
    """
    own = np.flatnonzero(found.class_id == class_id)
    own = own[np.argsort(-found.confidence[own], kind="stable")]
    counts = expected.counts()
    wanted = expected.xyxy[counts & (expected.class_id == class_id)]
    iou, _ = overlaps(found.xyxy[own], wanted)
    other_iou, inside = overlaps(found.xyxy[own], expected.xyxy[~counts])
    excused = ((other_iou >= threshold) | (inside > 0.5)).any(axis=1)
    excused |= (found.xyxy[own, 2:] - found.xyxy[own, :2]).min(axis=1, initial=np.inf) < LEAST_SIDE_PX
    free = np.ones(len(wanted), dtype=bool)
    rows: list[tuple[float, float]] = []
    for index, detection in enumerate(own):
        candidates = np.where(free, iou[index], -1.0)
        best = int(candidates.argmax()) if len(wanted) else -1
        if best >= 0 and candidates[best] >= threshold:
            free[best] = False
            rows.append((float(found.confidence[detection]), 1.0))
        elif not excused[index]:
            rows.append((float(found.confidence[detection]), 0.0))
    return np.array(rows).reshape(-1, 2), len(wanted)


def average_precision(rows: Floats, *, demanded: int) -> float:
    """The area under precision over recall, precision made monotonic (all points)."""
    if not demanded:
        return float("nan")
    right = rows[np.argsort(-rows[:, 0], kind="stable"), 1]
    recall = np.cumsum(right) / demanded
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0.0) * precision).sum())
