"""Keypoint results of single-object pose models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Origin
from sightline.media.boxes import Boxes, clip
from sightline_plugins.heads.head import Array, Points
from sightline_plugins.infer.detections import SkeletonOf, all_finite, movement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor, TargetResult
from sightline_plugins.infer.targets import InferenceTarget
from sightline_plugins.infer.track_memory import TrackEntry

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class PoseResult:
    """The answer of one subject: keypoints (K, 3) in pixels of the image, and the box of the object they are of."""

    points: Floats
    on: Boxes | None = None

    @property
    def confidence(self) -> float:
        """The mean confidence of the keypoints."""
        return float(self.points[:, 2].mean())


class KeypointPostprocessor(Postprocessor[PoseResult]):
    """Finds the keypoints of one thing. Answers with a mean confidence below `confidence` are not told."""

    def __init__(self, plan: ModelPlan, *, element_id: str, confidence: float, skeleton_of: SkeletonOf) -> None:
        self._plan = plan
        self._confidence = confidence
        self._skeleton_of = skeleton_of
        self._origin = Origin(element_id, plan.labels or ("person",))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> PoseResult | None:
        """See `Task.read`."""
        plan, placement = self._plan, target.placement
        assert plan.head is not None
        if not all_finite(outputs):
            return None
        found: Points = plan.head.decode(outputs, plan.reading(size_wh=placement.size_wh))
        places = placement.points_in_image(found.values[:, :2])
        on = batch.objects.xyxy[target.object] if target.object >= 0 else None
        return PoseResult(np.concatenate([places, found.values[:, 2:]], axis=1), on)

    def recall(self, slot: TrackEntry[PoseResult], target: InferenceTarget, batch: Batch) -> PoseResult | None:
        """The keypoints of the object, moved along with its box."""
        known = slot.known
        if known is None or known.on is None:
            return known
        scale, shift = movement(known.on, batch.objects.xyxy[target.object])
        return PoseResult(np.concatenate([known.points[:, :2] * scale + shift, known.points[:, 2:]], axis=1), known.on)

    def attach(self, batch: Batch, answered: Sequence[TargetResult[PoseResult]]) -> Batch:
        """The batch with keypoints on the objects that were looked at, or an object more for each image."""
        told = [
            (target, answer)
            for target, answer in answered
            if answer is not None and answer.confidence >= self._confidence
        ]
        if not told:
            return batch
        points = np.stack([answer.points for _, answer in told])
        if told[0][0].object >= 0:
            rows = [target.object for target, _ in told]
            return batch.with_objects(self._posed(batch.objects, rows, points))
        sizes_wh = [batch.frames[target.row].size_wh for target, _ in told]
        boxes = np.concatenate([_bounds(one, size) for one, size in zip(points, sizes_wh, strict=True)])
        objects = Objects.from_columns(
            frame=[target.row for target, _ in told],
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
    """The box (1, 4) around keypoints (K, 3), cut to the image."""
    box = np.concatenate([points[:, :2].min(axis=0), points[:, :2].max(axis=0)])
    return clip(box[None], size_wh=size_wh)
