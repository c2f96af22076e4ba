"""The contract for operators that can show how they came to a result, for one frame that somebody inspects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from sightline.graph.operator import Pending
from sightline.media import Batch, Surface

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RawBox:
    """A box as a network gave it, in pixels of the frame. `survives` says that no more certain box of the network
    suppresses it, whatever its own confidence; `is_kept` that it became an object.
    """

    xyxy: tuple[float, float, float, float]
    label: str
    confidence: float
    survives: bool
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Score:
    """How likely a class is by one output of a network that classifies."""

    output: str
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a network gave for one part of a frame. Both are empty for networks that give something else.

    `boxes` holds the most certain ones first, down to a confidence far below the `threshold` from which they become
    objects; `scores` the likeliest classes of each output.
    """

    boxes: tuple[RawBox, ...] = ()
    scores: tuple[Score, ...] = ()
    threshold: float | None = None


class ModelWork(Protocol):
    """How a model came to its result on one part of a frame. It holds no image, and may be read by any thread."""

    @property
    def object_row(self) -> int:
        """The row, among the objects of the frame before the step, of the object in that part; -1 for none."""
        ...

    @property
    def corners(self) -> tuple[Point, Point, Point, Point]:
        """The corners of the part, clockwise from its top left, in pixels of the frame."""
        ...

    @property
    def note(self) -> str:
        """Why less is known than usual, such as that the model did not run; empty otherwise."""
        ...

    def explain(self) -> Explanation:
        """Return what the network gave."""
        ...

    def input_of(self, surface: Surface) -> npt.NDArray[np.uint8]:
        """Return the network's input (height, width, 3), RGB without normalization, as it is made of an image of the
        frame in host memory.
        """
        ...


@runtime_checkable
class ShowsWork(Protocol):
    """An operator that can show how it came to the result on one frame."""

    def process_shown(self, batch: Batch, *, row: int, show: Callable[[ModelWork], None]) -> Batch | Pending:
        """Process a batch as `process` does, with the same result, and call `show` with each part of the frame `row`
        that a model was for, before the result is there.
        """
        ...
