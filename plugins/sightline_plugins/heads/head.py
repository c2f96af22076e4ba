"""The head contract: from the raw outputs of one image to candidates, scores, keypoints, maps, vectors or text.

What they mean is one of the kinds in `findings.py`: candidates (boxes), scores, a vector, points, a class map, text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from sightline.media.boxes import Boxes
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.nms import NmsOptions

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
    shapes      object (N,) the `Mask` of each, in pixels of the image; no head gives it, tasks make it of `masks`
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
    """Keypoints of the one thing in the image, float32 (K, 3): x, y in pixels of the network's input, confidence."""

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


Shape = tuple[int | None, ...]
SizeWh = tuple[int, int]
TaskName: TypeAlias = Literal["detect", "classify", "segment", "pose", "embed", "read"]

Finding_co = TypeVar("Finding_co", covariant=True)


@dataclass(frozen=True, slots=True)
class DecodeContext:
    """What a head knows about the image and the model whose outputs it reads.

    `size_wh` is the size of the network's input for this image, `outputs` are the names of the outputs in order,
    `labels` the model's labels (the alphabet, for text), `options` the head's own (an instance of `Head.options`).
    `endings` are the operators that make the outputs, such as `Softmax`; empty where that is not known.
    """

    size_wh: SizeWh
    confidence: float = 0.0
    outputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    options: BaseModel | None = None
    output_ops: tuple[str, ...] = ()


class Decode(Protocol[Finding_co]):
    """How a head reads outputs. Pure and stateless; it filters by confidence before it decodes anything."""

    def __call__(self, outputs: Sequence[Array], context: DecodeContext, /) -> Finding_co:
        """What the outputs (the engine's arrays of one image, in its order) mean, in pixels of the network's input.

        Raises ModelError when the outputs cannot be those of the head's family.
        """
        ...


class MatchScore(IntEnum):
    """How well outputs fit a head: not at all, perhaps (others look alike), or as no other known family does."""

    NONE = 0
    POSSIBLE = 1
    CERTAIN = 2


@dataclass(frozen=True, slots=True)
class Signature:
    """What tells a model's family: its outputs, the size of its input, the number of its labels where it is known.

    `endings` are the operators that make the outputs, such as `Softmax`. `exported_task` is the task that the file's
    metadata names, in the exporter's words (Ultralytics: `detect`, `segment`, `pose`, `obb`).
    """

    outputs: tuple[TensorSpec, ...]
    size_wh: SizeWh
    classes: int | None = None
    output_ops: tuple[str, ...] = ()
    exported_task: str | None = None

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the outputs."""
        return tuple(output.shape for output in self.outputs)


def _count_none(shapes: Sequence[Shape]) -> int | None:
    del shapes
    return None


def _never(signature: Signature) -> MatchScore:
    del signature
    return MatchScore.NONE


@dataclass(frozen=True, slots=True)
class Head(Generic[Finding_co]):
    """A family of models: how its outputs are read, and what its training code usually does before and after.

    `task` is what it is for, and `finding` the kind of finding that `decode` gives. `usual` holds the family's
    pre-processing by the names of `Preprocessing`'s fields; a card or an option overrides it. `likeness` tells from the
    outputs' shapes whether a model is of this family; `ranks` are the numbers of dimensions that the first output may
    have (empty: any). `count_classes` tells the number of classes from the shapes of the outputs, None when they do
    not say it. `options` are the head's own settings (`head_options`), a pydantic model whose defaults are the
    family's usual values. `labels` are those of families that know one kind of thing.
    """

    name: str
    decode: Decode[Finding_co]
    task: TaskName = "detect"
    result_type: type = Candidates
    count_classes: Callable[[Sequence[Shape]], int | None] = _count_none
    match_score: Callable[[Signature], MatchScore] = _never
    ranks: tuple[int, ...] = ()
    usual: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    nms: NmsOptions = field(default_factory=NmsOptions)
    options: type[BaseModel] | None = None
    labels: tuple[str, ...] = ()


ScoreForm = Literal["auto", "probabilities", "logits"]


class HeadOptions(BaseModel):
    """Settings of a head: immutable, no other keys than its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


Options = TypeVar("Options", bound=HeadOptions)


def options_of(context: DecodeContext, usual: Options) -> Options:
    """The options of a reading; `usual`, which are of the same kind, where it has none."""
    return context.options if isinstance(context.options, type(usual)) else usual
