"""Keypoints as answers: of the objects that a model looked at, or of an object for the picture itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Origin
from sightline.media.boxes import Boxes, clip
from sightline_plugins.infer.heads.findings import Array, Points
from sightline_plugins.infer.model.plan import ModelPlan
from sightline_plugins.infer.subjects.memory import Slot
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.found import SkeletonOf, all_finite, movement
from sightline_plugins.infer.tasks.task import Answered, Task

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Posed:
    """The answer of one subject: keypoints (K, 3) in pixels of the picture, and the box of the object they are of."""

    points: Floats
    on: Boxes | None = None

    @property
    def confidence(self) -> float:
        """The mean confidence of the keypoints."""
        return float(self.points[:, 2].mean())


class PointsTask(Task[Posed]):
    """Finds the keypoints of one thing. Answers with a mean confidence below `confidence` are not told."""

    def __init__(self, plan: ModelPlan, *, element_id: str, confidence: float, skeleton_of: SkeletonOf) -> None:
        self._plan = plan
        self._confidence = confidence
        self._skeleton_of = skeleton_of
        self._origin = Origin(element_id, plan.labels or ("person",))

    def read(self, outputs: Sequence[Array], subject: Subject, batch: Batch) -> Posed | None:
        """See `Task.read`."""
        plan, placement = self._plan, subject.placement
        assert plan.head is not None
        if not all_finite(outputs):
            return None
        found: Points = plan.head.decode(outputs, plan.reading(size_wh=placement.size_wh))
        places = placement.points_in_picture(found.values[:, :2])
        on = batch.objects.xyxy[subject.object] if subject.object >= 0 else None
        return Posed(np.concatenate([places, found.values[:, 2:]], axis=1), on)

    def recall(self, slot: Slot[Posed], subject: Subject, batch: Batch) -> Posed | None:
        """The keypoints of the object, moved along with its box."""
        known = slot.known
        if known is None or known.on is None:
            return known
        scale, shift = movement(known.on, batch.objects.xyxy[subject.object])
        return Posed(np.concatenate([known.points[:, :2] * scale + shift, known.points[:, 2:]], axis=1), known.on)

    def attach(self, batch: Batch, answered: Sequence[Answered[Posed]]) -> Batch:
        """The batch with keypoints on the objects that were looked at, or an object more for each picture."""
        told = [
            (subject, answer)
            for subject, answer in answered
            if answer is not None and answer.confidence >= self._confidence
        ]
        if not told:
            return batch
        points = np.stack([answer.points for _, answer in told])
        if told[0][0].object >= 0:
            rows = [subject.object for subject, _ in told]
            return batch.with_objects(self._posed(batch.objects, rows, points))
        sizes_wh = [batch.frames[subject.row].size_wh for subject, _ in told]
        boxes = np.concatenate([_bounds(one, size) for one, size in zip(points, sizes_wh, strict=True)])
        objects = Objects.from_columns(
            frame=[subject.row for subject, _ in told],
            xyxy=boxes,
            confidence=[answer.confidence for _, answer in told],
            class_id=np.zeros(len(told)),
            source=self._origin,
        )
        found = self._posed(objects, list(range(len(told))), points)
        there: npt.NDArray[np.bool_] = np.all(boxes[:, 2:] > boxes[:, :2], axis=1)
        return batch.with_objects(Objects.concat([batch.objects, found if there.all() else found.select(there)]))

    def _posed(self, objects: Objects, rows: Sequence[int], points: Floats) -> Objects:
        """The table with keypoints at some rows; of keypoints that were there before, none is left."""
        before = objects.extra.get("keypoints")
        missing = 0 if before is None else max(before.shape[1] - points.shape[1], 0)
        wide = np.pad(points, ((0, 0), (0, missing), (0, 0)), constant_values=np.nan)
        skeletons = np.full(len(rows), self._skeleton_of(points.shape[1]), np.object_)
        with_points = objects.with_values("keypoints", rows=rows, values=wide)
        return with_points.with_values("skeleton", rows=rows, values=skeletons)


def _bounds(points: Floats, size_wh: tuple[int, int]) -> Boxes:
    """The box (1, 4) around keypoints (K, 3), cut to the picture."""
    box = np.concatenate([points[:, :2].min(axis=0), points[:, :2].max(axis=0)])
    return clip(box[None], size_wh=size_wh)
