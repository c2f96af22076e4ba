"""Detections: boxes that are suppressed, filtered, converted to frame pixels and added to the batch as objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph.inspection import Explanation
from sightline.media import Batch, Objects, Origin, Skeleton
from sightline.media.boxes import Boxes, clip
from sightline.media.objects import Column
from sightline.media.shapes import usual_skeleton
from sightline_plugins.heads.head import Array, Candidates
from sightline_plugins.infer.box_limits import box_limits
from sightline_plugins.infer.inspection import explain_boxes
from sightline_plugins.infer.masks import cut_masks, moved_mask, united
from sightline_plugins.infer.options import CONFIDENCE, DetectionElement, ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.plausibility import PlausibilityCheck
from sightline_plugins.infer.postprocessing import (
    DetectionRules,
    Postprocessor,
    SuppressedBoxes,
    TargetResult,
    all_finite,
    movement,
    target_box,
)
from sightline_plugins.infer.selection import BoxSelector, visible
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.infer.track_memory import NO_CHILDREN, ChildNumbers, Children, TrackEntry, child_columns
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.nms.seams import merge_parts
from sightline_plugins.preprocess.placement import Placement, Region

NOTHING = Candidates.from_arrays(np.empty((0, 4)), np.empty(0), np.empty(0))
SkeletonOf = Callable[[int], Skeleton]
"""Returns the names and edges of a number of keypoints."""


def detection_rules(element: DetectionElement, plan: ModelPlan) -> DetectionRules:
    """Return which boxes become objects, by the element's options, then the model card, then the head's defaults."""
    labels, confidence = plan.labels, minimum_confidence(element, plan)
    limits = np.full(len(labels) + 1, confidence, np.float32)
    of_card = {} if element.confidence is not None else plan.card.class_confidence  # an option goes before the card
    by_class = {**of_card, **element.class_confidence}
    for name, value in by_class.items():
        limits[labels.index(name)] = value
    chosen = element.classes
    wanted = None if chosen is None else np.array([label in chosen for label in labels] + [False])
    lowest = min(confidence, *by_class.values(), confidence)
    moves_inside = element.compat is not None and element.on is None
    sizes = box_limits(element, labels)
    return DetectionRules(_nms_options(element, plan), lowest, limits, wanted, moves_inside, sizes)


def minimum_confidence(element: ModelElement, plan: ModelPlan) -> float:
    """Return the minimum confidence of boxes: the element's, else the model card's, else the default."""
    own = element.confidence if isinstance(element, DetectionElement) else None
    return next(value for value in (own, plan.card.confidence, CONFIDENCE) if value is not None)


def _nms_options(element: DetectionElement, plan: ModelPlan) -> NmsOptions:
    layers: list[Mapping[str, Any]] = [
        plan.card.nms.model_dump(),
        element.nms.model_dump(),
        {"iou": element.iou, "class_agnostic": element.class_agnostic, "max_detections": element.max_detections},
    ]
    given = {name: value for layer in layers for name, value in layer.items() if value is not None}
    usual = plan.head.nms if plan.head is not None else NmsOptions()
    if usual.iou >= 1 and "method" in given:
        given.setdefault("iou", NmsOptions().iou)
    return replace(usual, **given)


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """The result of one target: candidates in frame pixels, and the box (4,) of the object that was the target.

    On a tracked object, `numbers` identifies each candidate (N,), `children` gives the next ones their numbers, and
    `is_remembered` is set for candidates of an earlier frame. `had_no_candidates` is set where the outputs held none
    at all, not even suppressed or filtered ones.
    """

    candidates: Candidates
    box: Boxes | None = None
    numbers: ChildNumbers | None = None
    children: Children = NO_CHILDREN
    is_remembered: bool = False
    had_no_candidates: bool = False


class ObjectPostprocessor(Postprocessor[Detections]):
    """Adds detections to the batch: as objects of the frame, or as children of the objects they were found on.

    Subclasses read the outputs, and merge what several regions of one frame show.
    """

    def __init__(self, origin: Origin, *, skeleton_of: SkeletonOf = usual_skeleton) -> None:
        self._origin = origin
        self._skeleton_of = skeleton_of

    def merged(
        self, tables: Sequence[Candidates], *, regions: Sequence[Region], size_wh: tuple[int, int]
    ) -> Candidates:
        """Return what was found in several regions (in pixels) of one frame as one table."""
        raise NotImplementedError

    def is_empty(self, result: Detections) -> bool:
        """Return whether the outputs held no candidates."""
        return result.had_no_candidates

    def remember(
        self, entry: TrackEntry[Detections], result: Detections, target: InferenceTarget, batch: Batch
    ) -> Detections:
        """Store the newest detections, numbered so that each keeps its number over the object's life."""
        found, box = result.candidates, batch.objects.xyxy[target.object]
        before = NO_CHILDREN if entry.result is None else entry.result.children
        numbers, children = before.numbered(found.xyxy, found.class_id, parent=box)
        return super().remember(entry, replace(result, numbers=numbers, children=children), target, batch)

    def recall(self, entry: TrackEntry[Detections], target: InferenceTarget, batch: Batch) -> Detections | None:
        """Return what was found on the object, moved along with its box, without what has left the frame."""
        known = entry.result
        if known is None or known.box is None or not len(known.candidates):
            return known
        found = moved(known.candidates, known.box, batch.objects.xyxy[target.object])
        found = replace(found, xyxy=clip(found.xyxy, size_wh=batch.frames[target.row].size_wh))
        stays = visible(found)
        numbers = known.numbers
        if not stays.all():
            found, numbers = found.select(stays), None if numbers is None else numbers[stays]
        return Detections(found, known.box, numbers=numbers, is_remembered=True)

    def attach(self, batch: Batch, results: Sequence[TargetResult[Detections]]) -> Batch:
        """Return the batch with more objects."""
        rows, parents, tables = [], [], []
        for group in _by_frame(results):
            target = group[0][0]
            tables.append(self.found(group, size_wh=batch.frames[target.row].size_wh))
            rows.append(target.row)
            parents.append(target.object)
        batch = _with_detected(batch, results)
        counts = [len(table) for table in tables]
        if not any(counts):
            return batch
        table = joined(tables)
        objects = Objects.from_columns(
            frame=np.full(counts[0], rows[0], np.int32) if len(tables) == 1 else np.repeat(rows, counts),
            xyxy=table.xyxy,
            confidence=table.confidence,
            class_id=table.class_id,
            source=self._origin,
            extra=self._structures(table),
        )
        if max(parents) < 0:
            return batch.with_objects(Objects.concat([batch.objects, objects]) if len(batch.objects) else objects)
        objects = objects.with_columns(**_child_columns(results))
        return batch.with_objects(batch.objects.with_children(objects, parents=np.repeat(parents, counts)))

    def found(self, results: Sequence[TargetResult[Detections]], *, size_wh: tuple[int, int]) -> Candidates:
        """Return what was found on one frame, or on one object, as one table. From any thread."""
        found = [NOTHING if result is None else result.candidates for _, result in results]
        if len(found) == 1:
            return found[0]
        regions = [target.placement.region_xyxy for target, _ in results]
        return self.merged(found, regions=regions, size_wh=size_wh)

    def _structures(self, found: Candidates) -> dict[str, npt.NDArray[Any]]:
        extra: dict[str, npt.NDArray[Any]] = {}
        if found.points is not None:
            extra["keypoints"] = found.points
            extra["skeleton"] = np.full(len(found), self._skeleton_of(found.points.shape[1]), np.object_)
        if found.corners is not None:
            extra["corners"] = found.corners
        if found.shapes is not None:
            extra["mask"] = found.shapes
        return extra


class DetectionPostprocessor(ObjectPostprocessor):
    """Makes objects of boxes. Detections that several regions of a frame share are merged.

    With `masks`, objects get the masks that the model gives for them; only those of objects that stay are made.
    `invalid_boxes` counts boxes that were left out because they were not finite.
    """

    def __init__(
        self,
        plan: ModelPlan,
        rules: DetectionRules,
        *,
        element_id: str,
        warn: Callable[[str], None],
        skeleton_of: SkeletonOf = usual_skeleton,
        masks: bool = False,
    ) -> None:
        super().__init__(Origin(element_id, plan.labels), skeleton_of=skeleton_of)
        self.invalid_boxes = 0
        self._plan = plan
        self._rules = rules
        self._selector = BoxSelector(rules)
        self._masks = masks
        self._warn = warn
        self._plausibility = PlausibilityCheck([output.name for output in plan.outputs], warn=warn)
        if not plan.labels:
            warn("the model has no class names, so classes are shown as numbers: `labels:` or a model card names them")

    @property
    def detection_rules(self) -> DetectionRules | None:
        return None if self._masks else self._rules

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Detections | None:
        rules = self._rules
        input_wh = target.placement.size_wh
        raw: Candidates = self._plan.decode(outputs, size_wh=input_wh, confidence=rules.confidence)
        if target.object < 0:
            self._plausibility.add(raw, size_wh=input_wh, outputs=outputs)
        if not len(raw):
            return Detections(raw, target_box(target, batch), had_no_candidates=True)
        if self._masks and raw.prototypes is not None and not all_finite([raw.prototypes]):
            return None
        size_wh = batch.frames[target.row].size_wh
        found, invalid = self._selector.select(raw, target.placement, size_wh=size_wh)
        self._count_invalid(invalid)
        return self._detections(found, target, batch)

    def read_boxes(self, boxes: SuppressedBoxes, target: InferenceTarget, batch: Batch) -> Detections:
        if target.object < 0:
            self._plausibility.add(boxes.candidates, size_wh=target.placement.size_wh)
        self._count_invalid(boxes.invalid)
        if not boxes.found and not boxes.invalid:
            return Detections(boxes.candidates, target_box(target, batch), had_no_candidates=True)
        size_wh = batch.frames[target.row].size_wh
        found = self._selector.place(boxes.candidates, target.placement, size_wh=size_wh)
        return self._detections(found, target, batch)

    def explain(self, outputs: Sequence[Array], placement: Placement, *, size_wh: tuple[int, int]) -> Explanation:
        return explain_boxes(self._plan, self._rules, outputs, placement, size_wh=size_wh)

    def merged(
        self, tables: Sequence[Candidates], *, regions: Sequence[Region], size_wh: tuple[int, int]
    ) -> Candidates:
        """Return one row for each object, however many regions show it, without seams where regions end."""
        found = joined(tables)
        parts = merge_parts(
            found.xyxy,
            found.confidence,
            found.class_id,
            part=np.repeat(np.arange(len(tables)), [len(table) for table in tables]),
            regions=np.array(regions, np.float64),
            size_wh=size_wh,
            options=self._rules.nms,
            corners=found.corners,
        )
        whole = found.select(parts.rows)
        for row, pieces in enumerate(parts.things):
            if len(pieces) > 1:
                _merge_pieces(whole, row, found.select(np.array(pieces, np.intp)))
        return replace(whole, xyxy=parts.xyxy, corners=parts.corners)

    def found(self, results: Sequence[TargetResult[Detections]], *, size_wh: tuple[int, int]) -> Candidates:
        found = super().found(results, size_wh=size_wh)
        sizes = self._rules.sizes
        is_frame = results[0][0].object < 0  # what is found on an object has its children's numbers by now
        return found if sizes is None or not is_frame else sizes.select(found)

    def finish(self) -> None:
        self._plausibility.finish()

    def totals(self) -> Mapping[str, int]:
        """Return how many boxes were left out because they were not finite, if any."""
        return {"invalid_boxes": self.invalid_boxes} if self.invalid_boxes else {}

    def _detections(self, found: Candidates, target: InferenceTarget, batch: Batch) -> Detections:
        """Cut the masks of candidates in the frame, and drop what they were made of."""
        if self._rules.sizes is not None and target.object >= 0:
            found = self._rules.sizes.select(found)
        if self._masks:
            found = replace(found, shapes=cut_masks(found, target.placement))
        if found.masks is not None:
            found = replace(found, masks=None, prototypes=None)
        return Detections(found, target_box(target, batch))

    def _count_invalid(self, count: int) -> None:
        if count and not self.invalid_boxes:
            self._warn("the model returned boxes that are not finite numbers; they are ignored")
        self.invalid_boxes += count


def moved(found: Candidates, before: Boxes, now: Boxes) -> Candidates:
    """Return the candidates of an object that moved from the box `before` (4,) to the box `now`."""
    scale, shift = movement(before, now)
    points, corners, shapes = found.points, found.corners, found.shapes
    if points is not None:
        points = np.concatenate([points[..., :2] * scale + shift, points[..., 2:]], axis=-1)
    if shapes is not None:
        shapes = np.fromiter((moved_mask(mask, scale=scale, shift=shift) for mask in shapes), np.object_, len(shapes))
    return replace(
        found,
        xyxy=found.xyxy * np.tile(scale, 2) + np.tile(shift, 2),
        points=points,
        corners=None if corners is None else corners * scale + shift,
        shapes=shapes,
    )


def joined(tables: Sequence[Candidates]) -> Candidates:
    """Return the rows of all tables, one after the other; all come from the same model."""
    if len(tables) == 1:
        return tables[0]
    filled = [table for table in tables if len(table)]
    if len(filled) <= 1:
        return filled[0] if filled else NOTHING

    def column(name: str) -> npt.NDArray[Any] | None:
        parts = [getattr(table, name) for table in filled]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    return Candidates(
        np.concatenate([table.xyxy for table in filled]),
        np.concatenate([table.confidence for table in filled]),
        np.concatenate([table.class_id for table in filled]),
        points=column("points"),
        corners=column("corners"),
        shapes=column("shapes"),
    )


def _merge_pieces(whole: Candidates, row: int, pieces: Candidates) -> None:
    """Write the best of each keypoint and the masks of all pieces to a row of a table that the caller owns."""
    if whole.points is not None and pieces.points is not None:
        best = pieces.points[..., 2].argmax(axis=0)
        whole.points[row] = pieces.points[best, np.arange(len(best))]
    if whole.shapes is not None and pieces.shapes is not None:
        whole.shapes[row] = united(pieces.shapes.tolist())


def _child_columns(results: Sequence[TargetResult[Detections]]) -> dict[str, Column]:
    """Return the columns by which later steps identify objects found on an object."""
    found = [result for _, result in results if result is not None and len(result.candidates)]
    numbers = [
        np.full(len(result.candidates), -1, np.int32) if result.numbers is None else result.numbers for result in found
    ]
    counts = [len(result.candidates) for result in found]
    remembered = np.repeat([result.is_remembered for result in found], counts)
    return child_columns(np.concatenate(numbers), remembered=remembered)


def _by_frame(results: Sequence[TargetResult[Detections]]) -> Iterator[list[TargetResult[Detections]]]:
    """Group results: those of one frame together, each of an object by itself."""
    group: list[TargetResult[Detections]] = []
    for target, result in results:
        if group and (target.object >= 0 or target.row != group[0][0].row or group[0][0].object >= 0):
            yield group
            group = []
        group.append((target, result))
    if group:
        yield group


def _with_detected(batch: Batch, results: Sequence[TargetResult[Detections]]) -> Batch:
    """Mark the frames that a detector ran on as a whole, and got finite numbers for."""
    if any(target.object >= 0 for target, _ in results):
        return batch
    rows = {target.row for target, _ in results} - {target.row for target, result in results if result is None}
    return batch.with_detection(rows)
