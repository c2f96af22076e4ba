"""Detections: suppressed, filtered, converted to frame pixels and added to the batch as objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Origin, Skeleton
from sightline.media.boxes import Boxes, clip
from sightline.media.objects import Column
from sightline.media.shapes import usual_skeleton
from sightline_plugins.heads.head import Array, Candidates, DecodeContext
from sightline_plugins.infer.masks import cut_masks, moved_mask, united
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import DetectionRules, Postprocessor, SuppressedBoxes, TargetResult
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.infer.track_memory import NOBODY, Numbers, Siblings, TrackEntry, sibling_columns
from sightline_plugins.nms import NmsOptions, merge_parts, thin_out
from sightline_plugins.pixels.placement import Region

SkeletonOf = Callable[[int], Skeleton]
"""What so many keypoints are called and how they are joined."""


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """The answer of one subject: candidates in pixels of the image, and the box of the object they were found on.

    Of a tracked object also the number of each candidate (N,), what is remembered to number the next ones by, and
    whether the candidates were found on an earlier frame. `read_nothing` says that the outputs held no
    candidate at all.
    """

    candidates: Candidates
    on: Boxes | None = None
    numbers: Numbers | None = None
    siblings: Siblings = NOBODY
    is_remembered: bool = False
    read_nothing: bool = False


class ObjectPostprocessor(Postprocessor[Detections]):
    """Puts what was found into the batch: as objects of the image, or as children of the objects it was found on.

    Subclasses read the outputs, and say how finds of several regions of one image become one table.
    """

    def __init__(self, origin: Origin, *, skeleton_of: SkeletonOf = usual_skeleton) -> None:
        self._origin = origin
        self._skeleton_of = skeleton_of

    def is_empty(self, answer: Detections) -> bool:
        """Whether the head read nothing at all, not even boxes to be left out."""
        return answer.read_nothing

    def learn(
        self, slot: TrackEntry[Detections], answer: Detections, target: InferenceTarget, batch: Batch
    ) -> Detections:
        """The newest finds, with the numbers that they have over the object's life."""
        on = batch.objects.xyxy[target.object]
        before = NOBODY if slot.known is None else slot.known.siblings
        found = answer.candidates
        numbers, siblings = before.numbered(found.xyxy, found.class_id, on=on)
        return super().learn(slot, replace(answer, numbers=numbers, siblings=siblings), target, batch)

    def recall(self, slot: TrackEntry[Detections], target: InferenceTarget, batch: Batch) -> Detections | None:
        """What was found on the object, moved along with its box; what has left the image goes."""
        known = slot.known
        if known is None or known.on is None or not len(known.candidates):
            return known
        found = moved(known.candidates, known.on, batch.objects.xyxy[target.object])
        found = replace(found, xyxy=clip(found.xyxy, size_wh=batch.frames[target.row].size_wh))
        there: npt.NDArray[np.bool_] = np.all(found.xyxy[:, 2:] > found.xyxy[:, :2], axis=1)
        numbers = known.numbers
        if not there.all():
            found, numbers = found.select(there), None if numbers is None else numbers[there]
        return Detections(found, known.on, numbers=numbers, is_remembered=True)

    def attach(self, batch: Batch, answered: Sequence[TargetResult[Detections]]) -> Batch:
        """The batch with more objects."""
        rows, parents, tables = [], [], []
        for looks in _looks(answered):
            target = looks[0][0]
            found = [NOTHING if answer is None else answer.candidates for _, answer in looks]
            regions = [look.placement.region_xyxy for look, _ in looks]
            size_wh = batch.frames[target.row].size_wh
            tables.append(found[0] if len(looks) == 1 else self.merged(found, regions=regions, size_wh=size_wh))
            rows.append(target.row)
            parents.append(target.object)
        batch = _marked(batch, answered)
        counts = [len(table) for table in tables]
        if not sum(counts):
            return batch
        every = joined(tables)
        objects = Objects.from_columns(
            frame=np.repeat(rows, counts),
            xyxy=every.xyxy,
            confidence=every.confidence,
            class_id=every.class_id,
            source=self._origin,
            extra=self._structures(every),
        )
        if max(parents) < 0:
            return batch.with_objects(Objects.concat([batch.objects, objects]))
        objects = objects.with_columns(**_ties(answered))
        return batch.with_objects(batch.objects.with_children(objects, parents=np.repeat(parents, counts)))

    def merged(
        self, tables: Sequence[Candidates], *, regions: Sequence[Region], size_wh: tuple[int, int]
    ) -> Candidates:
        """What was found on several regions (in pixels) of one image, as one table."""
        raise NotImplementedError

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


def _ties(answered: Sequence[TargetResult[Detections]]) -> dict[str, Column]:
    """The columns of things found on objects that tell the steps behind which thing is which."""
    finds = [answer for _, answer in answered if answer is not None and len(answer.candidates)]
    numbers = [np.full(len(one.candidates), -1, np.int32) if one.numbers is None else one.numbers for one in finds]
    counts = [len(one.candidates) for one in finds]
    remembered = np.repeat([one.is_remembered for one in finds], counts)
    return sibling_columns(np.concatenate(numbers), remembered=remembered)


def _looks(answered: Sequence[TargetResult[Detections]]) -> Iterator[list[TargetResult[Detections]]]:
    """The answers, those about one image together, those about an object each alone."""
    looks: list[TargetResult[Detections]] = []
    for look in answered:
        target = look[0]
        if looks and (target.object >= 0 or target.row != looks[0][0].row or looks[0][0].object >= 0):
            yield looks
            looks = []
        looks.append(look)
    if looks:
        yield looks


def _marked(batch: Batch, answered: Sequence[TargetResult[Detections]]) -> Batch:
    """The batch with the frames marked that a detector of images ran on, and gave numbers for."""
    looked = {target.row for target, _ in answered if target.object < 0}
    looked -= {target.row for target, answer in answered if answer is None}
    if any(target.object >= 0 for target, _ in answered):
        return batch
    before = batch.detected or (False,) * len(batch)
    return replace(batch, detected=tuple(old or row in looked for row, old in enumerate(before)))


def in_image(found: Candidates, target: InferenceTarget, *, size_wh: tuple[int, int]) -> Candidates:
    """Candidates in pixels of the network's input -> in pixels of the image, their boxes cut to it."""
    placement = target.placement
    points, corners = found.points, found.corners
    if points is not None:
        points = np.concatenate([placement.points_in_image(points[..., :2]), points[..., 2:]], axis=-1)
    return replace(
        found,
        xyxy=clip(placement.boxes_in_image(found.xyxy), size_wh=size_wh),
        points=points,
        corners=None if corners is None else placement.points_in_image(corners),
    )


def movement(before: Boxes, now: Boxes) -> tuple[Boxes, Boxes]:
    """Scale (2,) and shift (2,) that take a box (4,) from `before` to `now`: x * scale + shift."""
    scale = (now[2:] - now[:2]) / np.maximum(before[2:] - before[:2], np.float32(1e-6))
    return scale, now[:2] - before[:2] * scale


def moved(found: Candidates, before: Boxes, now: Boxes) -> Candidates:
    """What was found on an object when its box (4,) was `before`, where its box is now."""
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
    """The rows of all tables, one after the other; all come from the same model."""
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


def all_finite(outputs: Sequence[npt.NDArray[Any]]) -> bool:
    """Whether every number of the outputs is finite."""
    return all(output.dtype.kind != "f" or bool(np.isfinite(output).all()) for output in outputs)


NOTHING = Candidates.from_arrays(np.empty((0, 4)), np.empty(0), np.empty(0))


_SIZES = 256
"""Sizes of the input, for models that take any, of which the reading is kept."""


class DetectionPostprocessor(ObjectPostprocessor):
    """Finds objects. On the image, what several regions found twice is merged; on objects, they become children.

    `masks` says that objects get the masks which the model gives for them; only those of objects that stay are made.
    `invalid_boxes` counts boxes that were not finite numbers and were left out.
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
        self._masks = masks
        self._warn = warn
        self._readings: dict[tuple[int, int], DecodeContext] = {}
        self._limited = bool((rules.limits > np.float32(rules.confidence)).any())

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> Detections | None:
        """See `Task.read`."""
        plan, rules = self._plan, self._rules
        assert plan.head is not None
        raw: Candidates = plan.head.decode(outputs, self._reading(target.placement.size_wh))
        if not len(raw):
            return Detections(raw, _box_of(target, batch), read_nothing=True)
        if self._masks and raw.prototypes is not None and not all_finite([raw.prototypes]):
            return None
        kept = thinned(self._above_limits(self._finite(raw)), rules.nms, least=rules.confidence)
        if rules.nms.method == "soft":
            kept = self._above_limits(kept)
        return self._found(kept, target, batch)

    @property
    def box_rules(self) -> DetectionRules | None:
        """See `Task.box_rules`."""
        return None if self._masks else self._rules

    def read_boxes(self, boxes: SuppressedBoxes, target: InferenceTarget, batch: Batch) -> Detections:
        """See `Task.read_boxes`."""
        self._count_invalid(boxes.invalid)
        if not boxes.found and not boxes.invalid:
            return Detections(boxes.candidates, _box_of(target, batch), read_nothing=True)
        return self._found(boxes.candidates, target, batch)

    def merged(
        self, tables: Sequence[Candidates], *, regions: Sequence[Region], size_wh: tuple[int, int]
    ) -> Candidates:
        """What several regions found of one thing is one object, without seams where regions end."""
        found = joined(tables)
        merged = merge_parts(
            found.xyxy,
            found.confidence,
            found.class_id,
            part=np.repeat(np.arange(len(tables)), [len(table) for table in tables]),
            regions=np.array(regions, np.float64),
            size_wh=size_wh,
            options=self._rules.nms,
            corners=found.corners,
        )
        whole = found.select(merged.rows)
        for row, thing in enumerate(merged.things):
            if len(thing) > 1:
                _complete(whole, row, found.select(np.array(thing, np.intp)))
        return replace(whole, xyxy=merged.xyxy, corners=merged.corners)

    def totals(self) -> Mapping[str, int]:
        """Boxes left out because they were not finite numbers, when there were any."""
        return {"invalid_boxes": self.invalid_boxes} if self.invalid_boxes else {}

    def _reading(self, size_wh: tuple[int, int]) -> DecodeContext:
        reading = self._readings.get(size_wh)
        if reading is None:
            if len(self._readings) >= _SIZES:
                self._readings.clear()
            reading = self._plan.reading(size_wh=size_wh, confidence=self._rules.confidence)
            self._readings[size_wh] = reading
        return reading

    def _found(self, kept: Candidates, target: InferenceTarget, batch: Batch) -> Detections:
        """What is left after suppression, in pixels of the image, without what is not wanted there."""
        rules = self._rules
        found = in_image(kept, target, size_wh=batch.frames[target.row].size_wh)
        there: npt.NDArray[np.bool_] = np.all(found.xyxy[:, 2:] > found.xyxy[:, :2], axis=1)
        if rules.wanted is not None:
            there &= rules.wanted[np.clip(found.class_id, -1, len(self._plan.labels))]
        found = found if there.all() else found.select(there)
        if self._masks:
            found = replace(found, shapes=cut_masks(found, target.placement))
        if found.masks is not None:
            found = replace(found, masks=None, prototypes=None)
        return Detections(found, _box_of(target, batch))

    def _finite(self, raw: Candidates) -> Candidates:
        found = raw.finite()
        self._count_invalid(len(raw) - len(found))
        return found

    def _count_invalid(self, count: int) -> None:
        if count and not self.invalid_boxes:
            self._warn("the model gave boxes that are not finite numbers; they are left out")
        self.invalid_boxes += count

    def _above_limits(self, found: Candidates) -> Candidates:
        if not self._limited:
            return found
        limits = self._rules.limits
        return found.select(found.confidence >= limits[np.clip(found.class_id, -1, len(limits) - 1)])


def _box_of(target: InferenceTarget, batch: Batch) -> Boxes | None:
    """The box (4,) of the object that the subject shows."""
    return batch.objects.xyxy[target.object] if target.object >= 0 else None


def thinned(found: Candidates, options: NmsOptions, *, least: float = 0.0) -> Candidates:
    """Candidates without those that overlap others, by the method of `options`; a fused one is its best row, moved."""
    kept = thin_out(found.xyxy, found.confidence, found.class_id, options=options, corners=found.corners, least=least)
    chosen = found.select(kept.rows)
    if kept.confidence is not None:
        return replace(chosen, confidence=kept.confidence)
    if kept.xyxy is not None:
        return replace(chosen, xyxy=kept.xyxy, corners=kept.corners)
    return chosen


def _complete(whole: Candidates, row: int, pieces: Candidates) -> None:
    """Give a row of a table that is the caller's own the best of each keypoint and the masks of all its pieces."""
    if whole.points is not None and pieces.points is not None:
        best = pieces.points[..., 2].argmax(axis=0)
        whole.points[row] = pieces.points[best, np.arange(len(best))]
    if whole.shapes is not None and pieces.shapes is not None:
        whole.shapes[row] = united(pieces.shapes.tolist())
