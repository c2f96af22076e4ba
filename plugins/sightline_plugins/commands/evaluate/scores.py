"""Scores against ground truth: average precision (pycocotools), tracks (TrackEval) and counts."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError, MissingExtra
from sightline.media.boxes import Boxes, iou_matrix, ltwh_from_xyxy
from sightline_plugins.commands.evaluate.annotations import Annotations

TRACKEVAL = (
    "scoring tracks needs the package 'trackeval': pip install 'sightline[eval]', then pip install --no-deps trackeval "
    "(with its dependencies it would replace OpenCV by a build for desktops)"
)


@dataclass(frozen=True, slots=True)
class DetectionScores:
    """COCO's average precisions, 0..1: over IoU 0.5 to 0.95, at 0.5 and 0.75, and by label over IoU 0.5 to 0.95."""

    ap: float
    ap50: float
    ap75: float
    by_label: Mapping[str, float]


def require_scoring() -> None:
    """Raise MissingExtra early where the package that computes scores is missing."""
    if importlib.util.find_spec("pycocotools") is None:
        raise MissingExtra("pycocotools", extra="eval", purpose="scoring detections")


def require_track_scoring() -> None:
    """Raise ConfigurationError early where the package that scores tracks is missing."""
    if importlib.util.find_spec("trackeval") is None:
        raise ConfigurationError(TRACKEVAL)


def score_detections(found: Annotations, *, truth: Annotations) -> DetectionScores:
    """Return COCO's scores; labels that the truth does not contain are left out.

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
    known = values[values > -1]
    return float(known.mean()) if len(known) else 0.0


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


_IGNORED_IOU = 0.5


@dataclass(frozen=True, slots=True)
class TrackScores:
    """1 is perfect; `switches` are changes of identity, `false` and `missed` are boxes."""

    hota: float
    mota: float
    idf1: float
    switches: int
    false: int
    missed: int


def score_tracks(found: Annotations, *, truth: Annotations, frames: range | None = None) -> TrackScores:
    """Return scores over these frames (all of the truth when None). Boxes found on ignored truth count neither way.

    HOTA: J. Luiten and others, 2020; CLEAR: K. Bernardin and R. Stiefelhagen, 2008; IDF1: E. Ristani and others, 2016.
    Raises ConfigurationError without TrackEval.
    """
    try:
        from trackeval.metrics import CLEAR, HOTA, Identity
    except ImportError:
        raise ConfigurationError(TRACKEVAL) from None
    if frames is None:
        frames = range(int(truth.frame.min(initial=0)), int(truth.frame.max(initial=-1)) + 1)
    data = _sequence(_without_ignored(found, truth), truth.select(~truth.ignored), frames)
    quiet = {"PRINT_CONFIG": False}
    clear = CLEAR(quiet).eval_sequence(data)
    return TrackScores(
        hota=float(np.mean(HOTA().eval_sequence(data)["HOTA"])),
        mota=float(clear["MOTA"]),
        idf1=float(Identity(quiet).eval_sequence(data)["IDF1"]),
        switches=int(clear["IDSW"]),
        false=int(clear["CLR_FP"]),
        missed=int(clear["CLR_FN"]),
    )


def _without_ignored(found: Annotations, truth: Annotations) -> Annotations:
    """Drop boxes that lie on ignored truth and on no other."""
    if not truth.ignored.any():
        return found
    keep = np.ones(len(found), np.bool_)
    for frame in np.unique(truth.frame[truth.ignored]):
        own, there = np.flatnonzero(found.frame == frame), truth.frame == frame
        on_ignored = _best(found.xyxy[own], truth.xyxy[there & truth.ignored])
        on_counted = _best(found.xyxy[own], truth.xyxy[there & ~truth.ignored])
        keep[own] = (on_ignored < _IGNORED_IOU) | (on_counted >= _IGNORED_IOU)
    return found.select(keep)


def _best(a: Boxes, b: Boxes) -> npt.NDArray[np.float32]:
    """Return the largest overlap of each box of `a` with one of `b`."""
    best: npt.NDArray[np.float32] = iou_matrix(a, b).max(axis=1, initial=0)
    return best


def _sequence(found: Annotations, truth: Annotations, frames: range) -> dict[str, object]:
    """Return the input of TrackEval's metrics."""
    truth = truth.select((truth.frame >= frames.start) & (truth.frame < frames.stop))
    found = found.select((found.frame >= frames.start) & (found.frame < frames.stop) & (found.identity >= 0))
    true_ids, true_index = np.unique(truth.identity, return_inverse=True)
    found_ids, found_index = np.unique(found.identity, return_inverse=True)
    by_frame = [(truth.frame == frame, found.frame == frame) for frame in frames]
    return {
        "num_gt_dets": len(truth),
        "num_tracker_dets": len(found),
        "num_gt_ids": len(true_ids),
        "num_tracker_ids": len(found_ids),
        "num_timesteps": len(frames),
        "gt_ids": [true_index[true] for true, _ in by_frame],
        "tracker_ids": [found_index[own] for _, own in by_frame],
        "similarity_scores": [
            iou_matrix(truth.xyxy[true], found.xyxy[own]).astype(np.float64) for true, own in by_frame
        ],
    }


@dataclass(frozen=True, slots=True)
class CountScores:
    """Numbers of different objects, and the mean absolute difference between found and true objects on a frame."""

    tracks: int
    true_tracks: int
    error_per_frame: float


def score_counts(found: Annotations, *, truth: Annotations) -> CountScores:
    """Return the scores over all frames of either side."""
    truth = truth.select(~truth.ignored)
    frames = int(max(truth.frame.max(initial=-1), found.frame.max(initial=-1))) + 1
    here, there = (np.bincount(table.frame, minlength=frames) for table in (found, truth))
    identities = [len(np.unique(table.identity[table.identity >= 0])) for table in (found, truth)]
    error = float(np.abs(here - there).mean()) if frames else 0.0
    return CountScores(identities[0], identities[1], error)
