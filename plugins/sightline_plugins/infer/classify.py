"""`classify`: tells what an image, or an object in it, is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, TypeAdapter, ValidationError

from sightline.errors import ModelError
from sightline.graph.element import CheckContext, Problem
from sightline.graph.fields import Fraction
from sightline.graph.operator import Operator
from sightline.graph.site import Site
from sightline_plugins.infer.fields import AttributeName, Attributes
from sightline_plugins.infer.options import AttributeElement

if TYPE_CHECKING:
    from sightline_plugins.infer.labels import AttributeLabels, LabelRules
    from sightline_plugins.infer.plan import ModelPlan

_TAGS = "tags"
_TAG_CONFIDENCE = 0.5


class Classify(AttributeElement):
    """Tells what objects (or images) are: one class of several, or with the head `tags` any number of labels.

    With `on`, an object gets the attributes `<attribute>` (the label) and `<attribute>_confidence`; with `tags` the
    attribute is a list of labels. Without `on`, the image, or each of its `regions`, becomes an object with that
    label, whose box is the part of the image that the model saw. A model with several outputs gives an attribute for
    each; the object that stands for an image is named by the first.

    The knobs and what they trade:

    - `refresh`: a tracked object is looked at once every so long, and when it is seen larger or better: far fewer runs
      than objects. Short finds out sooner that a first look was wrong.
    - `vote`: the looks at a track count together, by the mean of their probabilities, so that its label does not
      flicker. What changes its class over time (a traffic light, a door) needs `vote: false`.
    - `confidence`: an unsure answer is left out rather than told.
    - `on: {min_size: [32, 32]}` asks nothing about what is too small to tell; `margin` shows the model what is around.

    ```yaml
    classify:
      model: models/vehicle.onnx
      on: {label: [car, van, truck, bus], min_size: [24, 24]}
      confidence: 0.5
    ```
    """

    name: ClassVar[str] = "classify"
    task: ClassVar[str] = "classify"

    attribute: AttributeName | None = None
    """Name of the attribute; the card's when not given, else this step's id."""
    attributes: Attributes | None = None
    """For a model with several outputs: the labels of each by the name of its attribute, such as {color: [red, blue],
    kind: [car, van]}, in the order of the outputs (or under the outputs' own names); the card's when not given."""
    confidence: Fraction | None = None
    """Least probability of what is told; the card's when not given, else 0, and 0.5 for each label of the head
    `tags`."""
    top: Annotated[int, Field(ge=1, le=100)] = 1
    """How many of the likeliest classes are told: more than 1 adds a list of them as `<attribute>_top`."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Model, card, labels, attributes, head, engine and regions."""
        return [*plan_labels(self)[2], *super().check(context)]

    def image_labels(self) -> frozenset[str] | None:
        """The labels of the first output, where they are known."""
        _, rules, _ = plan_labels(self)
        return None if rules is None or not rules.choices[0].labels else frozenset(rules.choices[0].labels)

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.labels import LabelPostprocessor
        from sightline_plugins.infer.operator import build_operator

        element_id = site.element_id or self.name
        plan, rules, problems = plan_labels(self, element_id=element_id)
        if plan is None or rules is None:
            raise ModelError("; ".join(problem.message for problem in problems))
        return build_operator(self, plan, task=LabelPostprocessor(plan, rules, element_id=element_id), site=site)


def plan_labels(
    element: Classify, *, element_id: str | None = None
) -> tuple[ModelPlan | None, LabelRules | None, list[Problem]]:
    """The plan of the model and what becomes of its probabilities, or None and at least one problem."""
    from sightline_plugins.infer.labels import LabelRules
    from sightline_plugins.infer.plan import plan_model

    plan, problems = plan_model(element)
    if plan is None or plan.head is None:
        return None, None, problems
    choices = _choices(element, plan, problems, element_id=element_id or element.id or element.name)
    if problems:
        return None, None, problems
    several = plan.head.name == _TAGS
    said = element.confidence if element.confidence is not None else plan.card.confidence
    usual = _TAG_CONFIDENCE if several else 0.0
    rules = LabelRules(choices, usual if said is None else said, several, element.top, element.vote)
    return plan, rules, problems


def _choices(
    element: Classify, plan: ModelPlan, problems: list[Problem], *, element_id: str
) -> tuple[AttributeLabels, ...]:
    from sightline_plugins.infer.labels import AttributeLabels

    named = element.attributes or plan.card.attributes
    if named is not None:
        if element.attribute is not None:
            message = "attribute names one output, attributes name all: give one of the two"
            problems.append(Problem(message, ("attribute",)))
        return tuple(AttributeLabels(name, labels) for name, labels in _in_order(named, plan, problems))
    if len(plan.outputs) > 1:
        outputs = "; ".join(map(str, plan.outputs))
        message = f"the model has several outputs ({outputs}): name the attribute and the labels of each"
        problems.append(Problem(f"{message}, such as attributes: {{color: [red, blue], kind: [car]}}", ("attributes",)))
        return ()
    name = element.attribute or plan.card.attribute
    if name is None:
        name = element_id
        try:
            TypeAdapter(AttributeName).validate_python(name)
        except ValidationError:
            problems.append(Problem(f"{name!r} cannot be the name of an attribute: give attribute", ("attribute",)))
    return (AttributeLabels(name, plan.labels),)


def _in_order(
    named: Mapping[str, tuple[str, ...]], plan: ModelPlan, problems: list[Problem]
) -> list[tuple[str, tuple[str, ...]]]:
    """Attributes and their labels in the order of the outputs."""
    from sightline_plugins.heads.classify import count_values

    if len(named) != len(plan.outputs):
        outputs = "; ".join(map(str, plan.outputs))
        message = f"the model has {len(plan.outputs)} output(s) ({outputs}), {len(named)} attributes are given"
        problems.append(Problem(message, ("attributes",)))
        return []
    names = [output.name for output in plan.outputs]
    ordered = [(name, named[name]) for name in names] if set(names) == set(named) else list(named.items())
    for (name, labels), output in zip(ordered, plan.outputs, strict=True):
        count = count_values(output.shape)
        if count not in (None, len(labels)):
            message = f"output {output} knows {count} classes, {len(labels)} labels are given"
            problems.append(Problem(message, ("attributes", name)))
    return ordered
