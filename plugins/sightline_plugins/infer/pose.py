"""`pose`: find keypoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline.graph.element import Problem
from sightline.graph.site import Site
from sightline.media import Batch, Objects, Origin, Skeleton
from sightline.media.boxes import Boxes, clip
from sightline.media.shapes import usual_skeleton
from sightline_plugins.infer.fields import Edge
from sightline_plugins.infer.options import NMS_OPTIONS, DetectionElement, TargetSelection, unused_options
from sightline_plugins.infer.postprocessing import Postprocessor, TargetResult, all_finite, movement, target_box

if TYPE_CHECKING:
    from sightline_plugins.heads.head import Array, Points
    from sightline_plugins.infer.plan import ModelPlan
    from sightline_plugins.infer.targets import InferenceTarget
    from sightline_plugins.infer.track_memory import TrackEntry

Keypoints = npt.NDArray[np.float32]
SkeletonOf = Callable[[int], Skeleton]
"""Returns the names and edges of a number of keypoints."""

_MARGIN = 0.125


class Pose(DetectionElement):
    """Find keypoints: joints of people, corners of objects, and the skeleton that connects them.

    A model that finds boxes **and** keypoints (YOLO pose) runs on the frame and adds objects. A model of **one** object
    (heads `heatmap` and `simcc`: HRNet, RTMPose) runs on objects of an earlier step, which get the keypoints. Its crop
    extends the box by an eighth on each side (`on: {margin: 0.125}`), and further to the shape of the network
    (`fit: expand`), as these networks are trained. Without `on` it takes the frame as one object.

    Trade-offs:

    - One model for all people costs the same for any number of them; one run per person is more exact, and costs a run
      each. `reinfer_interval` and tracks save runs: between two runs the keypoints move along with the box.
    - Each keypoint has its own confidence; `confidence` is that of the box, and for models of one object the mean of
      its keypoints (0 when not given).

    ```yaml
    pose:
      model: models/joints.onnx
      on: person
      reinfer_interval: 0s
    ```
    """

    name: ClassVar[str] = "pose"
    task: ClassVar[str] = "pose"

    keypoints: tuple[str, ...] | None = None
    """Names of the keypoints, in order. Default: the model card's, else those of COCO people for 17 and of faces for 5
    keypoints, else numbers."""
    skeleton: tuple[Edge, ...] | None = None
    """Pairs of keypoints that a line connects, by number from 0. Default: the model card's, else the usual ones."""

    def plan_problems(self, plan: ModelPlan) -> list[Problem]:
        """Return names and edges that do not fit the keypoints, and options that the model has no use for."""
        names, edges = self._named(plan)
        count = _keypoint_count(plan)
        problems = super().plan_problems(plan)
        if is_single_object(plan):
            problems += unused_options(self, (*NMS_OPTIONS, "classes", "tiles"), plan=plan)
        if names is not None and count is not None and len(names) != count:
            problems.append(Problem(f"the model finds {count} keypoints, {len(names)} names are given", ("keypoints",)))
            return problems
        last = (count or len(names or ()) or 10_000) - 1
        if any(max(edge) > last for edge in edges or ()):
            problems.append(Problem(f"keypoints have the numbers 0 to {last}", ("skeleton",)))
        return problems

    def found_labels(self) -> frozenset[str] | None:
        """Return the labels of the objects that it adds: none where it gives keypoints to existing ones."""
        plan, _ = self.plan()
        if plan is None or not is_single_object(plan):
            return super().found_labels()
        return frozenset() if self.on is not None else frozenset(plan.labels[:1] or ("person",))

    def selection(self, plan: ModelPlan) -> TargetSelection | None:
        """Return the objects of `on`, with the margin that networks of one object are trained with."""
        if self.on is None or "margin" in self.on.model_fields_set or not is_single_object(plan):
            return self.on
        return self.on.model_copy(update={"margin": _MARGIN})

    def postprocessor(self, plan: ModelPlan, site: Site) -> Postprocessor[Any]:
        """Make objects with keypoints, or keypoints of objects."""
        from sightline_plugins.infer.detections import DetectionPostprocessor, detection_rules

        element_id, skeleton_of = site.element_id or self.name, self._skeleton_of(plan)
        if is_single_object(plan):
            confidence = self.confidence or plan.card.confidence or 0.0
            return KeypointPostprocessor(plan, element_id=element_id, confidence=confidence, skeleton_of=skeleton_of)
        rules = detection_rules(self, plan)
        return DetectionPostprocessor(plan, rules, element_id=element_id, warn=site.warn, skeleton_of=skeleton_of)

    def _named(self, plan: ModelPlan) -> tuple[tuple[str, ...] | None, tuple[Edge, ...] | None]:
        names = self.keypoints if self.keypoints is not None else plan.card.keypoints
        return names, self.skeleton if self.skeleton is not None else plan.card.skeleton

    def _skeleton_of(self, plan: ModelPlan) -> SkeletonOf:
        names, edges = self._named(plan)

        @lru_cache
        def skeleton_of(count: int) -> Skeleton:
            usual = usual_skeleton(count)
            if names is not None and len(names) != count:
                raise ModelError(f"the model finds {count} keypoints, {len(names)} names are given: see keypoints")
            usual_edges = usual.edges if names in (None, usual.points) else ()
            return Skeleton(names or usual.points, edges if edges is not None else usual_edges)

        return skeleton_of


def is_single_object(plan: ModelPlan) -> bool:
    """Return whether the model finds the keypoints of one object, and no boxes."""
    from sightline_plugins.heads.head import Points

    return plan.head is not None and plan.head.result_type is Points


def _keypoint_count(plan: ModelPlan) -> int | None:
    """Return how many keypoints the model finds, where that is known before it runs."""
    if is_single_object(plan):
        return plan.outputs[0].shape[1]
    keypoints = getattr(plan.head_options, "keypoints", None)
    return keypoints[0] if isinstance(keypoints, tuple) and keypoints else None


@dataclass(frozen=True, slots=True, eq=False)
class PoseResult:
    """Keypoints float32 (K, 3) of one target, x and y in frame pixels and confidence, and the box of its object."""

    points: Keypoints
    box: Boxes | None = None

    @property
    def confidence(self) -> float:
        return float(self.points[:, 2].mean())


class KeypointPostprocessor(Postprocessor[PoseResult]):
    """Finds the keypoints of one object. Results with a mean confidence below `confidence` are left out."""

    def __init__(self, plan: ModelPlan, *, element_id: str, confidence: float, skeleton_of: SkeletonOf) -> None:
        self._plan = plan
        self._confidence = confidence
        self._skeleton_of = skeleton_of
        self._origin = Origin(element_id, plan.labels or ("person",))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> PoseResult | None:
        if not all_finite(outputs):
            return None
        placement = target.placement
        found: Points = self._plan.decode(outputs, size_wh=placement.size_wh)
        xy = placement.points_in_image(found.values[:, :2])
        return PoseResult(np.concatenate([xy, found.values[:, 2:]], axis=1), target_box(target, batch))

    def recall(self, entry: TrackEntry[PoseResult], target: InferenceTarget, batch: Batch) -> PoseResult | None:
        """Return the keypoints of the object, moved along with its box."""
        known = entry.result
        if known is None or known.box is None:
            return known
        scale, shift = movement(known.box, batch.objects.xyxy[target.object])
        moved = np.concatenate([known.points[:, :2] * scale + shift, known.points[:, 2:]], axis=1)
        return PoseResult(moved, known.box)

    def attach(self, batch: Batch, results: Sequence[TargetResult[PoseResult]]) -> Batch:
        """Return the batch with keypoints on the objects, or with one more object per part of a frame."""
        found = [
            (target, result)
            for target, result in results
            if result is not None and result.confidence >= self._confidence
        ]
        if not found:
            return batch
        points = np.stack([result.points for _, result in found])
        if found[0][0].object >= 0:
            rows = [target.object for target, _ in found]
            return batch.with_objects(self._with_keypoints(batch.objects, rows, points))
        sizes_wh = [batch.frames[target.row].size_wh for target, _ in found]
        boxes = np.concatenate([_bounds(own, size_wh) for own, size_wh in zip(points, sizes_wh, strict=True)])
        objects = Objects.from_columns(
            frame=[target.row for target, _ in found],
            xyxy=boxes,
            confidence=[result.confidence for _, result in found],
            class_id=np.zeros(len(found)),
            source=self._origin,
        )
        objects = self._with_keypoints(objects, list(range(len(found))), points)
        visible: npt.NDArray[np.bool_] = np.all(boxes[:, 2:] > boxes[:, :2], axis=1)
        objects = objects if visible.all() else objects.select(visible)
        return batch.with_objects(Objects.concat([batch.objects, objects]))

    def _with_keypoints(self, objects: Objects, rows: Sequence[int], points: Keypoints) -> Objects:
        """Return the table with keypoints at some rows, in place of those that were there."""
        before = objects.extra.get("keypoints")
        missing = 0 if before is None else max(before.shape[1] - points.shape[1], 0)
        padded = np.pad(points, ((0, 0), (0, missing), (0, 0)), constant_values=np.nan)
        skeletons = np.full(len(rows), self._skeleton_of(points.shape[1]), np.object_)
        with_points = objects.with_values("keypoints", rows=rows, values=padded)
        return with_points.with_values("skeleton", rows=rows, values=skeletons)


def _bounds(points: Keypoints, size_wh: tuple[int, int]) -> Boxes:
    """Return the box (1, 4) around keypoints (K, 3), clipped to the frame."""
    box = np.concatenate([points[:, :2].min(axis=0), points[:, :2].max(axis=0)])
    return clip(box[None], size_wh=size_wh)
