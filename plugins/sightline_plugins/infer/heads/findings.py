"""What heads give: the meaning of one picture's outputs, in pixels of the network's input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Boxes before non-maximum suppression, and what some models say of each. All rows belong together.

    xyxy        float32 (N, 4) pixels of the network's input, half-open, not clipped; around `corners` if there are any
    confidence  float32 (N,)   0..1
    class_id    int32 (N,)
    points      float32 (N, K, 3) x, y in pixels of the network's input and confidence 0..1 of keypoints or landmarks
    corners     float32 (N, 4, 2) corners of an oriented box, clockwise on the screen, in pixels of the network's input
    masks       float32 (N, C) coefficients of the `prototypes`, which together make each object's mask
    prototypes  float32 (C, h, w) over the whole network's input, shared by all rows: the mask is where
                `coefficients @ prototypes` is above 0 (a logistic value above 0.5) inside the box
    shapes      object (N,) the `Mask` of each, in pixels of the picture; no head gives it, tasks make it of `masks`
    """

    xyxy: Boxes
    confidence: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int32]
    points: npt.NDArray[np.float32] | None = None
    corners: npt.NDArray[np.float32] | None = None
    masks: npt.NDArray[np.float32] | None = None
    prototypes: npt.NDArray[np.float32] | None = None
    shapes: Array | None = None

    @classmethod
    def from_arrays(
        cls,
        xyxy: Array,
        confidence: Array,
        class_id: Array,
        *,
        points: Array | None = None,
        corners: Array | None = None,
        masks: Array | None = None,
        prototypes: Array | None = None,
    ) -> Candidates:
        """Candidates from arrays of any numeric types, converted."""
        return cls(
            np.asarray(xyxy, np.float32).reshape(-1, 4),
            np.asarray(confidence, np.float32).reshape(-1),
            np.asarray(class_id, np.int32).reshape(-1),
            points=None if points is None else np.asarray(points, np.float32),
            corners=None if corners is None else np.asarray(corners, np.float32),
            masks=None if masks is None else np.asarray(masks, np.float32),
            prototypes=None if prototypes is None else np.asarray(prototypes, np.float32),
        )

    def __len__(self) -> int:
        return len(self.confidence)

    def select(self, rows: npt.NDArray[Any]) -> Candidates:
        """The rows of a mask or of an index array."""
        return Candidates(
            self.xyxy[rows],
            self.confidence[rows],
            self.class_id[rows],
            points=None if self.points is None else self.points[rows],
            corners=None if self.corners is None else self.corners[rows],
            masks=None if self.masks is None else self.masks[rows],
            prototypes=self.prototypes,
            shapes=None if self.shapes is None else self.shapes[rows],
        )

    def finite(self) -> Candidates:
        """Those whose box and confidence are finite numbers; these same candidates when all are.

        Keypoints that are not finite become (0, 0) with confidence 0.
        """
        known = self
        if self.points is not None and not np.isfinite(self.points).all():
            there = np.isfinite(self.points).all(axis=2, keepdims=True)
            known = replace(self, points=np.where(there, self.points, np.float32(0)))
        good = np.isfinite(known.xyxy).all(axis=1) & np.isfinite(known.confidence)
        for column in (known.corners, known.masks):
            if column is not None:
                good &= np.isfinite(column).all(axis=tuple(range(1, column.ndim)))
        return known if good.all() else known.select(good)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Probabilities of classes: one float32 (C,) vector for each of the model's outputs that is a choice."""

    values: tuple[npt.NDArray[np.float32], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """An embedding, float32 (D,), not normalised yet."""

    values: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Keypoints of the one thing in the picture, float32 (K, 3): x, y in pixels of the network's input, confidence."""

    values: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ClassMap:
    """A score for each class and pixel over the whole network's input; the highest one wins.

    `scores` float32 (C, h, w) are logits, or `probabilities`; a single row says where the one class is, above 0 as a
    logit, above 0.5 as a probability. `class_id` int32 (C,) names the class of each row, None for 0, 1, 2 and so on.
    """

    scores: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int32] | None = None
    probabilities: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """What was read, and how sure the model is of it on average, 0..1."""

    text: str
    confidence: float
