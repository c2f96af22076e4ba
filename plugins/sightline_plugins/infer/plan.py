"""Resolve how a model is used: options, model card, file metadata and the defaults of the head, merged.

An option wins over the card, the card over the file's metadata, the metadata over the family's habits. Every mistake is
collected, so that a check can tell them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from sightline.errors import ModelError
from sightline.graph.element import Problem
from sightline.graph.registry import suggest
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.head import DecodeContext, Head, Signature
from sightline_plugins.heads.registry import heads_of, match_head
from sightline_plugins.infer.card import ExportMetadata, ModelCard, read_alphabet, read_card, read_labels, read_metadata
from sightline_plugins.infer.facts import ModelFacts, ModelInputs, find_inputs, read_facts
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.pixels.preprocess import Preprocessing
from sightline_plugins.pixels.stacks import StackForm

_MERGED = ("fit", "align", "crop", "multiple", "resize", "convert", "color", "mean", "scale", "pad")
NamedClass: TypeAlias = tuple[tuple[str | int, ...], str]
"""A class that an option names: the option's key path, and the label."""
_BOX_TASKS = ("detect", "segment", "pose")


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Everything that the steps of all tasks have to know of a model, decided.

    `head` is None where none is needed, `stack` where the model takes single images.
    """

    head: Head[Any] | None
    head_options: BaseModel | None
    labels: tuple[str, ...]
    inputs: ModelInputs
    outputs: tuple[TensorSpec, ...]
    preprocessing: Preprocessing
    card: ModelCard
    output_ops: tuple[str, ...]
    stack: StackForm | None = None

    def reading(self, *, size_wh: tuple[int, int], confidence: float = 0.0) -> DecodeContext:
        """What the head is told about an image that is `size_wh` large in the network's input."""
        names = tuple(output.name for output in self.outputs)
        return DecodeContext(size_wh, confidence, names, self.labels, self.head_options, self.output_ops)


@dataclass(frozen=True, slots=True)
class _Said:
    """What card and file say, once they could be read."""

    card: ModelCard
    facts: ModelFacts
    exported: ExportMetadata
    inputs: ModelInputs


def plan_model(
    element: ModelElement, *, named: Sequence[NamedClass] = (), needs_head: bool = True
) -> tuple[ModelPlan | None, list[Problem]]:
    """The plan, or None and at least one problem. Reads the model file, its card and the labels; loads no engine.

    `named` are classes that options name, which have to be among the labels.
    """
    problems: list[Problem] = []
    said = _read(element, problems)
    if said is None:
        return None, problems
    labels = _labels(element, said, problems)
    asked = _asked_size(element, said, problems)
    head = _head(element, said, asked, labels, problems) if needs_head else None
    labels = labels or (head.labels if head is not None else ())
    problems += _unknown_classes(named, labels)
    options = _head_options(element, said, head, problems)
    preprocessing = _preprocessing(element, said, head, asked, problems)
    if head is not None:
        _check_classes(head, said, labels, problems)
    stack = _stack(element, said, problems)
    if preprocessing is None or problems:
        return None, problems
    facts = said.facts
    plan = ModelPlan(
        head, options, labels, said.inputs, facts.outputs, preprocessing, said.card, facts.output_ops, stack
    )
    return plan, problems


def _read(element: ModelElement, problems: list[Problem]) -> _Said | None:
    model = element.model
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
        if task not in (None, element.task) and element.task in _TASKS and not _is_kind_of(task, element.task):
            message = f"model {str(model)!r} is made for {task!r}, as {where} says, not for {element.task!r}"
            problems.append(Problem(message, ("model",)))
    return said


_TASKS = (*_BOX_TASKS, "classify", "embed", "read")


def _is_kind_of(task: str | None, wanted: str) -> bool:
    """Whether a model for `task` can serve as one for `wanted`: what segments or finds poses finds boxes, too."""
    return wanted == "detect" and task in ("segment", "pose", "obb")


def _labels(element: ModelElement, said: _Said, problems: list[Problem]) -> tuple[str, ...]:
    given = element.labels if element.labels is not None else said.card.labels
    if given is None:
        return said.exported.labels
    if not isinstance(given, Path):
        return given
    try:
        return read_alphabet(given) if element.task == "read" else read_labels(given)
    except ModelError as error:
        problems.append(Problem(str(error), ("labels",)))
        return ()


def _asked_size(element: ModelElement, said: _Said, problems: list[Problem]) -> tuple[int, int] | None:
    """The size of the network's input; None when nothing says it."""
    fixed = (said.inputs.width, said.inputs.height)
    asked = element.size or said.card.input.size or (None if None not in fixed else said.exported.size_wh)
    if asked is not None and any(own not in (None, wish) for own, wish in zip(fixed, asked, strict=True)):
        own = "x".join("?" if size is None else str(size) for size in fixed)
        message = f"the model takes images of {own} only, not {asked[0]}x{asked[1]}: leave size out"
        problems.append(Problem(message, ("size",)))
        asked = None
    width, height = asked or fixed
    return None if width is None or height is None else (width, height)


def _head(
    element: ModelElement,
    said: _Said,
    size_wh: tuple[int, int] | None,
    labels: tuple[str, ...],
    problems: list[Problem],
) -> Head[Any] | None:
    heads = heads_of(element.task)
    name = element.head or said.card.head
    if name is not None and name not in heads:
        message = f"there is no head {name!r} for {element.task}{suggest(name, heads)}; heads: {', '.join(heads)}"
        problems.append(Problem(message, ("head",)))
        return None
    if name is None:
        facts = said.facts
        signature = Signature(
            facts.outputs, size_wh or (0, 0), len(labels) or None, facts.output_ops, said.exported.task
        )
        try:
            name = match_head(signature, heads.values())
        except ModelError as error:
            problems.append(Problem(f"model {str(element.model)!r}: {error}", ("head",)))
    return None if name is None else heads[name]


def _head_options(
    element: ModelElement, said: _Said, head: Head[Any] | None, problems: list[Problem]
) -> BaseModel | None:
    given: Mapping[str, Any] = {**said.card.head_options, **element.head_options}
    if head is None or head.options is None:
        if given and head is not None:
            problems.append(Problem(f"head {head.name!r} has no options", ("head_options",)))
        return None
    known_names = head.options.model_fields
    exported = {name: value for name, value in said.exported.head_options.items() if name in known_names}
    try:
        return head.options.model_validate({**exported, **given})
    except ValidationError as error:
        known = ", ".join(known_names)
        problems += [
            Problem(f"{detail['msg']}; options of head {head.name!r}: {known}", ("head_options", *detail["loc"]))
            for detail in error.errors(include_url=False, include_input=False)
        ]
        return None


def _check_classes(head: Head[Any], said: _Said, labels: tuple[str, ...], problems: list[Problem]) -> None:
    shapes = [output.shape for output in said.facts.outputs]
    if head.ranks and len(shapes[0]) not in head.ranks:
        message = f"head {head.name!r} cannot read this model's output {said.facts.outputs[0]}"
        problems.append(Problem(message, ("head",)))
        return
    count = head.count_classes(shapes)
    if count is not None and count < 1:
        message = f"head {head.name!r} finds no classes in this model's output {said.facts.outputs[0]}"
        problems.append(Problem(message, ("head",)))
        return
    if labels and count is not None and count != len(labels):
        message = f"the model knows {count} classes, {len(labels)} labels are given"
        problems.append(Problem(message, ("labels",)))


def _unknown_classes(named: Sequence[NamedClass], labels: tuple[str, ...]) -> list[Problem]:
    known = f"the model's labels are {', '.join(labels)}" if labels else "no labels are known: give labels"
    return [
        Problem(f"there is no class {name!r}{suggest(name, labels)}; {known}", key)
        for key, name in named
        if name not in labels
    ]


def _preprocessing(
    element: ModelElement,
    said: _Said,
    head: Head[Any] | None,
    size_wh: tuple[int, int] | None,
    problems: list[Problem],
) -> Preprocessing | None:
    chosen: dict[str, Any] = dict(head.preprocessing) if head is not None else {}
    if chosen.get("fit") == "native" and size_wh is not None:
        chosen["fit"] = "letterbox"
    chosen |= said.exported.usual
    if said.inputs.channels == 1:
        chosen["color"] = "gray"
    if _image(said).dtype.kind in "iu":
        chosen |= _LEVELS
    for source in (said.card.input, element):
        chosen |= {name: getattr(source, name) for name in _MERGED if getattr(source, name) is not None}
    if (chosen.get("color", "rgb") == "gray") != (said.inputs.channels == 1):
        message = f"the model takes {said.inputs.channels} channel(s): color cannot be {chosen.get('color', 'rgb')!r}"
        problems.append(Problem(message, ("color",)))
        return None
    if not _takes_levels_as_they_are(said, chosen, problems):
        return None
    if chosen.get("fit") == "native":
        if said.inputs.stack is not None:
            problems.append(Problem("the images of a stack are of one size: fit cannot be native", ("fit",)))
            return None
        if (said.inputs.width, said.inputs.height) != (None, None):
            message = f"the model takes images of one size only ({_image(said)}): fit cannot be native"
            problems.append(Problem(message, ("fit",)))
            return None
        return Preprocessing(size_wh=None, **chosen)
    if size_wh is None:
        message = "the model takes images of any size: say which to use, such as size: [640, 640], or fit: native"
        problems.append(Problem(message, ("size",)))
        return None
    return Preprocessing(size_wh=size_wh, **chosen)


def _stack(element: ModelElement, said: _Said, problems: list[Problem]) -> StackForm | None:
    """The stack of images that the model takes; None for one that takes single ones."""
    takes, image = said.inputs.stack, _image(said)
    if takes is None:
        problems += [
            Problem(f"the model takes single images ({image}): leave {name} out", (name,))
            for name in ("frames", "stride")
            if getattr(element, name) is not None
        ]
        return None
    frames = element.frames or said.card.input.frames or takes.frames
    if frames is None:
        message = f"the model takes stacks of any number of images ({image}): say how many, such as frames: 16"
        problems.append(Problem(message, ("frames",)))
        return None
    if takes.frames not in (None, frames):
        message = f"the model takes {takes.frames} images at once ({image}), not {frames}: leave frames out"
        problems.append(Problem(message, ("frames",)))
    return StackForm(frames, element.stride or said.card.input.stride or 1, takes.order)


_LEVELS: Mapping[str, Any] = MappingProxyType({"mean": (0.0,), "scale": (1.0,)})
"""What a model that takes bytes wants: levels of 0 to 255 as they are."""


def _image(said: _Said) -> TensorSpec:
    """The input that takes the image."""
    return said.facts.inputs[said.inputs.image]


def _takes_levels_as_they_are(said: _Said, chosen: Mapping[str, Any], problems: list[Problem]) -> bool:
    """False, and a problem told, where a model that takes bytes would get fractions."""
    if _image(said).dtype.kind not in "iu":
        return True
    wrong = [name for name, neutral in _LEVELS.items() if set(chosen[name]) != set(neutral)]
    problems += [
        Problem(f"the model takes levels of 0 to 255 as they are ({_image(said)}): leave {name} out", (name,))
        for name in wrong
    ]
    return not wrong
