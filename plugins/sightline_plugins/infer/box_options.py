"""What every step whose model finds boxes can be told besides: which of them become objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from sightline.errors import ModelError
from sightline.graph.element import Capability, CheckContext, Problem
from sightline.graph.fields import Fraction
from sightline.graph.operator import Operator
from sightline.graph.site import Site
from sightline_plugins.infer.model.suppression import Suppression
from sightline_plugins.infer.options import ModelElement

if TYPE_CHECKING:
    from sightline_plugins.infer.model.plan import ModelPlan
    from sightline_plugins.infer.tasks.box_rules import BoxRules
    from sightline_plugins.nms import NmsOptions

CONFIDENCE = 0.25
TileSide = Annotated[int, Field(ge=32, le=16_384)]


def _as_suppression(value: object) -> object:
    return {"method": value} if isinstance(value, str) else value


def _as_tiles(value: object) -> object:
    return {"size": value} if isinstance(value, list | tuple) else value


class Tiles(BaseModel):
    """How a picture is cut into overlapping tiles."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)

    size: tuple[TileSide, TileSide] | None = None
    """Width and height of a tile in pixels of the picture; those of the network's input when not given."""
    overlap: Annotated[float, Field(ge=0, le=0.9)] = 0.2
    """The share of a tile that its neighbours show, too, at least. What is smaller than that is never cut."""
    whole: bool = True
    """Whether the model is also run on the whole picture, for what is larger than a tile."""


class BoxElement(ModelElement):
    """A step whose model finds boxes."""

    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})

    confidence: Fraction | None = None
    """Least confidence of an object; the card's when not given, else 0.25."""
    class_confidence: Mapping[str, Fraction] = {}
    """Least confidence for some classes, by label."""
    classes: tuple[str, ...] | None = None
    """Labels of the classes that become objects; all when not given."""
    iou: Fraction | None = None
    """Of two boxes that overlap by more than this (intersection over union) the less confident is dropped; the head's
    family decides when not given (0.45; end-to-end models: 1, none is dropped)."""
    agnostic: bool | None = None
    """Whether boxes of different classes drop one another too."""
    nms: Annotated[Suppression, BeforeValidator(_as_suppression)] = Suppression()
    """What becomes of boxes that overlap by more than `iou`: `hard` drops the less confident, `soft` takes confidence
    from it, `fusion` makes one box of them, `none` leaves them. A mapping says more: {method: soft, sigma: 0.3}."""
    max_detections: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Objects of a picture (and of a region or tile) at most: 300 when not given."""
    tiles: Annotated[Tiles | None, BeforeValidator(_as_tiles)] = None
    """Run on overlapping tiles of the picture, for things that are small in a large picture: a mapping such as
    {size: [640, 640], overlap: 0.2, whole: true} (pixels of the picture), or only the size."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Model, card, labels, head, classes, engine, regions and tiles."""
        return [*plan_boxes(self)[2], *super().check(context)]

    def found_labels(self) -> frozenset[str] | None:
        """The labels of the model, those of `classes` only when they are given; None for a model without labels."""
        plan, _, _ = plan_boxes(self)
        if plan is None or not plan.labels:
            return None
        return frozenset(plan.labels if self.classes is None else self.classes)

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.building import build_runner
        from sightline_plugins.infer.tasks.boxes import BoxTask

        plan, rules, problems = plan_boxes(self)
        if plan is None or rules is None:
            raise ModelError("; ".join(problem.message for problem in problems))
        task = BoxTask(plan, rules, element_id=site.element_id or self.name, warn=site.warn)
        return build_runner(self, plan, task=task, site=site)


def plan_boxes(
    element: BoxElement, *, needs_head: bool = True
) -> tuple[ModelPlan | None, BoxRules | None, list[Problem]]:
    """The plan of the model and the rules for its boxes, or None and at least one problem. Loads no engine."""
    from sightline_plugins.infer.model.plan import plan_model

    named: list[tuple[tuple[str | int, ...], str]] = [
        (("classes", number), name) for number, name in enumerate(element.classes or ())
    ]
    named += [(("class_confidence", name), name) for name in element.class_confidence]
    plan, problems = plan_model(element, named=named, needs_head=needs_head)
    if plan is None:
        return None, None, problems
    return plan, _rules(element, plan), [*problems, *_tile_problems(element, plan)]


def _tile_problems(element: BoxElement, plan: ModelPlan) -> Iterable[Problem]:
    if element.tiles is None:
        return
    for name in ("on", "regions"):
        if getattr(element, name) is not None:
            yield Problem(f"tiles cover the whole picture: leave out {name}, or tiles", ("tiles",))
    if element.tiles.size is None and plan.preprocessing.size_wh is None:
        yield Problem("the model takes pictures of any size: say how large tiles are, such as [640, 640]", ("tiles",))


BOX_RULES = ("class_confidence", "iou", "agnostic", "nms", "max_detections")
"""Options that only boxes need."""


def useless_options(element: ModelElement, names: Iterable[str], *, plan: ModelPlan) -> list[Problem]:
    """A problem for each of these options that was set although what the model's head gives has no use for it."""
    if plan.head is None:
        return []
    told = f"has no meaning for a model with head {plan.head.name!r}: leave it out"
    return [Problem(f"{name} {told}", (name,)) for name in names if name in element.model_fields_set]


def _rules(element: BoxElement, plan: ModelPlan) -> BoxRules:
    import numpy as np

    from sightline_plugins.infer.tasks.box_rules import BoxRules

    card, labels = plan.card, plan.labels
    general = next(value for value in (element.confidence, card.confidence, CONFIDENCE) if value is not None)
    limits = np.full(len(labels) + 1, general, np.float32)
    for name, value in element.class_confidence.items():
        limits[labels.index(name)] = value
    chosen = element.classes
    wanted = None if chosen is None else np.array([label in chosen for label in labels] + [False])
    return BoxRules(_nms(element, plan), min(general, *element.class_confidence.values(), general), limits, wanted)


def _nms(element: BoxElement, plan: ModelPlan) -> NmsOptions:
    from sightline_plugins.nms import NmsOptions

    card, own = plan.card.nms, element.nms
    layers: list[Mapping[str, Any]] = [
        card.model_dump(),
        own.model_dump(),
        {"iou": element.iou, "agnostic": element.agnostic, "max_detections": element.max_detections},
    ]
    said = {name: value for layer in layers for name, value in layer.items() if value is not None}
    usual = plan.head.nms if plan.head is not None else NmsOptions()
    if usual.iou >= 1 and "method" in said:
        said.setdefault("iou", NmsOptions().iou)
    return replace(usual, **said)
