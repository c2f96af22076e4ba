"""The head contract: decode a model's raw outputs to candidates, scores, keypoints, a class map, a vector or text.

    outputs of one image  ->  head.decode(outputs, context)  ->  a result, in pixels of the network's input

Non-maximum suppression, filtering and the conversion to frame pixels follow a head and are the same for all heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sightline.graph.documented import Documented
from sightline.media.boxes import Boxes
from sightline_plugins.nms.options import NmsOptions

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = tuple[int | None, ...]
SizeWh: TypeAlias = tuple[int, int]
TaskName: TypeAlias = Literal["detect", "classify", "segment", "pose", "embed", "read"]
ScoreForm: TypeAlias = Literal["auto", "probabilities", "logits"]
Strides: TypeAlias = tuple[Annotated[int, Field(ge=1)], ...]
"""Pixels of the network's input from one cell to the next, for each level."""
IMAGENET: Mapping[str, Any] = MappingProxyType({"mean": (123.675, 116.28, 103.53), "scale": (58.395, 57.12, 57.375)})
"""Mean and scale of ImageNet's levels, RGB."""
TOP_LEFT: Mapping[str, Any] = MappingProxyType({"fit": "letterbox", "align": "top_left"})
"""Keep the aspect ratio, and pad on the right and below."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Boxes before non-maximum suppression, with optional columns. Row i of every column describes box i.

    xyxy        float32 (N, 4) pixels of the network's input, half-open, not clipped; encloses `corners` if given
    confidence  float32 (N,)   0..1
    class_id    int32 (N,)
    points      float32 (N, K, 3) x, y in pixels of the network's input and confidence 0..1 of keypoints or landmarks
    corners     float32 (N, 4, 2) corners of an oriented box, clockwise on the screen, in pixels of the network's input
    masks       float32 (N, C) coefficients of the `prototypes`
    prototypes  float32 (C, h, w) over the whole network's input, shared by all rows: the mask of a row is where
                `coefficients @ prototypes` is above 0 (a logistic value above 0.5), inside its box
    shapes      object (N,) the `Mask` of each row in frame pixels; heads leave it empty, `segment` fills it
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
        """Return candidates from arrays of any numeric dtype."""
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
        """Return the rows of a boolean mask or an index array."""
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
        """Return the rows whose box and confidence are finite; this same object when all are.

        Keypoints that are not finite become (0, 0) with confidence 0.
        """
        known = self
        if self.points is not None and not np.isfinite(self.points).all():
            are_finite = np.isfinite(self.points).all(axis=2, keepdims=True)
            known = replace(self, points=np.where(are_finite, self.points, np.float32(0)))
        columns = [
            column for column in (known.xyxy, known.confidence, known.corners, known.masks) if column is not None
        ]
        if all(np.isfinite(column).all() for column in columns):
            return known
        good = np.ones(len(known), np.bool_)
        for column in columns:
            good &= np.isfinite(column).all(axis=tuple(range(1, column.ndim)))
        return known.select(good)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Class probabilities: one float32 (C,) vector for each output of the model that classifies."""

    values: tuple[npt.NDArray[np.float32], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """An embedding, float32 (D,), not yet normalized."""

    values: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Keypoints of the one object in the image, float32 (K, 3): x, y in pixels of the network's input, confidence."""

    values: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ClassMap:
    """A score for each class and pixel over the whole network's input; the highest one wins.

    `scores` float32 (C, h, w) are logits, or probabilities where `probabilities` is set. A single row is one class
    against the rest: above 0 as a logit, above 0.5 as a probability. `class_id` int32 (C,) is the class of each row;
    None means 0, 1, 2 and so on.
    """

    scores: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int32] | None = None
    probabilities: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Recognized text, and its mean confidence 0..1."""

    text: str
    confidence: float


RESULT_TYPES = (Candidates, Scores, Vector, Points, ClassMap, Text)
Result_co = TypeVar("Result_co", covariant=True)


class HeadOptions(Documented):
    """Base of a head's options (`head_options`): immutable, no other keys than the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Options = TypeVar("Options", bound=HeadOptions)


@dataclass(frozen=True, slots=True)
class DecodeContext:
    """Facts about the image and the model whose outputs a head decodes.

    size_wh     size of the network's input for this image
    confidence  lowest confidence of interest; a head filters by it before it decodes boxes
    outputs     names of the outputs, in order
    labels      the model's labels (for text: the alphabet)
    options     the head's own options, an instance of `Head.options`; None for the defaults
    output_ops  operators that produce the outputs, such as `Softmax`; empty when unknown
    """

    size_wh: SizeWh
    confidence: float = 0.0
    outputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    options: BaseModel | None = None
    output_ops: tuple[str, ...] = ()

    def options_or(self, default: Options) -> Options:
        """Return the options if they have the type of the default, else the default."""
        return self.options if isinstance(self.options, type(default)) else default

    def op_type(self, place: int) -> str:
        """Return the operator that produces the output at that place; empty when unknown."""
        return self.output_ops[place] if place < len(self.output_ops) else ""


class Decode(Protocol[Result_co]):
    """Read the outputs of one image. Pure and stateless: may be called by any thread, keeps no array."""

    def __call__(self, outputs: Sequence[Array], context: DecodeContext, /) -> Result_co:
        """Return what the outputs mean, in pixels of the network's input.

        `outputs` are the engine's arrays for one image (batch 1), in the model's order; they must not be changed.
        Raises ModelError when they cannot be outputs of this head's family.
        """


class MatchScore(IntEnum):
    """How well outputs fit a head: not at all, possibly (other heads fit too), or as of no other known family."""

    NONE = 0
    POSSIBLE = 1
    CERTAIN = 2

    @classmethod
    def certain_if(cls, fits: bool) -> MatchScore:
        """Return CERTAIN or NONE."""
        return cls.CERTAIN if fits else cls.NONE


class OutputSpec(Protocol):
    """Name, shape and element type of a model's output."""

    @property
    def name(self) -> str:
        """Name of the output."""

    @property
    def shape(self) -> Shape:
        """Shape; None for a size that is open."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What identifies a model's family before it runs.

    outputs        specs of the outputs, in order
    size_wh        size of the network's input, (0, 0) when it is open
    classes        number of labels, None when unknown
    output_ops     operators that produce the outputs, such as `Softmax`; empty when unknown
    exported_task  task named by the file's metadata in the exporter's words (Ultralytics: detect, segment, pose, obb)
    """

    outputs: tuple[OutputSpec, ...]
    size_wh: SizeWh
    classes: int | None = None
    output_ops: tuple[str, ...] = ()
    exported_task: str | None = None

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of the outputs."""
        return tuple(output.shape for output in self.outputs)


def no_match(signature: Signature) -> MatchScore:
    """Return NONE: the head has to be named."""
    del signature
    return MatchScore.NONE


@dataclass(frozen=True, slots=True)
class Head(Generic[Result_co]):
    """How the outputs of a family of models are read, and what its training code does before and after the network.

    Register one under the entry-point group `sightline.heads` by its `name`; `conformance.py` tests the contract.

    name           what `head:` names in YAML; equals the entry point's name
    decode         reads the outputs of one image
    task           the element the family is for; `detect` also accepts every head whose `result_type` is `Candidates`
    result_type    what `decode` returns: one of `RESULT_TYPES`
    match_score    how well a model's outputs fit; a head that never matches has to be named in YAML
    ranks          allowed numbers of dimensions of the first output; empty for any
    count_classes  number of classes, read from the outputs' shapes; None when they do not tell
    preprocessing  the family's usual pre-processing, by the fields of `Preprocessing`; cards and options override it
    nms            the family's usual suppression; `iou=1` for models that select their boxes themselves
    options        the head's own options (`head_options`), whose defaults are the family's usual values
    labels         labels of families that know one class
    family         the models that have such outputs, by the names that people know them by
    outputs        what the outputs look like, in one line
    """

    name: str
    decode: Decode[Result_co]
    task: TaskName = "detect"
    result_type: type = Candidates
    count_classes: Callable[[Sequence[Shape]], int | None] = lambda _: None
    match_score: Callable[[Signature], MatchScore] = no_match
    ranks: tuple[int, ...] = ()
    preprocessing: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    nms: NmsOptions = field(default_factory=NmsOptions)
    options: type[BaseModel] | None = None
    labels: tuple[str, ...] = ()
    family: str = ""
    outputs: str = ""
