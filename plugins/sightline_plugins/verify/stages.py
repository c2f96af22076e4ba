"""The stages of a model in the pipeline, and how far each departs from the plain reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import iou_matrix
from sightline_plugins.infer.heads.findings import Candidates, ClassMap, Points, Scores, Text, Vector

Array = npt.NDArray[Any]
StageName = Literal["input", "outputs", "decoded", "suppressed", "placed", "answers"]

MEANING = {
    "input": "pre-processed input, mean difference in levels (0..255)",
    "outputs": "raw outputs on the same input, difference relative to the largest value",
    "decoded": "what the head reads from them: share that differs",
    "suppressed": "boxes that stay on the same candidates: share that differs",
    "placed": "boxes in pixels of the picture: largest difference in pixels",
    "answers": "from the picture to the answer, all stages together: share that differs",
}
LIMITS: dict[StageName, float] = {
    "input": 2.0,
    "outputs": 1e-3,
    "decoded": 0.01,
    "suppressed": 0.0,
    "placed": 0.05,
    "answers": 0.02,
}
HALF_LIMIT = 2e-2
"""Of raw outputs of files that compute in 16 bits."""


@dataclass(slots=True)
class Stage:
    """One stage: its departures, one a picture, and the greatest that is tolerated of their worst (or mean) value."""

    name: StageName
    limit: float
    departures: list[float] = field(default_factory=list)

    @property
    def departure(self) -> float:
        """The worst over all pictures; of whole answers, the mean."""
        if not self.departures:
            return 0.0
        return float(np.mean(self.departures)) if self.name == "answers" else max(self.departures)

    @property
    def is_within(self) -> bool:
        """Whether the departure is tolerated."""
        return self.departure <= self.limit


@dataclass(slots=True)
class Stages:
    """All stages of a run, in the order in which pictures go through them."""

    half: bool = False
    by_name: dict[StageName, Stage] = field(default_factory=dict)

    def note(self, name: StageName, departure: float) -> None:
        """Add one picture's departure."""
        limit = HALF_LIMIT if name == "outputs" and self.half else LIMITS[name]
        self.by_name.setdefault(name, Stage(name, limit)).departures.append(departure)

    def __iter__(self) -> Iterator[Stage]:
        return iter([self.by_name[name] for name in LIMITS if name in self.by_name])

    @property
    def first_departure(self) -> Stage | None:
        """The first stage that departs by more than is tolerated."""
        return next((stage for stage in self if not stage.is_within), None)


def difference_of_outputs(ours: Sequence[Array], plain: Sequence[Array]) -> float:
    """The largest difference between outputs, relative to the largest value of each; 1 where shapes differ.

    Models that sort what they find may put equal things in another order: values are compared sorted as well.
    """
    worst = 0.0
    for own, other in zip(ours, plain, strict=True):
        if own.shape != other.shape:
            return 1.0
        if own.size:
            worst = max(worst, min(_difference(own, other), _difference(np.sort(own, None), np.sort(other, None))))
    return worst


def _difference(own: Array, other: Array) -> float:
    there = np.asarray(other, np.float64)
    return float(np.abs(np.asarray(own, np.float64) - there).max() / max(np.abs(there).max(), 1.0))


def difference_of_findings(ours: object, plain: object) -> float:
    """The share of what the reference finds that is not found alike."""
    if isinstance(ours, Candidates) and isinstance(plain, Candidates):
        return unmatched((ours.xyxy, ours.confidence, ours.class_id), (plain.xyxy, plain.confidence, plain.class_id))
    if isinstance(ours, Scores) and isinstance(plain, Scores):
        pairs = list(zip(ours.values, plain.values, strict=True))
        return float(
            np.mean([own.argmax() != other.argmax() or np.abs(own - other).max() > 0.02 for own, other in pairs])
        )
    if isinstance(ours, Vector) and isinstance(plain, Vector):
        return float(cosine(ours.values, plain.values) < 0.999)
    if isinstance(ours, Points) and isinstance(plain, Points):
        spread = np.ptp(plain.values[:, :2], axis=0).max() + 1e-6
        return float(np.mean(np.abs(ours.values[:, :2] - plain.values[:, :2]).max(axis=1) > 0.02 * spread))
    if isinstance(ours, ClassMap) and isinstance(plain, ClassMap):
        return float(np.mean(ours.scores.argmax(axis=0) != plain.scores.argmax(axis=0)))
    if isinstance(ours, Text) and isinstance(plain, Text):
        return float(ours.text != plain.text)
    raise TypeError(f"findings of two kinds: {type(ours).__name__} and {type(plain).__name__}")


def _is_other_choice(own: Array, other: Array) -> bool:
    return bool(own.argmax() != other.argmax() or np.abs(own - other).max() > 0.02)


Found = tuple[Array, Array, Array]
"""Boxes (N, 4), confidences (N,), classes (N,)."""


def unmatched(ours: Found, plain: Found, *, iou: float = 0.95, confidence: float = 0.02) -> float:
    """The share of boxes, of either side, without one of the same class on the other at that IoU and confidence."""
    count = len(ours[1]) + len(plain[1])
    if not count:
        return 0.0
    alike = iou_matrix(np.asarray(ours[0], np.float32), np.asarray(plain[0], np.float32)) >= iou
    alike &= np.abs(ours[1][:, None] - plain[1][None]) <= confidence
    alike &= ours[2][:, None] == plain[2][None]
    return float((~alike.any(axis=1)).sum() + (~alike.any(axis=0)).sum()) / count


def cosine(a: Array, b: Array) -> float:
    """The cosine of the angle between two vectors."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12))
