"""One vector an output: class scores (`classify`: one class; `tags`: any number of labels) and embeddings (`embed`).

A vector may be (1, C), (1, C, 1, 1) or (C,). The operator that produces it (Softmax, Sigmoid) tells whether it holds
probabilities, else its values do. Set `scores` where neither can: an INT8 network whose softmax was decomposed, or raw
scores that happen to lie between 0 and 1. `embed` reads the first output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from sightline_plugins.heads.decoding import Floats, are_in_unit_range, are_logits, sigmoid, softmax, sum_to_one
from sightline_plugins.heads.head import (
    IMAGENET,
    Array,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    Scores,
    Shape,
    Signature,
    Vector,
)


class ClassifyOptions(HeadOptions):
    """Options of the head `classify`."""

    scores: Literal["auto", "probabilities", "softmax"] = "auto"
    """`softmax` makes probabilities of raw scores; `auto` does where they are none: not within 0..1 or not adding up to
    1."""


class TagOptions(HeadOptions):
    """Options of the head `tags`."""

    scores: Literal["auto", "probabilities", "sigmoid"] = "auto"
    """`sigmoid` makes probabilities of raw scores; `auto` does where one of them is not within 0..1."""


def decode_classes(outputs: Sequence[Array], context: DecodeContext) -> Scores:
    """Return probabilities of each output's classes, which add up to 1."""
    scores = context.options_or(ClassifyOptions()).scores
    return _probabilities(outputs, context, scores=scores, looks_like=sum_to_one, convert=softmax)


def decode_tags(outputs: Sequence[Array], context: DecodeContext) -> Scores:
    """Return the probability of each label by itself."""
    scores = context.options_or(TagOptions()).scores
    return _probabilities(outputs, context, scores=scores, looks_like=are_in_unit_range, convert=sigmoid)


def _probabilities(
    outputs: Sequence[Array],
    context: DecodeContext,
    *,
    scores: str,
    looks_like: Callable[[Array], bool],
    convert: Callable[[Array], Floats],
) -> Scores:
    found = []
    for place, output in enumerate(outputs):
        row = output.reshape(-1)
        logits = are_logits(row, form=scores, op_type=context.op_type(place), looks_like=looks_like)
        found.append(convert(row) if logits else row.astype(np.float32, copy=False))
    return Scores(tuple(found))


def count_values(shape: Shape) -> int | None:
    """Return the length of an output's vector: its one size that is not 1; None for others and open sizes."""
    if None in shape[1:]:
        return None
    sizes = [size for size in (shape[1:] if len(shape) > 1 else shape) if size != 1]
    return 1 if not sizes else sizes[0] if len(sizes) == 1 else None


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the classes of a model with one output; None with several, which have labels of their own."""
    return count_values(shapes[0]) if len(shapes) == 1 else None


def match_classes(signature: Signature) -> MatchScore:
    """Match vectors of several values that are not each a logistic one."""
    counts = [count_values(shape) for shape in signature.shapes]
    return MatchScore.certain_if(None not in counts and 1 not in counts and not _ends_in_sigmoid(signature))


def match_tags(signature: Signature) -> MatchScore:
    """Match vectors of logistic values, or single values."""
    counts = [count_values(shape) for shape in signature.shapes]
    single = all(count == 1 for count in counts)
    return MatchScore.certain_if(None not in counts and (single or _ends_in_sigmoid(signature)))


def _ends_in_sigmoid(signature: Signature) -> bool:
    return set(signature.output_ops) == {"Sigmoid"}


CLASSIFY = Head(
    name="classify",
    family="classifiers",
    outputs="one vector of classes each: (1, C), (1, C, 1, 1); raw or probabilities",
    decode=decode_classes,
    task="classify",
    result_type=Scores,
    count_classes=count_classes,
    match_score=match_classes,
    preprocessing={"fit": "cover", "crop": 0.875, "resize": "antialias", "color": "rgb", **IMAGENET},
    options=ClassifyOptions,
)
TAGS = replace(
    CLASSIFY,
    name="tags",
    family="multi-label classifiers",
    outputs="one vector each: (1, C), (1, C, 1, 1); each value a label by itself",
    decode=decode_tags,
    match_score=match_tags,
    options=TagOptions,
)


def decode_embedding(outputs: Sequence[Array], context: DecodeContext) -> Vector:
    """Return the vector as the network gives it."""
    del context
    return Vector(outputs[0].reshape(-1).astype(np.float32, copy=False))


def match_embedding(signature: Signature) -> MatchScore:
    """Match one output that is a vector; the first of several perhaps."""
    if count_values(signature.shapes[0]) in (None, 1):
        return MatchScore.NONE
    return MatchScore.CERTAIN if len(signature.shapes) == 1 else MatchScore.POSSIBLE


EMBED = Head(
    name="embed",
    family="OSNet and other re-identification models, faces",
    outputs="a vector: (1, D), (1, D, 1, 1)",
    decode=decode_embedding,
    task="embed",
    result_type=Vector,
    match_score=match_embedding,
    preprocessing={"fit": "stretch", "color": "rgb", **IMAGENET},
)
