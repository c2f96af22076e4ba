"""From what was written to what is done: options, model card, model file and the habits of the head, merged.

An option wins over the card, the card over the file's metadata, the metadata over the family's habits. Every mistake is
collected, so that a check can tell them all.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline.graph.element import Problem
from sightline.graph.registry import suggest
from sightline_plugins.infer.card import ModelCard, read_card, read_labels
from sightline_plugins.infer.heads import HEADS, Head
from sightline_plugins.infer.heads.recognise import recognise
from sightline_plugins.infer.metadata import ExportFacts, read_metadata
from sightline_plugins.infer.model_facts import ModelFacts, ModelInputs, find_inputs, read_facts
from sightline_plugins.infer.nms import NmsOptions
from sightline_plugins.infer.preprocess import Preprocessing

if TYPE_CHECKING:
    from sightline_plugins.infer.detect import Detect

CONFIDENCE = 0.25
_MERGED = ("fit", "align", "resize", "convert", "color", "mean", "scale", "pad")


@dataclass(frozen=True, slots=True, eq=False)
class DetectionPlan:
    """Everything that a detector does, decided.

    `limits` (classes + 1,) holds the least confidence for each class, the last one for classes beyond; `confidence` is
    the least of them. `wanted` (classes + 1,) says which classes become objects, None for all.
    """

    head: Head
    labels: tuple[str, ...]
    inputs: ModelInputs
    preprocessing: Preprocessing
    nms: NmsOptions
    confidence: float
    limits: npt.NDArray[np.float32]
    wanted: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class _Said:
    """What card and file say, once they could be read."""

    card: ModelCard
    facts: ModelFacts
    exported: ExportFacts
    inputs: ModelInputs


def plan_detection(element: Detect) -> tuple[DetectionPlan | None, list[Problem]]:
    """The plan, or None and at least one problem. Reads the model file, its card and the labels; loads no engine."""
    problems: list[Problem] = []
    said = _read(element.model, problems)
    if said is None:
        return None, problems
    labels = _labels(element, said, problems)
    size_wh = _size(element, said, problems)
    head = _head(element, said, size_wh, labels, problems)
    _check_labels(element, said, head, labels, problems)
    if head is None or size_wh is None or problems:
        return None, problems
    least, limits = _limits(element, said.card, labels)
    return DetectionPlan(
        head=head,
        labels=labels,
        inputs=said.inputs,
        preprocessing=_preprocessing(element, said.card, head, size_wh),
        nms=_nms(element, said.card, head),
        confidence=least,
        limits=limits,
        wanted=_wanted(element, labels),
    ), problems


def _read(model: Path, problems: list[Problem]) -> _Said | None:
    try:
        card = read_card(model)
        facts = read_facts(model)
        exported = read_metadata(facts.metadata)
        said = _Said(card, facts, exported, find_inputs(facts.inputs))
    except ModelError as error:
        text = str(error)
        problems.append(Problem(text if str(model) in text else f"model {str(model)!r}: {text}", ("model",)))
        return None
    for task, where in ((card.task, "its card"), (exported.task, "its metadata")):
        if task not in (None, "detect"):
            message = f"model {str(model)!r} is made for {task!r}, as {where} says; detect needs a detector"
            problems.append(Problem(message, ("model",)))
    return said


def _labels(element: Detect, said: _Said, problems: list[Problem]) -> tuple[str, ...]:
    given = element.labels if element.labels is not None else said.card.labels
    if given is None:
        return said.exported.labels
    if not isinstance(given, Path):
        return given
    try:
        return read_labels(given)
    except ModelError as error:
        problems.append(Problem(str(error), ("labels",)))
        return ()


def _size(element: Detect, said: _Said, problems: list[Problem]) -> tuple[int, int] | None:
    fixed = (said.inputs.width, said.inputs.height)
    asked = element.size or said.card.input.size or (None if None not in fixed else said.exported.size_wh)
    if asked is not None and any(own not in (None, wish) for own, wish in zip(fixed, asked, strict=True)):
        own = "x".join("?" if size is None else str(size) for size in fixed)
        message = f"the model takes pictures of {own} only, not {asked[0]}x{asked[1]}: leave size out"
        problems.append(Problem(message, ("size",)))
        asked = None
    width, height = asked or fixed
    if width is None or height is None:
        message = "the model takes pictures of any size: say which to use, such as size: [640, 640]"
        problems.append(Problem(message, ("size",)))
        return None
    return width, height


def _head(
    element: Detect,
    said: _Said,
    size_wh: tuple[int, int] | None,
    labels: tuple[str, ...],
    problems: list[Problem],
) -> Head | None:
    name = element.head or said.card.head
    if name is not None and name not in HEADS:
        message = f"there is no head {name!r}{suggest(name, HEADS)}; heads: {', '.join(HEADS)}"
        problems.append(Problem(message, ("head",)))
        return None
    if name is None and size_wh is not None:
        try:
            name = recognise(said.facts.outputs, size_wh=size_wh, classes=len(labels) or None)
        except ModelError as error:
            message = f"model {str(element.model)!r}: {error}; heads: {', '.join(HEADS)}"
            problems.append(Problem(message, ("head",)))
    return None if name is None else HEADS[name]


def _check_labels(
    element: Detect, said: _Said, head: Head | None, labels: tuple[str, ...], problems: list[Problem]
) -> None:
    shapes = [output.shape for output in said.facts.outputs]
    if head is not None and head.ranks and len(shapes[0]) not in head.ranks:
        message = f"head {head.name!r} can not read this model's output {said.facts.outputs[0]}"
        problems.append(Problem(message, ("head",)))
        return
    count = None if head is None else head.count_classes(shapes)
    if head is not None and count is not None and count < 1:
        message = f"head {head.name!r} finds no classes in this model's output {said.facts.outputs[0]}"
        problems.append(Problem(message, ("head",)))
        return
    if labels and count is not None and count != len(labels):
        message = f"the model knows {count} classes, {len(labels)} labels are given"
        problems.append(Problem(message, ("labels",)))
    named: list[tuple[tuple[str | int, ...], str]] = [
        (("classes", number), name) for number, name in enumerate(element.classes or ())
    ]
    named += [(("class_confidence", name), name) for name in element.class_confidence]
    for key, name in named:
        if name not in labels:
            known = f"the model's labels are {', '.join(labels)}" if labels else "no labels are known: give labels"
            problems.append(Problem(f"there is no class {name!r}{suggest(name, labels)}; {known}", key))


def _limits(element: Detect, card: ModelCard, labels: tuple[str, ...]) -> tuple[float, npt.NDArray[np.float32]]:
    general = next(value for value in (element.confidence, card.confidence, CONFIDENCE) if value is not None)
    limits = np.full(len(labels) + 1, general, np.float32)
    for name, value in element.class_confidence.items():
        limits[labels.index(name)] = value
    return min(general, *element.class_confidence.values(), general), limits


def _wanted(element: Detect, labels: tuple[str, ...]) -> npt.NDArray[np.bool_] | None:
    if element.classes is None:
        return None
    return np.array([label in element.classes for label in labels] + [False])


def _preprocessing(element: Detect, card: ModelCard, head: Head, size_wh: tuple[int, int]) -> Preprocessing:
    chosen: dict[str, Any] = dict(head.usual)
    for source in (card.input, element):
        chosen |= {name: getattr(source, name) for name in _MERGED if getattr(source, name) is not None}
    return Preprocessing(size_wh=size_wh, **chosen)


def _nms(element: Detect, card: ModelCard, head: Head) -> NmsOptions:
    chosen = head.nms
    for source in (card.nms, element):
        said = {entry.name: getattr(source, entry.name) for entry in fields(NmsOptions)}
        chosen = replace(chosen, **{name: value for name, value in said.items() if value is not None})
    return chosen
