"""`segment`: finds what covers which pixels with a neural network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from sightline.errors import ModelError
from sightline.graph.element import CheckContext, Problem
from sightline.graph.fields import Fraction
from sightline.graph.operator import Operator
from sightline.graph.registry import suggest
from sightline.graph.site import Site
from sightline_plugins.infer.options import BOX_RULES, DetectionElement, ModelElement, plan_detections, useless_options

if TYPE_CHECKING:
    from sightline_plugins.infer.class_maps import ClassMapRules
    from sightline_plugins.infer.plan import ModelPlan

_MAP_RULES = ("background", "min_area")


class Segment(DetectionElement):
    """Finds the pixels of things: of each object by itself, or of each class, whichever the model gives.

    An **instance** model (YOLO segmentation) finds objects as `detect` does, each with a mask; only masks of objects
    that stay are made. A **semantic** model (DeepLab, SegFormer, U-Net) gives every pixel a class: each class that is
    there becomes one object, whose box is the bounds of its pixels and whose confidence is the mean of the winning
    probabilities. Masks are at the image's size. On objects (`on`), what is found are children of them.

    The knobs and what they trade:

    - `classes` makes objects of these only; the others still take part in which class wins a pixel.
    - `min_area` drops small patches of a semantic model; 0.001 of 1280 x 720 is 30 x 30 pixels. It counts all
      pixels of the class, not each patch by itself.
    - `every: 5` suffices for what hardly changes: a road, a floor. On other frames there are no such objects.

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
    """The class of a semantic model that is no object, by label or number; none when null. A map of one class alone has
    no class for the background."""
    min_area: Fraction = 0.0
    """Share of the image that a class of a semantic model must cover to become an object."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """As for boxes; labels of the background, and options that the model's kind has no use for."""
        plan, _, problems = plan_detections(self)
        return [*problems, *(self._own_problems(plan) if plan else ()), *ModelElement.check(self, context)]

    def found_labels(self) -> frozenset[str] | None:
        """The labels of the model, or those of `classes`; without the background."""
        plan, _, _ = plan_detections(self)
        if plan is None or not plan.labels:
            return None
        labels = frozenset(plan.labels if self.classes is None else self.classes)
        if not _is_map(plan) or len(plan.labels) == 1:
            return labels
        return labels - {plan.labels[number] for number in [_number(self.background, plan)] if number is not None}

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.class_maps import ClassMapPostprocessor
        from sightline_plugins.infer.detections import DetectionPostprocessor
        from sightline_plugins.infer.operator import build_operator

        plan, rules, problems = plan_detections(self)
        if plan is None or rules is None:
            raise ModelError("; ".join(problem.message for problem in problems))
        element_id = site.element_id or self.name
        if _is_map(plan):
            areas = ClassMapPostprocessor(plan, map_rules(self, plan), element_id=element_id)
            return build_operator(self, plan, task=areas, site=site)
        boxes = DetectionPostprocessor(plan, rules, element_id=element_id, warn=site.warn, masks=True)
        return build_operator(self, plan, task=boxes, site=site)

    def _own_problems(self, plan: ModelPlan) -> list[Problem]:
        if not _is_map(plan):
            return useless_options(self, _MAP_RULES, plan=plan)
        problems = useless_options(self, BOX_RULES, plan=plan)
        if isinstance(self.background, str) and self.background not in plan.labels:
            known = f"labels: {', '.join(plan.labels)}" if plan.labels else "no labels are known: give labels"
            message = f"there is no class {self.background!r}{suggest(self.background, plan.labels)}; {known}"
            problems.append(Problem(message, ("background",)))
        return problems


def map_rules(element: DetectionElement, plan: ModelPlan) -> ClassMapRules:
    """Which classes of a map become objects, as a step says it; its background is class 0 where it does not say."""
    from sightline_plugins.infer.class_maps import ClassMapRules

    said = (element.confidence, plan.card.confidence, 0.0)
    classes = element.classes
    return ClassMapRules(
        background=_number(getattr(element, "background", 0), plan),
        wanted=None if classes is None else frozenset(plan.labels.index(label) for label in classes),
        confidence=next(value for value in said if value is not None),
        min_area=getattr(element, "min_area", 0.0),
    )


def _is_map(plan: ModelPlan) -> bool:
    from sightline_plugins.heads.head import ClassMap

    return plan.head is not None and plan.head.result_type is ClassMap


def _number(background: str | int | None, plan: ModelPlan) -> int | None:
    """The number of the background's class; None for none, and for one that the labels do not have."""
    if isinstance(background, str):
        return plan.labels.index(background) if background in plan.labels else None
    return background if background is not None and 0 <= background < (len(plan.labels) or 1_000_000) else None
