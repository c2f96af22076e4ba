"""Heads of all installed packages, by name, and the choice of the one that reads a model's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sightline.errors import ModelError
from sightline.graph.registry import Extensions
from sightline_plugins.heads.head import (
    Array,
    Candidates,
    DecodeContext,
    Head,
    MatchScore,
    OutputSpec,
    Signature,
)

_LOW_CONFIDENCE = 0.01
GROUP = "sightline.heads"
"""Entry points that name `Head` objects. First-party heads are found in the same way as anybody's."""


HEADS: Mapping[str, Head[Any]] = Extensions(GROUP, accepts=lambda found: isinstance(found, Head), kind="head")
"""Heads by name, in alphabetical order. Listing names imports none; looking one up imports its module."""


def heads_of(task: str) -> Mapping[str, Head[Any]]:
    """Return the heads whose results an element of that task can use, by name: `detect` takes all that find boxes."""
    return {name: head for name, head in HEADS.items() if _serves(head, task)}


def find_head(name: str, task: str) -> Head[Any] | None:
    """Return the head of that name if an element of that task can use its results; imports no other one."""
    head = HEADS.get(name)
    return head if head is not None and _serves(head, task) else None


def _serves(head: Head[Any], task: str) -> bool:
    return head.task == task or (task == "detect" and head.result_type is Candidates)


def match_scores(signature: Signature, heads: Iterable[Head[Any]]) -> dict[str, MatchScore]:
    """Return how well a model's outputs fit each of the heads, by name."""
    return {head.name: head.match_score(signature) for head in heads}


def match_head(signature: Signature, heads: Iterable[Head[Any]]) -> str:
    """Return the name of the one head that fits a model's outputs.

    Raises ModelError with the candidates when several fit equally well, and with those that can read outputs of these
    shapes at all when none does.
    """
    heads = tuple(heads)
    scores = match_scores(signature, heads)
    certain = [name for name, score in scores.items() if score is MatchScore.CERTAIN]
    matches = certain or [name for name, score in scores.items() if score is MatchScore.POSSIBLE]
    if len(matches) == 1:
        return matches[0]
    outputs = "; ".join(map(str, signature.outputs))
    if matches:
        raise ModelError(f"its outputs ({outputs}) fit several heads: set head to one of {', '.join(sorted(matches))}")
    readable = [head.name for head in heads if can_read(head, signature)]
    if not readable:
        raise ModelError(
            f"its outputs ({outputs}) fit no head, and none can read them: export the model in another form, or read "
            "them with a function of yours (`- infer: {model: ..., head: package.module:function}`)"
        )
    raise ModelError(
        f"its outputs ({outputs}) fit no head; set head if the model is one of these: {', '.join(readable)}"
    )


def can_read(head: Head[Any], signature: Signature) -> bool:
    """Whether a head accepts outputs of these shapes with its usual options, as far as it can be tried: it reads zeros,
    and noise. Sizes that are open, of an output or of the input, are left to the first image.
    """
    count = head.count_classes(signature.shapes)
    known = signature.classes
    if (head.ranks and len(signature.shapes[0]) not in head.ranks) or (count is not None and count < 1):
        return False
    if count is not None and known is not None and count != known:
        return False
    if 0 in signature.size_wh or any(size is None for shape in signature.shapes for size in shape):
        return True
    context = DecodeContext(
        signature.size_wh,
        _LOW_CONFIDENCE,
        tuple(output.name for output in signature.outputs),
        ("",) * (known or count or 1),
        output_ops=signature.output_ops,
    )
    random = np.random.default_rng(0)
    try:
        with np.errstate(all="ignore"):
            for scale in (0.0, 1.0):
                outputs = [_noise(output, scale, random) for output in signature.outputs]
                head.decode(outputs, context)
    except (ModelError, ValueError, TypeError, LookupError, ArithmeticError):
        return False
    return True


def _noise(output: OutputSpec, scale: float, random: np.random.Generator) -> Array:
    shape = tuple(size or 1 for size in output.shape)
    return (scale * random.random(shape)).astype(output.dtype)
