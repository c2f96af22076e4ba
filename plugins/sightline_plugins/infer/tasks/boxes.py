"""Boxes as answers: suppressed, filtered by class, in pixels of the picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Origin
from sightline.media.boxes import Boxes
from sightline.media.shapes import usual_skeleton
from sightline_plugins.infer.heads.findings import Array, Candidates
from sightline_plugins.infer.heads.head import Reading
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.box_rules import BoxRules, Suppressed
from sightline_plugins.infer.tasks.found import FindingTask, Found, SkeletonOf, all_finite, in_picture, joined
from sightline_plugins.infer.tasks.masks import cut_masks, united
from sightline_plugins.nms import NmsOptions, merge_parts, thin_out
from sightline_plugins.pixels.placement import Region

_SIZES = 256
"""Sizes of the input, for models that take any, of which the reading is kept."""


class BoxTask(FindingTask):
    """Finds objects. On the picture, what several regions found twice is merged; on objects, they become children.

    `masks` says that objects get the masks which the model gives for them; only those of objects that stay are made.
    `invalid_boxes` counts boxes that were not finite numbers and were left out.
    """

    def __init__(
        self,
        plan: ModelPlan,
        rules: BoxRules,
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
        self._readings: dict[tuple[int, int], Reading] = {}
        self._limited = bool((rules.limits > np.float32(rules.confidence)).any())

    def read(self, outputs: Sequence[Array], subject: Subject, batch: Batch) -> Found | None:
        """See `Task.read`."""
        plan, rules = self._plan, self._rules
        assert plan.head is not None
        raw: Candidates = plan.head.decode(outputs, self._reading(subject.placement.size_wh))
        if not len(raw):
            return Found(raw, _box_of(subject, batch), read_nothing=True)
        if self._masks and raw.prototypes is not None and not all_finite([raw.prototypes]):
            return None
        kept = thinned(self._above_limits(self._finite(raw)), rules.nms, least=rules.confidence)
        if rules.nms.method == "soft":
            kept = self._above_limits(kept)
        return self._found(kept, subject, batch)

    @property
    def box_rules(self) -> BoxRules | None:
        """See `Task.box_rules`."""
        return None if self._masks else self._rules

    def read_boxes(self, boxes: Suppressed, subject: Subject, batch: Batch) -> Found:
        """See `Task.read_boxes`."""
        self._count_invalid(boxes.invalid)
        if not boxes.found and not boxes.invalid:
            return Found(boxes.candidates, _box_of(subject, batch), read_nothing=True)
        return self._found(boxes.candidates, subject, batch)

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

    def _reading(self, size_wh: tuple[int, int]) -> Reading:
        reading = self._readings.get(size_wh)
        if reading is None:
            if len(self._readings) >= _SIZES:
                self._readings.clear()
            reading = self._plan.reading(size_wh=size_wh, confidence=self._rules.confidence)
            self._readings[size_wh] = reading
        return reading

    def _found(self, kept: Candidates, subject: Subject, batch: Batch) -> Found:
        """What is left after suppression, in pixels of the picture, without what is not wanted there."""
        rules = self._rules
        found = in_picture(kept, subject, size_wh=batch.frames[subject.row].size_wh)
        there: npt.NDArray[np.bool_] = np.all(found.xyxy[:, 2:] > found.xyxy[:, :2], axis=1)
        if rules.wanted is not None:
            there &= rules.wanted[np.clip(found.class_id, -1, len(self._plan.labels))]
        found = found if there.all() else found.select(there)
        if self._masks:
            found = replace(found, shapes=cut_masks(found, subject.placement))
        if found.masks is not None:
            found = replace(found, masks=None, prototypes=None)
        return Found(found, _box_of(subject, batch))

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


def _box_of(subject: Subject, batch: Batch) -> Boxes | None:
    """The box (4,) of the object that the subject shows."""
    return batch.objects.xyxy[subject.object] if subject.object >= 0 else None


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
