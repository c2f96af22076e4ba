"""What makes a frame worth labelling, from the objects found on it: each reason with a score from 0 to 1.

`low_margin` is margin sampling (Scheffer et al. 2001; Settles, "Active Learning Literature Survey", 2009, 3.1) on boxes
and labels. `flicker`, `label_change` and `appearance` use time: objects do not come, go and change in the middle of a
scene, so where tracks do, the detector has probably erred (as in Jin et al., ECCV 2018, "Unsupervised Hard Example
Mining from Videos"). Boxes are pixels of the frame; times are nanoseconds, of which only differences count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sightline.media import Objects
from sightline.media.boxes import iou_matrix
from sightline.media.events import Scalar
from sightline_plugins.harvest.harvest import Reason
from sightline_plugins.infer.comparison import compare_objects

_CLASSIFIER_SUFFIX = "_confidence"
_TRACKER_CONFIDENCE = "tracker_confidence"
_TIE = 0.5
"""Below this probability, another class may be as likely."""
_SAME_BOX = 0.7
_MOST_PAIRED = 300
"""Boxes of frames with more objects are not compared with each other."""

_SETTLED_NS = 1_000_000_000
"""At the beginning of a stream all objects appear."""
_STEADY_FRAMES = 3
"""A track that was seen more rarely was no object for sure, and its end says nothing."""
_FLICKER_NS = 5_000_000_000
_FORGOTTEN_NS = 10_000_000_000
_MOST_TRACKS = 4096
_BORDER = 0.05
"""Nearer to the border (as a share of the frame) an object may come and go."""
_INSIDE = 0.25
_TALL = 0.1
"""Objects that are lower (as a share of the frame) count less: far away, they come and go."""
_COVERED = 0.2
"""From which share of its box another object may hide an object."""

Boxes = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FoundReason:
    """A reason for labelling a frame, its score, and what it is about (`label`, `track_id`, `rule`)."""

    reason: str
    score: float
    about: Mapping[str, Scalar] = field(default_factory=dict)


def joined_score(found: Iterable[FoundReason]) -> float:
    """Return the score of a frame with several reasons: 1 minus the product of what each leaves to 1."""
    rest = 1.0
    for one in found:
        rest *= 1 - min(max(one.score, 0.0), 1.0)
    return 1 - rest


def low_margin(objects: Objects, *, threshold: float, margin: float) -> FoundReason | None:
    """Return how doubtful the boxes, labels and attributes of a frame are; None if none is within `margin`.

    Each object counts for a half at most, and all together as independent doubts: a frame with several doubtful objects
    teaches more (as the sum in Brust et al. 2018, "Active Learning for Deep Object Detection", is the best of three
    ways to add them up). It is about the most doubtful one.
    """
    if not len(objects):
        return None
    scores = 1 - np.abs(objects.confidence.astype(np.float64) - threshold) / margin
    for name, column in objects.attributes.items():
        if name.endswith(_CLASSIFIER_SUFFIX) and name != _TRACKER_CONFIDENCE and column.dtype.kind == "f":
            scores = np.fmax(scores, np.minimum((_TIE + margin - column) / margin, 1))
    scores = np.maximum(scores, _label_ties(objects, margin=margin))
    row = int(scores.argmax())
    if scores[row] <= 0:
        return None
    score = 1 - float(np.prod(1 - np.clip(scores, 0, 1) / 2))
    return FoundReason("low_margin", score, {**_about(objects, row), "objects": int((scores > 0).sum())})


def _label_ties(objects: Objects, *, margin: float) -> npt.NDArray[np.float64]:
    """Return for each object (N,) how nearly it ties with one of another label that the same step found in its place;
    negative for none.
    """
    ties = np.full(len(objects), -1.0)
    if not 2 <= len(objects) <= _MOST_PAIRED:
        return ties
    is_tie = iou_matrix(objects.xyxy, objects.xyxy) >= _SAME_BOX
    is_tie &= objects.class_id[:, None] != objects.class_id
    is_tie &= (objects.origin[:, None] == objects.origin) & (objects.parent[:, None] == objects.parent)
    confidence = objects.confidence.astype(np.float64)
    scores = 1 - np.abs(confidence[:, None] - confidence) / margin
    highest: npt.NDArray[np.float64] = np.where(is_tie, scores, -1.0).max(axis=1)
    return highest


def disagreement(first: Objects, second: Objects) -> FoundReason | None:
    """Return how far two detectors differ on a frame: 1 minus the F1 score of their boxes and labels."""
    found = compare_objects(first, second)
    if not found.total or found.agreeing == found.total:
        return None
    return FoundReason("disagreement", 1 - found.agreeing / found.total, {"objects": len(first), "others": len(second)})


@dataclass(slots=True)
class _Track:
    xyxy: Boxes
    velocity: Boxes
    label: str
    confidence: float
    frames: int
    frame: int
    seen_ns: int
    gaps_ns: list[int]


class TrackSignals:
    """Watches the tracks of one stream, frame by frame of those that a detector ran on. Used by one thread."""

    def __init__(self, reasons: Collection[Reason]) -> None:
        self._reasons = frozenset(reasons)
        self._tracks: dict[int, _Track] = {}
        self._frame = 0
        self._first_ns: int | None = None

    def observe(self, objects: Objects, *, size_wh: tuple[int, int], time_ns: int) -> list[FoundReason]:
        """Return the reasons that the tracks of a frame give, each once, with its highest score."""
        self._frame += 1
        self._first_ns = time_ns if self._first_ns is None else self._first_ns
        rows = np.flatnonzero((objects.track_id >= 0) & (objects.parent < 0))
        labels, confidences = objects.labels(), objects.confidence.tolist()
        tracks = objects.track_id.tolist()
        best: dict[str, FoundReason] = {}
        found = [*self._lost(objects, set(tracks), size_wh=size_wh)]
        for row in rows.tolist():
            known = self._tracks.get(tracks[row])
            if known is None:
                found += self._begun(objects, row, size_wh=size_wh, time_ns=time_ns)
                known = _Track(
                    objects.xyxy[row], np.zeros(4, np.float32), labels[row], 0.0, 0, self._frame, time_ns, []
                )
                self._tracks[tracks[row]] = known
            else:
                found += self._changed(known, objects, row, label=labels[row], time_ns=time_ns)
            known.velocity = (objects.xyxy[row] - known.xyxy) / max(self._frame - known.frame, 1)
            known.xyxy, known.label, known.confidence = objects.xyxy[row], labels[row], confidences[row]
            known.frames, known.frame, known.seen_ns = known.frames + 1, self._frame, time_ns
        for one in found:
            if one.reason in self._reasons and one.score > 0:
                best[one.reason] = max(best.get(one.reason, one), one, key=lambda each: each.score)
        self._forget(time_ns)
        return list(best.values())

    def _changed(self, known: _Track, objects: Objects, row: int, *, label: str, time_ns: int) -> Iterator[FoundReason]:
        """Yield what changed of a track that is known."""
        if self._frame - known.frame > 1:
            known.gaps_ns = [at for at in known.gaps_ns if time_ns - at <= _FLICKER_NS] + [time_ns]
            score = 1 - 0.5 ** len(known.gaps_ns)
            yield FoundReason("flicker", score, {**_about(objects, row), "gaps": len(known.gaps_ns)})
        if label != known.label:
            score = 1 - abs(float(objects.confidence[row]) - known.confidence)
            yield FoundReason("label_change", score, {**_about(objects, row), "label_before": known.label})

    def _begun(self, objects: Objects, row: int, *, size_wh: tuple[int, int], time_ns: int) -> Iterator[FoundReason]:
        """Yield a track that begins inside the frame, where no other object was or is."""
        if self._first_ns is None or time_ns - self._first_ns < _SETTLED_NS:
            return
        box = objects.xyxy[row]
        others = [objects.xyxy[other] for other in range(len(objects)) if other != row and objects.parent[other] < 0]
        others += [known.xyxy for known in self._tracks.values() if known.frame >= self._frame - 1]
        score = _inside(box, size_wh) * float(objects.confidence[row])
        if score > 0 and not _is_covered(box, others):
            yield FoundReason("appearance", score, {**_about(objects, row), "change": "began"})

    def _lost(self, objects: Objects, present: set[int], *, size_wh: tuple[int, int]) -> Iterator[FoundReason]:
        """Yield tracks that the frame before had, and this one lacks, inside the frame and behind no other object."""
        for track_id, known in self._tracks.items():
            if known.frame != self._frame - 1 or track_id in present or known.frames < _STEADY_FRAMES:
                continue
            expected = known.xyxy + known.velocity
            score = _inside(expected, size_wh) * known.confidence
            if score > 0 and not _is_covered(expected, objects.xyxy):
                yield FoundReason("appearance", score, {"label": known.label, "track_id": track_id, "change": "lost"})

    def _forget(self, time_ns: int) -> None:
        if self._frame % 64 == 0 or len(self._tracks) > _MOST_TRACKS:
            kept = {key: one for key, one in self._tracks.items() if time_ns - one.seen_ns <= _FORGOTTEN_NS}
            newest = sorted(kept, key=lambda key: kept[key].seen_ns)[-_MOST_TRACKS:]
            self._tracks = {key: kept[key] for key in newest}


def _about(objects: Objects, row: int) -> dict[str, Scalar]:
    """Return what tells an object of a frame."""
    one = objects[row]
    about: dict[str, Scalar] = {"label": one.label, "confidence": round(one.confidence, 3)}
    return about if one.track_id is None else {**about, "track_id": one.track_id}


def _inside(box: Boxes, size_wh: tuple[int, int]) -> float:
    """Return how far inside the frame a box is, 0 at its border, and less for a low one."""
    width, height = size_wh
    left, top, right, bottom = box.tolist()
    distance = min(left / width, top / height, 1 - right / width, 1 - bottom / height)
    depth: float = min(max((distance - _BORDER) / (_INSIDE - _BORDER), 0.0), 1.0)
    weight: float = min(max((bottom - top) / height / _TALL, 0.0), 1.0)
    return depth * weight


def _is_covered(box: Boxes, others: Iterable[Boxes] | Boxes) -> bool:
    """Whether other boxes lie over a part of a box."""
    boxes = np.asarray(list(others), np.float32).reshape(-1, 4)
    sides = np.maximum(np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2]), 0)
    own = float((box[2] - box[0]) * (box[3] - box[1]))
    return bool(len(boxes)) and float((sides[:, 0] * sides[:, 1]).max()) > _COVERED * own
