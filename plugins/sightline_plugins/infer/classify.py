"""`classify`: assign classes to objects or frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, TypeAdapter, ValidationError

from sightline.errors import ModelError
from sightline.graph.element import Problem
from sightline.graph.fields import Fraction
from sightline.graph.inspection import Explanation
from sightline.graph.site import Site
from sightline.media import Batch, Objects, Origin
from sightline_plugins.infer.fields import AttributeLabels, AttributeName
from sightline_plugins.infer.options import AttributeElement, Planned
from sightline_plugins.infer.postprocessing import (
    Attributes,
    Description,
    Postprocessor,
    TargetResult,
    all_finite,
    with_descriptions,
)

if TYPE_CHECKING:
    from sightline_plugins.heads.head import Array, Scores
    from sightline_plugins.infer.plan import ModelPlan
    from sightline_plugins.infer.targets import InferenceTarget
    from sightline_plugins.infer.track_memory import TrackEntry
    from sightline_plugins.preprocess.placement import Placement

Means = Sequence[npt.NDArray[np.float64]]
"""The mean probability of each class (C,), for each output."""

_TAGS = "tags"
_TAG_CONFIDENCE = 0.5
_MIN_WEIGHT = 0.1
"""Confidences below this weigh the same, so that a vote always has some weight."""


class Classify(AttributeElement):
    """Classify objects or frames: one class out of several, or with the head `tags` any number of labels.

    With `on`, each object gets the attributes `<attribute>` (the label) and `<attribute>_confidence`; with `tags` the
    attribute is a list of labels. Without `on`, the frame, or each of its `regions`, becomes an object with that label,
    whose box is the part of the frame that the model saw. A model with several outputs gives one attribute for each;
    the object that stands for a frame gets its label from the first.

    Trade-offs:

    - `reinfer_interval`: the model runs on a tracked object once per interval, and when the object is seen larger or
      with more confidence: far fewer runs than objects. A short interval corrects a wrong first result sooner.
    - `vote`: results for a track are combined by the mean of their probabilities, so that its label does not flicker.
      For classes that change over time (a traffic light, a door), set `vote: false`.
    - `confidence`: results below it are left out.
    - `on: {min_size: [32, 32]}` skips objects that are too small to recognise; `margin` shows more of what is around.

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
    """Name of the attribute. Default: the model card's value, else this step's id."""
    attributes: AttributeLabels | None = None
    """For a model with several outputs: the labels of each output by attribute name, such as {color: [red, blue],
    kind: [car, van]}, in the order of the outputs (or under the outputs' own names). Default: the model card's
    value."""
    confidence: Fraction | None = None
    """Minimum probability. Default: the model card's value, else 0, and 0.5 for each label of the head `tags`."""
    top: Annotated[int, Field(ge=1, le=100)] = 1
    """How many of the most likely classes are reported: more than 1 adds a list of them as `<attribute>_top`."""

    def plan(self) -> Planned:
        """Plan the model, and the attribute of each of its outputs."""
        plan, problems = super().plan()
        if plan is not None:
            self._outputs(plan, problems, element_id=self.id or self.name)
        return (None if problems else plan), problems

    def frame_labels(self) -> frozenset[str] | None:
        """Return the labels of the first output, where they are known."""
        plan, _ = self.plan()
        labels = () if plan is None else self.rules(plan, element_id=self.id or self.name).outputs[0].labels
        return frozenset(labels) or None

    def rules(self, plan: ModelPlan, *, element_id: str) -> LabelRules:
        """Return what becomes of probabilities. Raises ModelError where attributes do not fit the outputs."""
        problems: list[Problem] = []
        outputs = self._outputs(plan, problems, element_id=element_id)
        if problems:
            raise ModelError("; ".join(problem.message for problem in problems))
        multiple = plan.head is not None and plan.head.name == _TAGS
        set_by = (self.confidence, plan.card.confidence, _TAG_CONFIDENCE if multiple else 0.0)
        confidence = next(value for value in set_by if value is not None)
        return LabelRules(outputs, confidence, multiple, self.top, self.vote)

    def postprocessor(self, plan: ModelPlan, site: Site) -> Postprocessor[Any]:
        element_id = site.element_id or self.name
        return LabelPostprocessor(plan, self.rules(plan, element_id=element_id), element_id=element_id)

    def _outputs(self, plan: ModelPlan, problems: list[Problem], *, element_id: str) -> tuple[OutputLabels, ...]:
        named = self.attributes or plan.card.attributes
        if named is not None:
            if self.attribute is not None:
                message = "attribute names one output, attributes name all: give one of the two"
                problems.append(Problem(message, ("attribute",)))
            return tuple(OutputLabels(name, labels) for name, labels in _in_order(named, plan, problems))
        if len(plan.outputs) > 1:
            outputs = "; ".join(map(str, plan.outputs))
            message = f"the model has several outputs ({outputs}): name the attribute and the labels of each, such as"
            problems.append(Problem(f"{message} attributes: {{color: [red, blue], kind: [car]}}", ("attributes",)))
            return ()
        name = self.attribute or plan.card.attribute
        if name is None:
            name = element_id
            try:
                TypeAdapter(AttributeName).validate_python(name)
            except ValidationError:
                message = f"{name!r} cannot be the name of an attribute: give attribute"
                problems.append(Problem(message, ("attribute",)))
        return (OutputLabels(name, plan.labels),)


def _in_order(
    named: Mapping[str, tuple[str, ...]], plan: ModelPlan, problems: list[Problem]
) -> list[tuple[str, tuple[str, ...]]]:
    """Return attributes and their labels in the order of the outputs."""
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
            message = f"output {output} has {count} classes, {len(labels)} labels are given"
            problems.append(Problem(message, ("attributes", name)))
    return ordered


@dataclass(frozen=True, slots=True)
class OutputLabels:
    """The attribute that one output becomes, and the labels of its classes (numbers where there are none)."""

    attribute: str
    labels: tuple[str, ...]

    def label(self, class_id: int) -> str:
        """Return the name of a class."""
        return self.labels[class_id] if class_id < len(self.labels) else str(class_id)


@dataclass(frozen=True, slots=True)
class LabelRules:
    """What becomes of probabilities.

    Labels below `confidence` are left out. With `multiple` the labels do not exclude each other, and all that are
    likely enough are reported; otherwise at most `top` classes, the most likely first.
    """

    outputs: tuple[OutputLabels, ...]
    confidence: float
    multiple: bool = False
    top: int = 1
    vote: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class LabelVotes:
    """The probabilities of each output's classes, summed over all results for an object, each times its weight."""

    sums: tuple[npt.NDArray[np.float64], ...]
    weight: float

    def means(self) -> Means:
        """Return the mean probability of each class."""
        return tuple(values / self.weight for values in self.sums)


class LabelPostprocessor(Postprocessor[LabelVotes]):
    """Labels objects and frames. Over a track's life the probabilities are averaged, so that no label flickers.

    The mean is taken of the probabilities, not of their logarithms: results for the same object are not independent,
    and in a product one blurred crop with a confident wrong class outvotes all others (the sum rule; Kittler et al.,
    "On combining classifiers", IEEE TPAMI 20 (3), 1998). Each result is weighted by the square of the object's
    confidence, because truncated and occluded objects are detected with little confidence and classified badly.
    """

    def __init__(self, plan: ModelPlan, rules: LabelRules, *, element_id: str) -> None:
        self._plan = plan
        self._rules = rules
        self._origin = Origin(element_id, rules.outputs[0].labels)

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> LabelVotes | None:
        if not all_finite(outputs):
            return None
        scores: Scores = self._plan.decode(outputs, size_wh=target.placement.size_wh)
        weight = _weight(batch.objects, target.object)
        return LabelVotes(tuple(values.astype(np.float64) * weight for values in scores.values), weight)

    def explain(self, outputs: Sequence[Array], placement: Placement, *, size_wh: tuple[int, int]) -> Explanation:
        from sightline_plugins.infer.inspection import explain_scores

        del size_wh
        scores: Scores = self._plan.decode(outputs, size_wh=placement.size_wh)
        named = zip(self._rules.outputs, scores.values, strict=True)
        return explain_scores({output.attribute: (values, output.label) for output, values in named})

    def remember(
        self, entry: TrackEntry[LabelVotes], result: LabelVotes, target: InferenceTarget, batch: Batch
    ) -> LabelVotes:
        """Return the votes of all results for the track."""
        known = entry.result
        if known is not None and self._rules.vote:
            sums = tuple(before + now for before, now in zip(known.sums, result.sums, strict=True))
            result = LabelVotes(sums, known.weight + result.weight)
        return super().remember(entry, result, target, batch)

    def attach(self, batch: Batch, results: Sequence[TargetResult[LabelVotes]]) -> Batch:
        """Return the batch with attributes on the objects, or with one more object per part of a frame."""
        known = [(target, votes.means()) for target, votes in results if votes is not None]
        described = [
            (target, Description(self._attributes(means)) if target.object >= 0 else self._frame_description(means))
            for target, means in known
            if target.object >= 0 or self._is_reported(means[0])
        ]
        return with_descriptions(batch, described, origin=self._origin)

    def _is_reported(self, mean: npt.NDArray[np.float64]) -> bool:
        return bool(mean.max() >= self._rules.confidence)

    def _frame_description(self, means: Means) -> Description:
        """Return the description of a part of a frame, whose label is the class of the first output."""
        attributes = self._attributes(means)
        if not self._rules.multiple:
            label = self._rules.outputs[0].attribute
            del attributes[label], attributes[f"{label}_confidence"]
        return Description(attributes, float(means[0].max()), int(means[0].argmax()))

    def _attributes(self, means: Means) -> Attributes:
        attributes: Attributes = {}
        for output, mean in zip(self._rules.outputs, means, strict=True):
            if self._is_reported(mean):
                attributes |= self._tags(output, mean) if self._rules.multiple else self._class(output, mean)
        return attributes

    def _class(self, output: OutputLabels, mean: npt.NDArray[np.float64]) -> Attributes:
        order = np.argsort(-mean, kind="stable")[: self._rules.top].tolist()
        attributes: Attributes = {
            output.attribute: output.label(order[0]),
            f"{output.attribute}_confidence": float(mean[order[0]]),
        }
        if self._rules.top > 1:
            attributes[f"{output.attribute}_top"] = tuple(output.label(class_id) for class_id in order)
        return attributes

    def _tags(self, output: OutputLabels, mean: npt.NDArray[np.float64]) -> Attributes:
        likely = np.flatnonzero(mean >= self._rules.confidence)
        return {output.attribute: tuple(output.label(class_id) for class_id in likely.tolist())}


def _weight(objects: Objects, row: int) -> float:
    return 1.0 if row < 0 else max(float(objects.confidence[row]), _MIN_WEIGHT) ** 2
