"""What a head is: it turns the raw outputs of one picture into candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes
from sightline_plugins.infer.nms import NmsOptions

Array = npt.NDArray[Any]
Shape = tuple[int | None, ...]
SizeWh = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Boxes before non-maximum suppression.

    xyxy        float32 (N, 4) pixels of the network's input, half-open, not clipped
    confidence  float32 (N,)   0..1
    class_id    int32 (N,)
    """

    xyxy: Boxes
    confidence: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int32]

    @classmethod
    def from_arrays(cls, xyxy: Array, confidence: Array, class_id: Array) -> Candidates:
        """Candidates from arrays of any numeric types, converted."""
        return cls(
            np.asarray(xyxy, np.float32).reshape(-1, 4),
            np.asarray(confidence, np.float32).reshape(-1),
            np.asarray(class_id, np.int32).reshape(-1),
        )

    def select(self, rows: npt.NDArray[Any]) -> Candidates:
        """The rows of a mask or of an index array."""
        return Candidates(self.xyxy[rows], self.confidence[rows], self.class_id[rows])

    def finite(self) -> Candidates:
        """Those whose box and confidence are finite numbers; these same candidates when all are."""
        sums = self.xyxy.sum(axis=1) + self.confidence
        if np.isfinite(sums).all():
            return self
        return self.select(np.isfinite(self.xyxy).all(axis=1) & np.isfinite(self.confidence))


class Decode(Protocol):
    """How a head reads outputs. Pure and stateless; it filters by confidence before it decodes anything."""

    def __call__(self, outputs: Sequence[Array], /, *, size_wh: SizeWh, confidence: float) -> Candidates:
        """The candidates of one picture with at least that confidence.

        `outputs` are the engine's arrays in its order, `size_wh` is the size of the network's input.
        """
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """A family of models: how its outputs are read, and what its training code usually does before and after.

    `usual` holds the family's pre-processing by the names of `Preprocessing`'s fields; a card or an option overrides
    it. `ranks` are the numbers of dimensions that the first output may have (empty: any). `count_classes` tells the
    number of classes from the shapes of the outputs, None when they do not say it.
    """

    name: str
    decode: Decode
    count_classes: Callable[[Sequence[Shape]], int | None]
    ranks: tuple[int, ...] = ()
    usual: Mapping[str, Any] = field(default_factory=dict)
    nms: NmsOptions = field(default_factory=NmsOptions)
