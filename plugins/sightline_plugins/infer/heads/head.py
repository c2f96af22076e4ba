"""What a head is: a pure function from the raw outputs of one picture to what they mean.

What they mean is one of the kinds in `findings.py`: candidates (boxes), scores, a vector, points, a class map, text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel

from sightline_plugins.infer.engines.protocol import TensorSpec
from sightline_plugins.infer.heads.findings import Array, Candidates
from sightline_plugins.nms import NmsOptions

Shape = tuple[int | None, ...]
SizeWh = tuple[int, int]
TaskName: TypeAlias = Literal["detect", "classify", "segment", "pose", "embed", "read"]

Finding_co = TypeVar("Finding_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a head knows about the picture and the model whose outputs it reads.

    `size_wh` is the size of the network's input for this picture, `outputs` are the names of the outputs in order,
    `labels` the model's labels (the alphabet, for text), `options` the head's own (an instance of `Head.options`).
    `endings` are the operators that make the outputs, such as `Softmax`; empty where that is not known.
    """

    size_wh: SizeWh
    confidence: float = 0.0
    outputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    options: BaseModel | None = None
    endings: tuple[str, ...] = ()


class Decode(Protocol[Finding_co]):
    """How a head reads outputs. Pure and stateless; it filters by confidence before it decodes anything."""

    def __call__(self, outputs: Sequence[Array], reading: Reading, /) -> Finding_co:
        """What the outputs (the engine's arrays of one picture, in its order) mean, in pixels of the network's input.

        Raises ModelError when the outputs can not be those of the head's family.
        """
        ...


class Likeness(IntEnum):
    """How well outputs fit a head: not at all, perhaps (others look alike), or as no other known family does."""

    NONE = 0
    POSSIBLE = 1
    SURE = 2


@dataclass(frozen=True, slots=True)
class Signature:
    """What tells a model's family: its outputs, the size of its input, the number of its labels where it is known.

    `endings` are the operators that make the outputs, such as `Softmax`. `made_for` is the task that the file's
    metadata names, in the exporter's words (Ultralytics: `detect`, `segment`, `pose`, `obb`).
    """

    outputs: tuple[TensorSpec, ...]
    size_wh: SizeWh
    classes: int | None = None
    endings: tuple[str, ...] = ()
    made_for: str | None = None

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the outputs."""
        return tuple(output.shape for output in self.outputs)


def _count_none(shapes: Sequence[Shape]) -> int | None:
    del shapes
    return None


def _never(signature: Signature) -> Likeness:
    del signature
    return Likeness.NONE


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
    finding: type = Candidates
    count_classes: Callable[[Sequence[Shape]], int | None] = _count_none
    likeness: Callable[[Signature], Likeness] = _never
    ranks: tuple[int, ...] = ()
    usual: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    nms: NmsOptions = field(default_factory=NmsOptions)
    options: type[BaseModel] | None = None
    labels: tuple[str, ...] = ()
