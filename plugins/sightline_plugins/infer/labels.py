"""Classification results: attributes of objects, or an object for each frame region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Origin
from sightline_plugins.heads.head import Array, Scores
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor, TargetResult
from sightline_plugins.infer.targets import InferenceTarget, region_of
from sightline_plugins.infer.track_memory import TrackEntry

Floats = npt.NDArray[np.float32]
Value = str | float | tuple[str, ...]
Values = dict[str, Value]

_LEAST = 0.1
"""Confidence below which doubtful objects weigh the same, so that a vote is never nothing."""


@dataclass(frozen=True, slots=True)
class AttributeLabels:
    """One output: the attribute that it becomes and the labels of its classes (numbers where there are none)."""

    attribute: str
    labels: tuple[str, ...]

    def label(self, class_id: int) -> str:
        """The name of a class."""
        return self.labels[class_id] if class_id < len(self.labels) else str(class_id)


@dataclass(frozen=True, slots=True)
class LabelRules:
    """What becomes of probabilities.

    `confidence` is the least probability of a label; of the others nothing is told. `several` says that labels exclude
    one another not: all that are likely enough are told. `top` classes are told at most, beginning with the likeliest.
    """

    choices: tuple[AttributeLabels, ...]
    confidence: float
    several: bool = False
    top: int = 1
    vote: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class LabelVotes:
    """Probabilities of each choice's classes, summed over the looks at the same thing, each times its weight."""

    sums: tuple[npt.NDArray[np.float64], ...]
    weight: float

    def means(self) -> tuple[npt.NDArray[np.float64], ...]:
        """The mean probability of each class."""
        return tuple(values / self.weight for values in self.sums)


class LabelPostprocessor(Postprocessor[LabelVotes]):
    """Names what it sees. Over a track's life the probabilities of all looks are averaged, so that no label flickers.

    The mean is taken of the probabilities themselves and not of their logarithms: looks at the same thing are no
    independent witnesses, and in a product one blurred look that is sure of the wrong thing outvotes all others (the
    sum rule; Kittler et al., "On combining classifiers", IEEE TPAMI 20 (3), 1998). Each look weighs as much as the
    square of the object's confidence then: boxes that are cut off or half hidden are doubtful, and say little.
    """

    def __init__(self, plan: ModelPlan, rules: LabelRules, *, element_id: str) -> None:
        self._plan = plan
        self._rules = rules
        self._origin = Origin(element_id, rules.choices[0].labels)

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> LabelVotes | None:
        """See `Task.read`."""
        plan = self._plan
        assert plan.head is not None
        if not all(np.isfinite(output).all() for output in outputs):
            return None
        found: Scores = plan.head.decode(outputs, plan.reading(size_wh=target.placement.size_wh))
        weight = _weight(batch.objects, target.object)
        return LabelVotes(tuple(values.astype(np.float64) * weight for values in found.values), weight)

    def learn(
        self, slot: TrackEntry[LabelVotes], answer: LabelVotes, target: InferenceTarget, batch: Batch
    ) -> LabelVotes:
        """What all looks at the track say together."""
        known = slot.known
        if known is not None and self._rules.vote:
            sums = tuple(before + now for before, now in zip(known.sums, answer.sums, strict=True))
            answer = LabelVotes(sums, known.weight + answer.weight)
        return super().learn(slot, answer, target, batch)

    def attach(self, batch: Batch, answered: Sequence[TargetResult[LabelVotes]]) -> Batch:
        """The batch with attributes on the objects that were looked at, or an object more for each image."""
        told = [(target, answer.means()) for target, answer in answered if answer is not None]
        on_objects = [(target.object, self._values(means)) for target, means in told if target.object >= 0]
        objects = with_attributes(batch.objects, on_objects)
        seen = [(target, means) for target, means in told if target.object < 0 and self._is_told(means[0])]
        if seen:
            objects = Objects.concat([objects, self._objects(seen, batch)])
        return batch if objects is batch.objects else batch.with_objects(objects)

    def _is_told(self, mean: npt.NDArray[np.float64]) -> bool:
        return bool(mean.max() >= self._rules.confidence)

    def _objects(
        self, seen: Sequence[tuple[InferenceTarget, Sequence[npt.NDArray[np.float64]]]], batch: Batch
    ) -> Objects:
        objects = Objects.from_columns(
            frame=[target.row for target, _ in seen],
            xyxy=[region_of(target, batch.frames[target.row].size_wh) for target, _ in seen],
            confidence=[means[0].max() for _, means in seen],
            class_id=[means[0].argmax() for _, means in seen],
            source=self._origin,
        )
        return with_attributes(objects, [(row, self._besides(means)) for row, (_, means) in enumerate(seen)])

    def _besides(self, means: Sequence[npt.NDArray[np.float64]]) -> Values:
        """The attributes of an object whose label is the first choice's class; these do not say it again."""
        values = self._values(means)
        if not self._rules.several:
            attribute = self._rules.choices[0].attribute
            values = {
                name: value for name, value in values.items() if name not in (attribute, f"{attribute}_confidence")
            }
        return values

    def _values(self, means: Sequence[npt.NDArray[np.float64]]) -> Values:
        values: Values = {}
        for choice, mean in zip(self._rules.choices, means, strict=True):
            if self._is_told(mean):
                values |= self._tags(choice, mean) if self._rules.several else self._class(choice, mean)
        return values

    def _class(self, choice: AttributeLabels, mean: npt.NDArray[np.float64]) -> Values:
        order = np.argsort(-mean, kind="stable")[: self._rules.top].tolist()
        values: Values = {
            choice.attribute: choice.label(order[0]),
            f"{choice.attribute}_confidence": float(mean[order[0]]),
        }
        if self._rules.top > 1:
            values[f"{choice.attribute}_top"] = tuple(choice.label(number) for number in order)
        return values

    def _tags(self, choice: AttributeLabels, mean: npt.NDArray[np.float64]) -> Values:
        likely = np.flatnonzero(mean >= self._rules.confidence)
        return {choice.attribute: tuple(choice.label(number) for number in likely.tolist())}


def _weight(objects: Objects, row: int) -> float:
    return 1.0 if row < 0 else max(float(objects.confidence[row]), _LEAST) ** 2


def with_attributes(objects: Objects, rows: Sequence[tuple[int, Values]]) -> Objects:
    """A table with attributes at some of its rows; other rows keep theirs."""
    columns: dict[str, tuple[list[int], list[Value]]] = {}
    for row, values in rows:
        for name, value in values.items():
            places, column = columns.setdefault(name, ([], []))
            places.append(row)
            column.append(value)
    for name, (places, column) in columns.items():
        objects = objects.with_values(name, rows=places, values=_column(column))
    return objects


def _column(values: Sequence[Value]) -> npt.NDArray[np.generic]:
    if isinstance(values[0], float):
        return np.array(values, np.float32)
    if isinstance(values[0], str):
        return np.array(values)
    column = np.empty(len(values), np.object_)
    column[:] = values
    return column
