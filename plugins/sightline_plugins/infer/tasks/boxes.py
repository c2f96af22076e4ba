"""Boxes as answers: suppressed, filtered by class, in pixels of the picture, and then objects of the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Origin, Skeleton
from sightline.media.boxes import Boxes, clip
from sightline.media.shapes import usual_skeleton
from sightline_plugins.infer.heads.findings import Array, Candidates
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.nms import NmsOptions, suppress
from sightline_plugins.infer.subjects.memory import Slot
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.task import Answered, Task

_MERGING_IOU = 0.45
"""Overlap above which finds of two regions are one, with models that need no suppression themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class BoxRules:
    """Which candidates become objects.

    `limits` (classes + 1,) holds the least confidence for each class, the last one for classes beyond; `confidence` is
    the least of them. `wanted` (classes + 1,) says which classes become objects, None for all.
    """

    nms: NmsOptions
    confidence: float
    limits: npt.NDArray[np.float32]
    wanted: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The answer of one subject: candidates in pixels of the picture, and the box of the object they were found on."""

    candidates: Candidates
    on: Boxes | None = None


class BoxTask(Task[Found]):
    """Finds objects. On the picture, what several regions found twice is merged; on objects, they become children.

    `invalid_boxes` counts boxes that were not finite numbers and were left out.
    """

    def __init__(
        self,
        plan: ModelPlan,
        rules: BoxRules,
        *,
        element_id: str,
        warn: Callable[[str], None],
        skeleton: Skeleton | None = None,
    ) -> None:
        self.invalid_boxes = 0
        self._plan = plan
        self._rules = rules
        self._origin = Origin(element_id, plan.labels)
        self._skeleton = skeleton
        self._warn = warn
        self._merging = replace(rules.nms, iou=min(rules.nms.iou, _MERGING_IOU))
        self._limited = bool((rules.limits > np.float32(rules.confidence)).any())

    def read(self, outputs: Sequence[Array], subject: Subject, batch: Batch) -> Found | None:
        """See `Task.read`."""
        plan, rules, placement = self._plan, self._rules, subject.placement
        assert plan.head is not None
        raw: Candidates = plan.head.decode(
            outputs, plan.reading(size_wh=placement.size_wh, confidence=rules.confidence)
        )
        on = batch.objects.xyxy[subject.object] if subject.object >= 0 else None
        if not len(raw):
            return Found(raw, on) if _all_finite(outputs) else None
        found = self._above_limits(self._finite(raw))
        found = _suppressed(found, rules.nms)
        size_wh = batch.frames[subject.row].size_wh
        found = in_picture(found, subject)
        found = replace(found, xyxy=clip(found.xyxy, size_wh=size_wh))
        there: npt.NDArray[np.bool_] = np.all(found.xyxy[:, 2:] > found.xyxy[:, :2], axis=1)
        if rules.wanted is not None:
            there &= rules.wanted[np.clip(found.class_id, -1, len(plan.labels))]
        return Found(found if there.all() else found.select(there), on)

    def recall(self, slot: Slot[Found], subject: Subject, batch: Batch) -> Found | None:
        """What was found on the object, moved along with its box."""
        known = slot.known
        if known is None or known.on is None:
            return known
        return Found(moved(known.candidates, known.on, batch.objects.xyxy[subject.object]), known.on)

    def attach(self, batch: Batch, answered: Sequence[Answered[Found]]) -> Batch:
        """The batch with more objects."""
        rows: list[int] = []
        parents: list[int] = []
        tables: list[Candidates] = []
        for subject, answer in answered:
            found = _NOTHING if answer is None else answer.candidates
            if rows and rows[-1] == subject.row and subject.object < 0:
                tables[-1] = _suppressed(joined([tables[-1], found]), self._merging)
            else:
                rows.append(subject.row)
                parents.append(subject.object)
                tables.append(found)
        batch = self._marked(batch, answered)
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
        return batch.with_objects(batch.objects.with_children(objects, parents=np.repeat(parents, counts)))

    def totals(self) -> Mapping[str, int]:
        """Boxes left out because they were not finite numbers, when there were any."""
        return {"invalid_boxes": self.invalid_boxes} if self.invalid_boxes else {}

    def _structures(self, found: Candidates) -> dict[str, npt.NDArray[Any]]:
        extra: dict[str, npt.NDArray[Any]] = {}
        if found.points is not None:
            skeleton = self._skeleton or usual_skeleton(found.points.shape[1])
            extra["keypoints"] = found.points
            extra["skeleton"] = np.full(len(found), skeleton, np.object_)
        if found.corners is not None:
            extra["corners"] = found.corners
        return extra

    def _marked(self, batch: Batch, answered: Sequence[Answered[Found]]) -> Batch:
        """The batch with the frames marked that a detector of pictures ran on."""
        looked = {subject.row for subject, _ in answered if subject.object < 0}
        if any(subject.object >= 0 for subject, _ in answered):
            return batch
        before = batch.detected or (False,) * len(batch)
        return replace(batch, detected=tuple(old or row in looked for row, old in enumerate(before)))

    def _finite(self, raw: Candidates) -> Candidates:
        found = raw.finite()
        if found is not raw:
            if not self.invalid_boxes:
                self._warn("the model gave boxes that are not finite numbers; they are left out")
            self.invalid_boxes += len(raw) - len(found)
        return found

    def _above_limits(self, found: Candidates) -> Candidates:
        if not self._limited:
            return found
        limits = self._rules.limits
        return found.select(found.confidence >= limits[np.clip(found.class_id, -1, len(limits) - 1)])


def in_picture(found: Candidates, subject: Subject) -> Candidates:
    """Candidates in pixels of the network's input -> in pixels of the picture, not clipped."""
    placement = subject.placement
    points, corners = found.points, found.corners
    if points is not None:
        points = np.concatenate([placement.points_in_picture(points[..., :2]), points[..., 2:]], axis=-1)
    return replace(
        found,
        xyxy=placement.boxes_in_picture(found.xyxy),
        points=points,
        corners=None if corners is None else placement.points_in_picture(corners),
    )


def moved(found: Candidates, before: Boxes, now: Boxes) -> Candidates:
    """What was found on an object when its box (4,) was `before`, where its box is now."""
    scale = (now[2:] - now[:2]) / np.maximum(before[2:] - before[:2], np.float32(1e-6))
    shift = now[:2] - before[:2] * scale
    points, corners = found.points, found.corners
    if points is not None:
        points = np.concatenate([points[..., :2] * scale + shift, points[..., 2:]], axis=-1)
    return replace(
        found,
        xyxy=found.xyxy * np.tile(scale, 2) + np.tile(shift, 2),
        points=points,
        corners=None if corners is None else corners * scale + shift,
    )


def joined(tables: Sequence[Candidates]) -> Candidates:
    """The rows of all tables, one after the other; all come from the same model."""
    if len(tables) == 1:
        return tables[0]
    filled = [table for table in tables if len(table)]
    if len(filled) <= 1:
        return filled[0] if filled else _NOTHING

    def column(name: str) -> npt.NDArray[np.float32] | None:
        parts = [getattr(table, name) for table in filled]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    return Candidates(
        np.concatenate([table.xyxy for table in filled]),
        np.concatenate([table.confidence for table in filled]),
        np.concatenate([table.class_id for table in filled]),
        points=column("points"),
        corners=column("corners"),
    )


def _suppressed(found: Candidates, options: NmsOptions) -> Candidates:
    return found.select(suppress(found.xyxy, found.confidence, found.class_id, options=options))


def _all_finite(outputs: Sequence[Array]) -> bool:
    return all(output.dtype.kind != "f" or bool(np.isfinite(output).all()) for output in outputs)


_NOTHING = Candidates.from_arrays(np.empty((0, 4)), np.empty(0), np.empty(0))
