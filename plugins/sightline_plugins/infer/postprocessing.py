"""Postprocessors: turn a model's raw outputs into results, and attach these to the batch.

Each task has its own: detections, class maps, labels, keypoints, text, embeddings, raw tensors, user functions. This
module imports nothing heavy, so that elements can define theirs beside their options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.graph.inspection import Explanation
from sightline.media import Batch, Objects, Origin
from sightline.media.boxes import Boxes
from sightline_plugins.native import INT, POINTER, SIZE, function, pointer

if TYPE_CHECKING:
    from sightline_plugins.heads.head import Array, Candidates
    from sightline_plugins.infer.box_limits import BoxLimits
    from sightline_plugins.infer.targets import InferenceTarget
    from sightline_plugins.infer.track_memory import TrackEntry
    from sightline_plugins.nms.options import NmsOptions
    from sightline_plugins.preprocess.placement import Placement

Result = TypeVar("Result")
Attached = TypeVar("Attached")
TargetResult: TypeAlias = "tuple[InferenceTarget, Result | None]"
"""A target and its result; None when nothing is known."""
Attribute: TypeAlias = str | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, Attribute]
_all_finite = function("all_finite", POINTER, SIZE, result=INT)


@dataclass(frozen=True, slots=True, eq=False)
class DetectionRules:
    """Which candidates become objects.

    `limits` float32 (classes + 1,) holds the minimum confidence of each class, the last one for classes beyond;
    `confidence` is the lowest of them. `wanted` bool (classes + 1,) marks the classes that become objects, None for
    all.
    """

    nms: NmsOptions
    confidence: float
    limits: npt.NDArray[np.float32]
    wanted: npt.NDArray[np.bool_] | None
    moves_inside: bool = False
    """Whether boxes that begin outside of the frame are moved into it, and none is cut, as DeepStream does."""
    sizes: BoxLimits | None = None
    """How large the boxes of a frame have to be, and how many of a class stay, after parts of it are merged."""


@dataclass(frozen=True, slots=True, eq=False)
class SuppressedBoxes:
    """The boxes of one target that a GPU has decoded and suppressed.

    `candidates` are above their limits, in pixels of the network's input. `found` counts the boxes before suppression,
    `invalid` those that were left out because they were not finite.
    """

    candidates: Candidates
    found: int
    invalid: int


class Postprocessor(Generic[Result]):
    """Turns outputs into results and attaches these to the batch. Owned by one operator.

    `read` may run ahead and in another thread, but never twice at once: a result depends on the outputs of its target
    alone. `remember`, `recall` and `attach` are called in the order of frames. Results are in pixels of the source
    frame, whatever the network's input was.
    """

    @property
    def detection_rules(self) -> DetectionRules | None:
        """The rules by which a GPU may decode and suppress boxes; None for a postprocessor that needs the outputs."""
        return None

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Result | None:
        """Return the result in the outputs of a target; None when the outputs are not usable numbers."""
        raise NotImplementedError

    def read_boxes(self, boxes: SuppressedBoxes, target: InferenceTarget, batch: Batch) -> Result:
        """Return the result in boxes that a GPU has suppressed by `detection_rules`; otherwise as `read`."""
        raise NotImplementedError

    def is_empty(self, result: Result) -> bool:
        """Return whether a result holds nothing, so that non-finite outputs may be the reason."""
        del result
        return False

    def remember(self, entry: TrackEntry[Result], result: Result, target: InferenceTarget, batch: Batch) -> Result:
        """Store a result for the target's track, and return what is known of the track: here the newest result."""
        del target, batch
        entry.result = result
        return result

    def recall(self, entry: TrackEntry[Result], target: InferenceTarget, batch: Batch) -> Result | None:
        """Return what is known of the target's track, at its current position."""
        del target, batch
        return entry.result

    def attach(self, batch: Batch, results: Sequence[TargetResult[Result]]) -> Batch:
        """Return the batch with the results, whose targets are in the order of frames."""
        raise NotImplementedError

    def explain(self, outputs: Sequence[Array], placement: Placement, *, size_wh: tuple[int, int]) -> Explanation:
        """Return what finite outputs hold for a part of a frame of `size_wh`, before anything is left out. From any
        thread; nothing is remembered.
        """
        del outputs, placement, size_wh
        return Explanation()

    def finish(self) -> None:
        """All streams have ended: judge what was seen."""

    def totals(self) -> Mapping[str, Any]:
        """Return what was counted, for the report."""
        return {}


def all_finite(outputs: Sequence[npt.NDArray[Any]]) -> bool:
    """Return whether every number of the outputs is finite."""
    return all(_is_finite(output) for output in outputs)


def _is_finite(output: npt.NDArray[Any]) -> bool:
    if output.dtype == np.float32 and output.flags.c_contiguous:
        return bool(_all_finite(pointer(output), output.size))
    return output.dtype.kind != "f" or bool(np.isfinite(output).all())


def movement(before: Boxes, now: Boxes) -> tuple[Boxes, Boxes]:
    """Return the scale (2,) and shift (2,) that move a box (4,) from `before` to `now`: x * scale + shift."""
    scale = (now[2:] - now[:2]) / np.maximum(before[2:] - before[:2], np.float32(1e-6))
    return scale, now[:2] - before[:2] * scale


def target_box(target: InferenceTarget, batch: Batch) -> Boxes | None:
    """Return the box (4,) of the object that is the target; None for a part of the frame."""
    return batch.objects.xyxy[target.object] if target.object >= 0 else None


def target_region(target: InferenceTarget, size_wh: tuple[int, int]) -> Boxes:
    """Return the upright box (4,) of the part of a frame that a target shows, in pixels, clipped to the frame."""
    width, height = size_wh
    region = np.array(target.placement.region_xyxy, np.float32)
    return np.clip(region, 0, [width, height, width, height]).astype(np.float32)


def split_targets(
    results: Sequence[tuple[InferenceTarget, Attached]],
) -> tuple[list[tuple[int, Attached]], list[tuple[InferenceTarget, Attached]]]:
    """Split results into those of objects, with the rows of these, and those of parts of frames."""
    of_objects = [(target.object, result) for target, result in results if target.object >= 0]
    return of_objects, [(target, result) for target, result in results if target.object < 0]


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """Attributes of an object; `confidence` and `class_id` are those of an object that stands for a part of a frame."""

    attributes: Attributes
    confidence: float = 1.0
    class_id: int = 0


def with_descriptions(
    batch: Batch, described: Sequence[tuple[InferenceTarget, Description]], *, origin: Origin
) -> Batch:
    """Return the batch with attributes on the objects, or with one more object per part of a frame."""
    of_objects, of_frames = split_targets(described)
    objects = with_attributes(batch.objects, [(row, own.attributes) for row, own in of_objects])
    if of_frames:
        found = region_objects(
            [target for target, _ in of_frames],
            batch,
            origin=origin,
            confidence=[own.confidence for _, own in of_frames],
            class_id=[own.class_id for _, own in of_frames],
        )
        rows = [(row, own.attributes) for row, (_, own) in enumerate(of_frames)]
        objects = Objects.concat([objects, with_attributes(found, rows)])
    return batch if objects is batch.objects else batch.with_objects(objects)


def region_objects(
    targets: Sequence[InferenceTarget],
    batch: Batch,
    *,
    origin: Origin,
    confidence: Sequence[float] | None = None,
    class_id: Sequence[int] | None = None,
) -> Objects:
    """Return an object for each part of a frame: by default of class 0, with confidence 1."""
    return Objects.from_columns(
        frame=[target.row for target in targets],
        xyxy=[target_region(target, batch.frames[target.row].size_wh) for target in targets],
        confidence=np.ones(len(targets)) if confidence is None else confidence,
        class_id=np.zeros(len(targets)) if class_id is None else class_id,
        source=origin,
    )


def with_attributes(objects: Objects, rows: Sequence[tuple[int, Attributes]]) -> Objects:
    """Return a table with attributes at some rows; the other rows keep theirs."""
    columns: dict[str, tuple[list[int], list[Attribute]]] = {}
    for row, attributes in rows:
        for name, value in attributes.items():
            places, values = columns.setdefault(name, ([], []))
            places.append(row)
            values.append(value)
    for name, (places, values) in columns.items():
        objects = objects.with_values(name, rows=places, values=_column(values))
    return objects


def _column(values: Sequence[Attribute]) -> npt.NDArray[np.generic]:
    if isinstance(values[0], float):
        return np.array(values, np.float32)
    if isinstance(values[0], str):
        return np.array(values)
    column = np.empty(len(values), np.object_)
    column[:] = values
    return column
