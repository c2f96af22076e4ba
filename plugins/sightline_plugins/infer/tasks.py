"""Decide which element a model is for: what was asked, else its card, its metadata, or the form of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from sightline.errors import ModelError
from sightline_plugins.heads.classify import count_values
from sightline_plugins.heads.head import Candidates, Head, MatchScore, Signature, TaskName
from sightline_plugins.heads.registry import HEADS, match_scores
from sightline_plugins.infer.card import ExportMetadata, ModelCard, read_card, read_metadata
from sightline_plugins.infer.facts import ModelFacts, find_inputs, read_facts

TASKS: tuple[str, ...] = get_args(TaskName)
"""The elements that run models with a head of their own."""
TaskOrigin: TypeAlias = Literal["option", "card", "metadata", "outputs", "default"]

_SCORING_OPS = frozenset({"Softmax", "LogSoftmax", "Sigmoid"})
_FEATURE_OPS = frozenset({"Relu", "BatchNormalization", "LpNormalization", "Div", "PRelu", "GlobalAveragePool"})
_FEATURE_SIZES = frozenset({64, 128, 192, 256, 384, 512, 768, 1024, 2048})
_COARSE_STRIDE = 16
"""Detectors with one map have cells of this many pixels or more; maps of classes and keypoints have finer ones."""
_STRIP_PIXELS = 64
"""Images of a line of text are at most this high."""
_FORMS: Mapping[str, str] = MappingProxyType(
    {
        "detect": "boxes",
        "segment": "a map of classes",
        "pose": "keypoints",
        "classify": "a score for each class",
        "embed": "a vector of features",
        "read": "a symbol for each step",
    }
)


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """The element that a model is for, and where that comes from.

    `reason` is a sentence about it, `others` are elements that its outputs fit as well. `default` stands for: no head
    fits, and `detect` is as good as any.
    """

    task: str
    origin: TaskOrigin
    reason: str
    others: tuple[str, ...] = ()


def choose_task(model: Path | str, asked: str | None = None, *, head: str | None = None) -> TaskChoice:
    """Return the element that a model is for; `asked` and `head` are those that were asked for.

    Raises ModelError when model or card cannot be read.
    """
    facts, card = read_facts(model), read_card(model)
    exported = read_metadata(facts.metadata).task
    if asked is not None:
        return TaskChoice(asked, "option", "asked for")
    if head is not None and head in HEADS:
        return TaskChoice(HEADS[head].task, "option", f"head {head} is for it")
    if card.task is not None:
        return TaskChoice(card.task, "card", f"its model card has task: {card.task}")
    if card.head is not None and card.head in HEADS:
        return TaskChoice(HEADS[card.head].task, "card", f"its model card has head: {card.head}")
    if exported is not None:
        known = exported if exported in TASKS else "detect"
        return TaskChoice(known, "metadata", f"its metadata has task: {exported}")
    return _by_outputs(facts, _signature(facts, card))


def signature_of(
    facts: ModelFacts, exported: ExportMetadata, *, size_wh: tuple[int, int] | None, labels: Sequence[str]
) -> Signature:
    """Return what heads recognise a model by, when its input is `size_wh` large (None: open)."""
    return Signature(facts.outputs, size_wh or (0, 0), len(labels) or None, facts.output_ops, exported.task)


@dataclass(frozen=True, slots=True)
class OutputForm:
    """What the outputs of a model look like, in words, and the element that reads them. A map may as well be one of
    boxes that no head knows.
    """

    what: str
    task: str
    is_map: bool


def form_of_outputs(facts: ModelFacts, signature: Signature, *, beside: str) -> OutputForm | None:
    """Return the form of outputs that no head of the element `beside` fits; None when they fit none at all."""
    found = _by_outputs(facts, signature)
    if found.origin == "default" or found.task == beside:
        return None
    return OutputForm(_FORMS[found.task], found.task, is_map=_stride(signature) > 0 and not _is_one_row(signature))


def _signature(facts: ModelFacts, card: ModelCard) -> Signature:
    exported = read_metadata(facts.metadata)
    labels = card.labels if isinstance(card.labels, tuple) else exported.labels
    try:
        inputs = find_inputs(facts.inputs)
    except ModelError:
        return signature_of(facts, exported, size_wh=None, labels=labels)
    size_wh = None if inputs.width is None or inputs.height is None else (inputs.width, inputs.height)
    return signature_of(facts, exported, size_wh=size_wh or exported.size_wh, labels=labels)


def _by_outputs(facts: ModelFacts, signature: Signature) -> TaskChoice:
    """Return the element of the heads that fit.

    Heads are certain only among those of their own element, so forms are tried in the order of how telling they are.
    """
    scores = match_scores(signature, [head for head in HEADS.values() if _has_classes(head, signature)])
    ranked = _ranked(facts, signature, [HEADS[name] for name, score in scores.items() if score is MatchScore.CERTAIN])
    if not ranked or (ranked == ["read"] and not _is_text(facts, signature)):
        possible = [HEADS[name] for name, score in scores.items() if score is MatchScore.POSSIBLE]
        ranked = _ranked(facts, signature, possible) or ranked
    if not ranked:
        return TaskChoice("detect", "default", "no head fits its outputs, and no card or metadata has a task")
    task, *others = ranked
    is_clear = any(_is_confirmed(HEADS[name], signature) for name, score in scores.items() if score) or (
        task == "classify" and _are_probabilities(facts)
    )
    alternatives = () if is_clear else tuple(other for other in others if other != "read")
    return TaskChoice(task, "outputs", f"its outputs have the form of {_FORMS[task]}", alternatives)


def _ranked(facts: ModelFacts, signature: Signature, heads: Sequence[Head[Any]]) -> list[str]:
    """Return the elements of some heads, the most likely first.

    Probabilities are those of classes. Otherwise boxes come first, then maps, vectors, and at last text, which any
    table can be. Two forms look like boxes and are more often something else: a fine map, and a vector that is alone.
    """
    boxes = {head.task for head in heads if head.result_type is Candidates}
    others = {head.task for head in heads if head.result_type is not Candidates}
    vectors = [task for task in ("classify", "embed") if task in others]
    if len(vectors) > 1 and signature.classes is None and _are_features(facts):
        vectors.reverse()
    maps = [task for task in ("segment", "pose") if task in others]
    if len(maps) > 1 and _is_portrait(signature):
        maps.reverse()
    boxed = [task for task in ("segment", "pose", "detect") if task in boxes]
    order = [*boxed, *maps, *vectors]
    if vectors and (_are_probabilities(facts) or _is_one_row(signature)):
        order = [*vectors, *boxed, *maps]
    elif maps and _stride(signature) < _COARSE_STRIDE and not any(_is_confirmed(head, signature) for head in heads):
        order = [*maps, *boxed, *vectors]
    return [*dict.fromkeys(order), *(["read"] if "read" in others else [])]


def _has_classes(head: Head[Any], signature: Signature) -> bool:
    """Whether a head finds as many classes in the outputs as there are labels, as far as both are known."""
    count = head.count_classes(signature.shapes)
    return count is None or signature.classes is None or count == signature.classes


def _is_confirmed(head: Head[Any], signature: Signature) -> bool:
    """Whether a head finds boxes, and of just as many classes as there are labels."""
    finds_boxes = head.result_type is Candidates and signature.classes is not None
    return finds_boxes and head.count_classes(signature.shapes) == signature.classes


def _stride(signature: Signature) -> float:
    """Return how many pixels of the input a cell of the first output spans, when that is a map (1, C, h, w)."""
    shape = signature.shapes[0]
    rows = shape[2] if len(shape) == 4 else None
    return signature.size_wh[1] / rows if rows else 0.0


def _is_portrait(signature: Signature) -> bool:
    """Whether the input is higher than wide, as crops of people are."""
    return signature.size_wh[1] > signature.size_wh[0]


def _is_one_row(signature: Signature) -> bool:
    """Whether each output is one vector: (1, n), or a map of one cell as fully convolutional classifiers have it."""
    return all(
        len(shape) in (2, 4) and shape[0] == 1 and shape.count(1) >= len(shape) - 1 for shape in signature.shapes
    )


def _is_text(facts: ModelFacts, signature: Signature) -> bool:
    """Whether a table is probably one of symbols: probabilities, or read off a low strip."""
    image = next((spec for spec in facts.inputs if len(spec.shape) == 4), None)
    height = signature.size_wh[1] or (image.shape[2] if image is not None else None)
    return _are_probabilities(facts) or (height is not None and 0 < height <= _STRIP_PIXELS)


def _are_probabilities(facts: ModelFacts) -> bool:
    return bool(facts.output_ops) and set(facts.output_ops) <= _SCORING_OPS


def _are_features(facts: ModelFacts) -> bool:
    """Whether a vector is rather one of features than of classes, by the operator that makes it and by its length."""
    if _are_probabilities(facts) or not facts.output_ops:
        return False
    return facts.output_ops[0] in _FEATURE_OPS or count_values(facts.outputs[0].shape) in _FEATURE_SIZES
