"""Average precision of boxes, by pycocotools."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import MissingExtra
from sightline.media.boxes import ltwh_from_xyxy
from sightline_plugins.evaluate.table import Annotations


@dataclass(frozen=True, slots=True)
class DetectionScores:
    """COCO's average precisions, 0..1: over IoU 0.5 to 0.95, at 0.5 and 0.75, and by label over IoU 0.5 to 0.95."""

    ap: float
    ap50: float
    ap75: float
    by_label: Mapping[str, float]


def require_scoring() -> None:
    """Raise MissingExtra where the package that scores is missing, before much is computed."""
    if importlib.util.find_spec("pycocotools") is None:
        raise MissingExtra("pycocotools", extra="eval", purpose="scoring detections")


def score_detections(found: Annotations, *, truth: Annotations) -> DetectionScores:
    """COCO's scores of what was found; labels that the truth does not know are left out.

    Raises MissingExtra without pycocotools.
    """
    require_scoring()
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    labels = sorted(set(truth.label.tolist()))
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO()
        known.dataset = _dataset(truth, labels, frames=np.union1d(truth.frame, found.frame))
        known.createIndex()
        results = _results(found, labels)
        if not results:
            return DetectionScores(0.0, 0.0, 0.0, dict.fromkeys(labels, 0.0))
        evaluation = COCOeval(known, known.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    precision = evaluation.eval["precision"][:, :, :, 0, 2]
    by_label = {label: _mean(precision[:, :, number]) for number, label in enumerate(labels)}
    ap, ap50, ap75 = (float(value) for value in evaluation.stats[:3])
    return DetectionScores(ap, ap50, ap75, by_label)


def _mean(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    there = values[values > -1]
    return float(there.mean()) if len(there) else 0.0


def _dataset(truth: Annotations, labels: list[str], *, frames: npt.NDArray[np.int64]) -> dict[str, Any]:
    numbers = {label: number for number, label in enumerate(labels, 1)}
    boxes = ltwh_from_xyxy(truth.xyxy).astype(np.float64)
    annotations = [
        {
            "id": number,
            "image_id": int(frame),
            "category_id": numbers[label],
            "bbox": box,
            "area": box[2] * box[3],
            "iscrowd": int(ignored),
        }
        for number, (frame, label, box, ignored) in enumerate(
            zip(truth.frame.tolist(), truth.label.tolist(), boxes.tolist(), truth.ignored.tolist(), strict=True), 1
        )
    ]
    return {
        "info": {},
        "images": [{"id": int(frame)} for frame in frames],
        "categories": [{"id": number, "name": label} for label, number in numbers.items()],
        "annotations": annotations,
    }


def _results(found: Annotations, labels: list[str]) -> list[dict[str, Any]]:
    numbers = {label: number for number, label in enumerate(labels, 1)}
    boxes = ltwh_from_xyxy(found.xyxy).astype(np.float64).tolist()
    rows = zip(found.frame.tolist(), found.label.tolist(), boxes, found.confidence.tolist(), strict=True)
    return [
        {"image_id": frame, "category_id": numbers[label], "bbox": box, "score": confidence}
        for frame, label, box, confidence in rows
        if label in numbers
    ]
