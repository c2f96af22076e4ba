"""`segment`: find which pixels belong to objects or classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sightline.graph.element import Problem
from sightline.graph.fields import Fraction
from sightline.graph.site import Site
from sightline.graph.wording import suggest
from sightline_plugins.infer.options import NMS_OPTIONS, DetectionElement, unused_options

if TYPE_CHECKING:
    from sightline_plugins.infer.class_maps import ClassMapRules
    from sightline_plugins.infer.plan import ModelPlan
    from sightline_plugins.infer.postprocessing import Postprocessor

_MAP_OPTIONS = ("background", "min_area")


class Segment(DetectionElement):
    """Find the pixels of each object (instance segmentation) or of each class (semantic segmentation).

    An **instance** model (YOLO segmentation) finds objects as `detect` does, each with a mask; masks are only made for
    objects that stay. A **semantic** model (DeepLab, SegFormer, U-Net) gives every pixel a class: each class that is
    present becomes one object, whose box is the bounds of its pixels and whose confidence is their mean probability.
    Masks have the resolution of the frame. With `on`, what is found becomes children of the objects.

    Trade-offs:

    - `classes` makes objects of these only; the others still compete for pixels.
    - `min_area` drops small areas of a semantic model; 0.001 of 1280 x 720 is 30 x 30 pixels. It counts all pixels of a
      class, not each patch.
    - `every: 5` is enough for what hardly changes: a road, a floor. The frames between have no such objects.

    ```yaml
    segment:
      model: models/parts.onnx
      head: class_map
      labels: [background, person, car, road]
      classes: [person]
      min_area: 0.001
    ```
    """

    name: ClassVar[str] = "segment"
    task: ClassVar[str] = "segment"

    background: str | int | None = 0
    """The class of a semantic model that is no object, by label or number; `null` for none. A map of a single class has
    no class for the background."""
    min_area: Fraction = 0.0
    """Minimum fraction of the frame that a class of a semantic model covers to become an object."""

    def plan_problems(self, plan: ModelPlan) -> list[Problem]:
        """Return an unknown background, and options that the model has no use for."""
        problems = super().plan_problems(plan)
        if not is_class_map(plan):
            return [*problems, *unused_options(self, _MAP_OPTIONS, plan=plan)]
        problems += unused_options(self, NMS_OPTIONS, plan=plan)
        if isinstance(self.background, str) and self.background not in plan.labels:
            known = f"labels: {', '.join(plan.labels)}" if plan.labels else "no labels are known: give labels"
            message = f"there is no class {self.background!r}{suggest(self.background, plan.labels)}; {known}"
            problems.append(Problem(message, ("background",)))
        return problems

    def found_labels(self) -> frozenset[str] | None:
        """Return the labels of the model, or those of `classes`; without the background."""
        plan, _ = self.plan()
        labels = super().found_labels()
        if plan is None or labels is None or not is_class_map(plan) or len(plan.labels) == 1:
            return labels
        background = _class_number(self.background, plan)
        return labels if background is None else labels - {plan.labels[background]}

    def postprocessor(self, plan: ModelPlan, site: Site) -> Postprocessor[Any]:
        from sightline_plugins.infer.class_maps import ClassMapPostprocessor
        from sightline_plugins.infer.detections import DetectionPostprocessor, detection_rules

        element_id = site.element_id or self.name
        if is_class_map(plan):
            return ClassMapPostprocessor(plan, map_rules(self, plan), element_id=element_id)
        rules = detection_rules(self, plan)
        return DetectionPostprocessor(plan, rules, element_id=element_id, warn=site.warn, masks=True)


def is_class_map(plan: ModelPlan) -> bool:
    """Return whether the model gives every pixel a class."""
    from sightline_plugins.heads.head import ClassMap

    return plan.head is not None and plan.head.result_type is ClassMap


def map_rules(element: DetectionElement, plan: ModelPlan) -> ClassMapRules:
    """Return which classes of a map become objects; the background is class 0 where the element has no such option."""
    from sightline_plugins.infer.class_maps import ClassMapRules

    given = (element.confidence, plan.card.confidence, 0.0)
    classes = element.classes
    return ClassMapRules(
        background=_class_number(getattr(element, "background", 0), plan),
        wanted=None if classes is None else frozenset(plan.labels.index(label) for label in classes),
        confidence=next(value for value in given if value is not None),
        min_area=getattr(element, "min_area", 0.0),
    )


def _class_number(background: str | int | None, plan: ModelPlan) -> int | None:
    """Return the number of the background's class; None for none, and for one that the labels do not have."""
    if isinstance(background, str):
        return plan.labels.index(background) if background in plan.labels else None
    return background if background is not None and 0 <= background < (len(plan.labels) or 1_000_000) else None
