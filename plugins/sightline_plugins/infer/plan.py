"""Plan how a model is used: the options of its element, model card, file metadata and defaults of the head, merged.

An option wins over the card, the card over the file's metadata, the metadata over the defaults of the head's family.
Every mistake is collected, so that a check can report them all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ValidationError

from sightline.errors import ModelError
from sightline.graph.element import Problem
from sightline.graph.wording import suggest
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.head import Array, DecodeContext, Head
from sightline_plugins.heads.registry import find_head, heads_of, match_head
from sightline_plugins.infer.card import ExportMetadata, ModelCard, read_alphabet, read_card, read_labels, read_metadata
from sightline_plugins.infer.facts import ModelFacts, ModelInputs, find_inputs, read_facts
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.tasks import form_of_outputs, signature_of
from sightline_plugins.preprocess.definition import Preprocessing
from sightline_plugins.preprocess.placement import Rounding
from sightline_plugins.preprocess.stacks import StackForm

NamedClass: TypeAlias = tuple[tuple[str | int, ...], str]
"""A class that an option names: the option's key path, and the label."""

ValueOrigin: TypeAlias = Literal["option", "card", "metadata", "file", "head", "outputs", "default"]
"""Where a decision comes from: an option of the element, the model card, the file's metadata, the shapes in the file,
the family of the head, for the head itself the outputs that it was recognised by, or the element's defaults."""

_TASKS = ("detect", "segment", "pose", "classify", "embed", "read")
_PREPROCESSING = ("fit", "align", "crop", "multiple", "resize", "convert", "color", "mean", "scale", "pad")
_LEVELS: Mapping[str, Any] = MappingProxyType({"mean": (0.0,), "scale": (1.0,)})
"""Normalisation of models that take bytes: none."""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """All decisions about a model. `head` is None where none is needed, `stack` where it takes single images.

    `origins` has the origin of each decision: of `head`, `labels` (missing where none are known), `size`, `frames`,
    `stride`, and of each field of the pre-processing.
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
    origins: Mapping[str, ValueOrigin] = field(default_factory=lambda: MappingProxyType({}))

    def decode_context(self, *, size_wh: tuple[int, int], confidence: float = 0.0) -> DecodeContext:
        """Return what the head needs to know of an input that is `size_wh` large."""
        names = tuple(output.name for output in self.outputs)
        return DecodeContext(size_wh, confidence, names, self.labels, self.head_options, self.output_ops)

    def decode(self, outputs: Sequence[Array], *, size_wh: tuple[int, int], confidence: float = 0.0) -> Any:
        """Decode the outputs for an input that is `size_wh` large, by the head that the plan has to have."""
        assert self.head is not None
        with np.errstate(all="ignore"):  # outputs may be anything; results that are not finite are dropped and counted
            return self.head.decode(outputs, self.decode_context(size_wh=size_wh, confidence=confidence))


def plan_model(
    element: ModelElement, *, named: Sequence[NamedClass] = (), needs_head: bool = True
) -> tuple[ModelPlan | None, list[Problem]]:
    """Return the plan, or None and at least one problem. Reads model file, card and labels; loads no engine.

    `named` are classes that options name, which have to be among the labels.
    """
    try:
        card = read_card(element.model)
        facts = read_facts(element.model)
        planner = _Planner(element, card, facts, read_metadata(facts.metadata), find_inputs(facts.inputs))
    except ModelError as error:
        text, model = str(error), str(element.model)
        return None, [Problem(text if model in text else f"model {model!r}: {text}", ("model",))]
    plan = planner.plan(named, needs_head=needs_head)
    return plan, planner.problems


@dataclass(slots=True)
class _Planner:
    """Decides one part after the other, and collects problems."""

    element: ModelElement
    card: ModelCard
    facts: ModelFacts
    exported: ExportMetadata
    inputs: ModelInputs
    problems: list[Problem] = field(default_factory=list)
    origins: dict[str, ValueOrigin] = field(default_factory=dict)

    def plan(self, named: Sequence[NamedClass], *, needs_head: bool) -> ModelPlan | None:
        self._check_task()
        labels = self._labels()
        size_wh = self._size_wh()
        head = self._head(size_wh, labels) if needs_head else None
        if not labels and head is not None and head.labels:
            labels, self.origins["labels"] = head.labels, "head"
        self._check_named(named, labels)
        self._check_named([(("labels",), name) for name in self.card.class_confidence], labels)
        options = self._head_options(head)
        preprocessing = self._preprocessing(head, size_wh)
        if head is not None:
            self._check_classes(head, labels)
        stack = self._stack()
        if preprocessing is None or self.problems:
            return None
        return ModelPlan(
            head,
            options,
            labels,
            self.inputs,
            self.facts.outputs,
            preprocessing,
            self.card,
            self.facts.output_ops,
            stack,
            MappingProxyType(self.origins),
        )

    def _problem(self, message: str, *key: str | int) -> None:
        self.problems.append(Problem(message, key))

    @property
    def _image(self) -> TensorSpec:
        return self.facts.inputs[self.inputs.image]

    def _check_task(self) -> None:
        model, wanted = str(self.element.model), self.element.task
        for task, where in ((self.card.task, "its card"), (self.exported.task, "its metadata")):
            finds_boxes = wanted == "detect" and task in ("segment", "pose", "obb")
            if task not in (None, wanted) and wanted in _TASKS and not finds_boxes:
                self._problem(f"model {model!r} is made for {task!r} according to {where}, not for {wanted!r}", "model")

    def _labels(self) -> tuple[str, ...]:
        given = self.element.labels if self.element.labels is not None else self.card.labels
        if given is None:
            if self.exported.labels:
                self.origins["labels"] = "metadata"
            return self.exported.labels
        self.origins["labels"] = "card" if self.element.labels is None else "option"
        if not isinstance(given, Path):
            return given
        try:
            return read_alphabet(given) if self.element.task == "read" else read_labels(given)
        except ModelError as error:
            self._problem(str(error), "labels")
            return ()

    def _size_wh(self) -> tuple[int, int] | None:
        """Return the size of the network's input; None when nothing sets it."""
        fixed = (self.inputs.width, self.inputs.height)
        exported = None if None not in fixed else self.exported.size_wh
        self.origins["size"] = "file"
        given: tuple[tuple[ValueOrigin, tuple[int, int] | None], ...]
        given = (("option", self.element.size), ("card", self.card.input.size), ("metadata", exported))
        asked = None
        for origin, size_wh in given:
            if size_wh is not None:
                asked, self.origins["size"] = size_wh, origin
                break
        if asked is not None and any(own not in (None, side) for own, side in zip(fixed, asked, strict=True)):
            own = "x".join("?" if side is None else str(side) for side in fixed)
            self._problem(f"the model takes images of {own} only, not {asked[0]}x{asked[1]}: leave size out", "size")
            asked = None
        width, height = asked or fixed
        return None if width is None or height is None else (width, height)

    def _unknown_head(self, name: str, heads: Mapping[str, Head[Any]]) -> str:
        if ":" in name:
            return (
                f"a head is named here, and {name!r} is a function of yours: write "
                f"`- infer: {{model: {self.element.model}, head: {name!r}}}` instead of `{self.element.name}`"
            )
        return f"there is no head {name!r} for {self.element.task}{suggest(name, heads)}; heads: {', '.join(heads)}"

    def _head(self, size_wh: tuple[int, int] | None, labels: tuple[str, ...]) -> Head[Any] | None:
        task, facts = self.element.task, self.facts
        name = self.element.head or self.card.head
        self.origins["head"] = "option" if self.element.head else "card" if name else "outputs"
        if name is not None:
            head = find_head(name, task)
            if head is None:
                self._problem(self._unknown_head(name, heads_of(task)), "head")
            return head
        heads = heads_of(task)
        signature = signature_of(facts, self.exported, size_wh=size_wh, labels=labels)
        try:
            return heads[match_head(signature, heads.values())]
        except ModelError as error:
            form, message = form_of_outputs(facts, signature, beside=task), str(error)
            if form is not None and form.is_map:
                message += f"; if they are {form.what}, use the step `{form.task}`"
            elif form is not None:
                outputs = "; ".join(map(str, facts.outputs))
                message = f"its outputs ({outputs}) are those of {form.what}: use the step `{form.task}`, or set head"
            self._problem(f"model {str(self.element.model)!r}: {message}", "head")
        return None

    def _head_options(self, head: Head[Any] | None) -> BaseModel | None:
        given: Mapping[str, Any] = {**self.card.head_options, **self.element.head_options}
        if head is None or head.options is None:
            if given and head is not None:
                self._problem(f"head {head.name!r} has no options", "head_options")
            return None
        fields = head.options.model_fields
        exported = {name: value for name, value in self.exported.head_options.items() if name in fields}
        try:
            return head.options.model_validate({**exported, **given})
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                message = f"{detail['msg']}; options of head {head.name!r}: {', '.join(fields)}"
                self._problem(message, "head_options", *detail["loc"])
            return None

    def _check_named(self, named: Sequence[NamedClass], labels: tuple[str, ...]) -> None:
        known = f"the model's labels are {', '.join(labels)}" if labels else "no labels are known: give labels"
        for key, name in named:
            if name not in labels:
                self._problem(f"there is no class {name!r}{suggest(name, labels)}; {known}", *key)

    def _check_classes(self, head: Head[Any], labels: tuple[str, ...]) -> None:
        output = self.facts.outputs[0]
        if head.ranks and len(output.shape) not in head.ranks:
            self._problem(f"head {head.name!r} cannot read this model's output {output}", "head")
            return
        count = head.count_classes([output.shape for output in self.facts.outputs])
        if count is not None and count < 1:
            self._problem(f"head {head.name!r} finds no classes in this model's output {output}", "head")
        elif labels and count is not None and count != len(labels):
            self._problem(f"the model has {count} classes, {len(labels)} labels are given", "labels")

    def _preprocessing(self, head: Head[Any] | None, size_wh: tuple[int, int] | None) -> Preprocessing | None:
        chosen = self._chosen(head, size_wh)
        color, channels = chosen.get("color", "rgb"), self.inputs.channels
        if (color == "gray") != (channels == 1):
            self._problem(f"the model takes {channels} channel(s): color cannot be {color!r}", "color")
            return None
        if self._image.dtype.kind in "iu" and not self._keeps_levels(chosen):
            return None
        if chosen.get("fit") == "native":
            if self.inputs.stack is not None:
                self._problem("the images of a stack are of one size: fit cannot be native", "fit")
                return None
            if (self.inputs.width, self.inputs.height) != (None, None):
                self._problem(f"the model takes images of one size only ({self._image}): fit cannot be native", "fit")
                return None
            return Preprocessing(size_wh=None, **chosen)
        if size_wh is None:
            message = "the model takes images of any size: set one, such as size: [640, 640], or fit: native"
            self._problem(message, "size")
            return None
        rounding: Rounding = "nearest" if self.element.compat is None else "down"
        return Preprocessing(size_wh=size_wh, rounding=rounding, **chosen)

    def _chosen(self, head: Head[Any] | None, size_wh: tuple[int, int] | None) -> dict[str, Any]:
        """Return the pre-processing options that anything sets, by name."""
        chosen: dict[str, Any] = {}

        def choose(origin: ValueOrigin, values: Mapping[str, Any]) -> None:
            given = {name: value for name, value in values.items() if value is not None}
            chosen.update(given)
            self.origins.update(dict.fromkeys(given, origin))

        self.origins.update(dict.fromkeys(_PREPROCESSING, "default"))
        choose("head", head.preprocessing if head is not None else {})
        if chosen.get("fit") == "native" and size_wh is not None:
            choose("file", {"fit": "letterbox"})
        choose("metadata", self.exported.usual)
        if self.inputs.channels == 1:
            choose("file", {"color": "gray"})
        if self._image.dtype.kind in "iu":
            choose("file", _LEVELS)
        choose("card", {name: getattr(self.card.input, name) for name in _PREPROCESSING})
        choose("option", {name: getattr(self.element, name) for name in _PREPROCESSING})
        return chosen

    def _keeps_levels(self, chosen: Mapping[str, Any]) -> bool:
        """Check that a model which takes bytes gets no fractions."""
        changed = [name for name, neutral in _LEVELS.items() if set(chosen[name]) != set(neutral)]
        for name in changed:
            self._problem(f"the model takes levels of 0 to 255 as they are ({self._image}): leave {name} out", name)
        return not changed

    def _stack(self) -> StackForm | None:
        """Return the stack of images that the model takes; None for a model of single images."""
        takes, card, element = self.inputs.stack, self.card.input, self.element
        if takes is None:
            for name in ("frames", "stride"):
                if getattr(element, name) is not None:
                    self._problem(f"the model takes single images ({self._image}): leave {name} out", name)
            return None
        frames = element.frames or card.frames or takes.frames
        self.origins["frames"] = "option" if element.frames else "card" if card.frames else "file"
        self.origins["stride"] = "option" if element.stride else "card" if card.stride else "default"
        if frames is None:
            message = f"the model takes stacks of any number of images ({self._image}): set the number, such as"
            self._problem(f"{message} frames: 16", "frames")
            return None
        if takes.frames not in (None, frames):
            message = f"the model takes {takes.frames} images at once ({self._image}), not {frames}: leave frames out"
            self._problem(message, "frames")
        return StackForm(frames, element.stride or card.stride or 1, takes.order)
