"""Postprocessors: read a model's raw outputs, and attach the results to the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.media import Batch
from sightline_plugins.heads.head import Array, Candidates
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.infer.track_memory import TrackEntry
from sightline_plugins.nms import NmsOptions


@dataclass(frozen=True, slots=True, eq=False)
class DetectionRules:
    """Which candidates become objects.

    `limits` (classes + 1,) holds the least confidence for each class, the last one for classes beyond; `confidence` is
    the least of them. `wanted` (classes + 1,) says which classes become objects, None for all.
    """

    nms: NmsOptions
    confidence: float
    limits: npt.NDArray[np.float32]
    wanted: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True, eq=False)
class SuppressedBoxes:
    """What is left of one image's boxes where a GPU has decoded and suppressed them.

    `candidates` are above their limits, in pixels of the network's input; `found` is how many there were before
    suppression, `invalid` how many others were no finite numbers.
    """

    candidates: Candidates
    found: int
    invalid: int


Result = TypeVar("Result")
TargetResult: TypeAlias = tuple[InferenceTarget, Result | None]


class Postprocessor(Generic[Result]):
    """Reads outputs and attaches answers. One operator owns it; `learn` to `attach` are called in the order of frames.

    `read` may be called before its turn and in another thread, but never twice at once: an answer depends on the
    outputs of its subject alone.

    An answer is in pixels of the source image, whatever the network's input was.
    """

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Result | None:
        """The answer in the model's outputs for a subject; None when the outputs are no numbers to be used."""
        raise NotImplementedError

    @property
    def box_rules(self) -> DetectionRules | None:
        """The rules for a task that boxes alone are enough for, after suppression; None for one that reads outputs."""
        return None

    def read_boxes(self, boxes: SuppressedBoxes, target: InferenceTarget, batch: Batch) -> Result:
        """The answer in boxes that were decoded and suppressed by `box_rules` on a GPU; as `read`."""
        raise NotImplementedError

    def is_empty(self, answer: Result) -> bool:
        """Whether an answer holds nothing, so that outputs which are not all numbers may be the reason."""
        del answer
        return False

    def learn(self, slot: TrackEntry[Result], answer: Result, target: InferenceTarget, batch: Batch) -> Result:
        """Keep an answer for the subject's track; what is known of the track now. The newest answer, unless overridden
        by a task that lets answers vote.
        """
        del target, batch
        slot.known = answer
        return answer

    def recall(self, slot: TrackEntry[Result], target: InferenceTarget, batch: Batch) -> Result | None:
        """What is known of the subject's track, where it stands now."""
        del target, batch
        return slot.known

    def attach(self, batch: Batch, answered: Sequence[TargetResult[Result]]) -> Batch:
        """The batch with the answers. Subjects stand in the order of their frames; None says that nothing is known."""
        raise NotImplementedError

    def totals(self) -> Mapping[str, Any]:
        """What was counted, for the report."""
        return {}
