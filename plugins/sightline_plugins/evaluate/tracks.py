"""How well tracks follow the truth, by TrackEval (HOTA, CLEAR, Identity)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.errors import MissingExtra
from sightline.media.boxes import Boxes, iou_matrix
from sightline_plugins.evaluate.table import Annotations

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
    """Scores over these frames (all of the truth when None). Boxes found on ignored truth count neither way.

    HOTA: J. Luiten and others, 2020; CLEAR: K. Bernardin and R. Stiefelhagen, 2008; IDF1: E. Ristani and others, 2016.
    Raises MissingExtra without TrackEval.
    """
    try:
        from trackeval.metrics import CLEAR, HOTA, Identity
    except ImportError:
        raise MissingExtra("trackeval", extra="eval", purpose="scoring tracks") from None
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
    """What was found, without boxes that lie on ignored truth and on none that counts."""
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
    best: npt.NDArray[np.float32] = iou_matrix(a, b).max(axis=1, initial=0)
    return best


def _sequence(found: Annotations, truth: Annotations, frames: range) -> dict[str, object]:
    """The form that TrackEval's metrics take."""
    inside = (truth.frame >= frames.start) & (truth.frame < frames.stop)
    truth = truth.select(inside)
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
