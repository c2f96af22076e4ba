"""`pose`: finds keypoints with a neural network."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from sightline.errors import ModelError
from sightline.graph.element import CheckContext, Problem
from sightline.graph.operator import Operator
from sightline.graph.site import Site
from sightline.media.shapes import Skeleton, usual_skeleton
from sightline_plugins.infer.fields import Edge
from sightline_plugins.infer.options import BOX_RULES, DetectionElement, ModelElement, plan_detections, useless_options

if TYPE_CHECKING:
    from sightline_plugins.infer.detections import SkeletonOf
    from sightline_plugins.infer.plan import ModelPlan

_MARGIN = 0.125


class Pose(DetectionElement):
    """Finds keypoints: joints of people, corners of things, and says which of them a skeleton joins.

    A model that finds boxes **and** keypoints (YOLO pose) is run on the image, and gives objects. A model of **one**
    thing (heads `heatmap` and `simcc`: HRNet, RTMPose) is run on objects of a step before, which get the keypoints; it
    sees an eighth of the box more on each side (`on: {margin: 0.125}`), and what is around it up to the shape of the
    network (`fit: expand`), as these networks are trained. Without `on` it sees the image as one thing.

    The knobs and what they trade:

    - One model for all people costs the same however many there are; one for each person is more exact, and costs a run
      each. `refresh` and tracks save runs: between two looks the keypoints move along with the box.
    - Each keypoint has a confidence of its own; `confidence` is the box's, and for models of one thing the mean of
      its keypoints' (0 when not given).

    ```yaml
    pose:
      model: models/joints.onnx
      on: person
      refresh: 0s
    ```
    """

    name: ClassVar[str] = "pose"
    task: ClassVar[str] = "pose"

    keypoints: tuple[str, ...] | None = None
    """What the keypoints are called, in order; the card's when not given, else those of COCO's people for 17 and of
    faces for 5, else numbers."""
    skeleton: tuple[Edge, ...] | None = None
    """Pairs of keypoints that a line joins, by number from 0; the card's when not given, else the usual ones."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """As for boxes; names and lines of keypoints, and options that the model's kind has no use for."""
        plan, _, problems = plan_detections(self)
        return [*problems, *(self._own_problems(plan) if plan else ()), *ModelElement.check(self, context)]

    def found_labels(self) -> frozenset[str] | None:
        """The labels of the objects that it adds: none where it gives keypoints to others'."""
        plan, _, _ = plan_detections(self)
        if plan is None or not _is_of_one(plan):
            return super().found_labels()
        return frozenset() if self.on is not None else frozenset(plan.labels[:1] or ("person",))

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.detections import DetectionPostprocessor
        from sightline_plugins.infer.keypoints import KeypointPostprocessor
        from sightline_plugins.infer.operator import build_operator

        plan, rules, problems = plan_detections(self)
        if plan is None or rules is None:
            raise ModelError("; ".join(problem.message for problem in problems))
        element_id = site.element_id or self.name
        skeleton_of = self._skeleton_of(plan)
        if not _is_of_one(plan):
            boxes = DetectionPostprocessor(plan, rules, element_id=element_id, warn=site.warn, skeleton_of=skeleton_of)
            return build_operator(self, plan, task=boxes, site=site)
        confidence = self.confidence or plan.card.confidence or 0.0
        points = KeypointPostprocessor(plan, element_id=element_id, confidence=confidence, skeleton_of=skeleton_of)
        return build_operator(self._with_margin(), plan, task=points, site=site)

    def _with_margin(self) -> Pose:
        """This step, seeing as much around its objects as networks of one thing are trained to."""
        if self.on is None or "margin" in self.on.model_fields_set:
            return self
        return self.model_copy(update={"on": self.on.model_copy(update={"margin": _MARGIN})})

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
            joins = usual.edges if names in (None, usual.points) else ()
            return Skeleton(names or usual.points, edges if edges is not None else joins)

        return skeleton_of

    def _own_problems(self, plan: ModelPlan) -> list[Problem]:
        names, edges = self._named(plan)
        count = _count(plan)
        problems = useless_options(self, (*BOX_RULES, "classes", "tiles"), plan=plan) if _is_of_one(plan) else []
        if names is not None and count is not None and len(names) != count:
            problems.append(Problem(f"the model finds {count} keypoints, {len(names)} names are given", ("keypoints",)))
            return problems
        last = (count or len(names or ()) or 10_000) - 1
        if any(max(edge) > last for edge in edges or ()):
            problems.append(Problem(f"keypoints have the numbers 0 to {last}", ("skeleton",)))
        return problems


def _is_of_one(plan: ModelPlan) -> bool:
    from sightline_plugins.heads.head import Points

    return plan.head is not None and plan.head.result_type is Points


def _count(plan: ModelPlan) -> int | None:
    """How many keypoints the model finds, where that can be told before it runs."""
    if _is_of_one(plan):
        return plan.outputs[0].shape[1]
    told = getattr(plan.head_options, "keypoints", None)
    return told[0] if isinstance(told, tuple) and told else None
