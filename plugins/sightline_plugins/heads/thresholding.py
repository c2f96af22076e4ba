"""Scores: convert logits to probabilities, and select the boxes and classes above a confidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline_plugins.heads.head import Array, ScoreForm
from sightline_plugins.nms import MAX_CANDIDATES

Floats = npt.NDArray[np.float32]
Index = npt.NDArray[np.intp]
_SAMPLE = 64
"""Rows that tell whether scores are probabilities."""
_LOWEST = float(np.finfo(np.float32).min)

_SUM_TOLERANCE = 0.02
"""Tolerance of a sum of probabilities in half precision."""
_RANGE_TOLERANCE = 1e-3
_PROBABILITY_OPS = frozenset({"Softmax", "Sigmoid", "HardSigmoid"})
_LOGIT_OPS = frozenset({"Add", "Conv", "Gemm", "MatMul"})


def is_probability_op(op_type: str) -> bool | None:
    """Return whether an operator gives probabilities; None when its type does not tell."""
    return True if op_type in _PROBABILITY_OPS else False if op_type in _LOGIT_OPS else None


def are_probabilities(values: Array, *, op_type: str, looks_like: Callable[[Array], bool]) -> bool:
    """Return whether values are probabilities: by the operator that produces them, else by `looks_like`."""
    known = is_probability_op(op_type)
    return looks_like(values) if known is None else known


def softmax(logits: Array) -> Floats:
    """Return the softmax over the last axis; logarithms of probabilities give those probabilities."""
    values = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    shares: Floats = (values / values.sum(axis=-1, keepdims=True)).astype(np.float32)
    return shares


def sigmoid(logits: Array) -> Floats:
    """Return the logistic function, without overflow."""
    shares: Floats = (0.5 + 0.5 * np.tanh(logits.astype(np.float64) / 2)).astype(np.float32)
    return shares


def exponential(values: Array) -> Floats:
    """Return the exponential, rounded once from float64, so that every machine gives the same value."""
    powers: Floats = np.exp(values.astype(np.float64)).astype(np.float32)
    return powers


def sum_to_one(values: Array) -> bool:
    """Return whether all rows (..., C) are within 0..1 and sum to 1."""
    return are_in_unit_range(values) and bool(
        (np.abs(values.sum(axis=-1, dtype=np.float64) - 1) <= _SUM_TOLERANCE).all()
    )


def are_in_unit_range(values: Array) -> bool:
    """Return whether all values are within 0..1."""
    return values.size == 0 or bool(values.min() >= -_RANGE_TOLERANCE and values.max() <= 1 + _RANGE_TOLERANCE)


class Selection(NamedTuple):
    """Pairs of a box and a class, columns (M,): a box above the limit in two classes appears twice."""

    rows: Index
    class_id: Index
    confidence: npt.NDArray[np.float32]


def are_logits(scores: Array, *, form: ScoreForm, op_type: str = "") -> bool:
    """Return whether scores are logits. `auto`: by the operator that produces them, else by their range."""
    if form == "auto":
        return not are_probabilities(scores, op_type=op_type, looks_like=are_in_unit_range)
    return form == "logits"


def select_pairs(scores: Array, confidence: float, *, logits: bool) -> Selection:
    """Return the boxes and classes (rows and columns of `scores`) with at least that confidence.

    Of more than `MAX_CANDIDATES` pairs only the best are returned, which are all that suppression looks at.
    """
    limit = logit(confidence) if logits else confidence
    rows, class_id = np.nonzero(scores >= limit)
    found = scores[rows, class_id].astype(np.float32)
    if len(found) > MAX_CANDIDATES:
        best = np.sort(np.argsort(-found, kind="stable")[:MAX_CANDIDATES])
        rows, class_id, found = rows[best], class_id[best], found[best]
    return Selection(rows, class_id, sigmoid(found) if logits else found)


def select_classes(
    scores: Array, confidence: float, *, background: int, form: ScoreForm, op_type: str = ""
) -> Selection:
    """Return what `select_pairs` does for exclusive scores (boxes, 1 + classes).

    `background` is the column of the background, 0 or -1; class ids count without it.
    """
    others = scores[:, 1:] if background == 0 else scores[:, :-1]
    ready = form == "probabilities"
    if form == "auto":
        ready = are_probabilities(scores[:_SAMPLE], op_type=op_type, looks_like=sum_to_one)
    if ready:
        return select_pairs(others, confidence, logits=False)
    likely = np.flatnonzero((others.max(axis=1) - scores[:, background]) >= logit(confidence))
    shares = softmax(scores[likely]) if len(likely) else scores[likely]
    rows, class_id, found = select_pairs(shares[:, 1:] if background == 0 else shares[:, :-1], confidence, logits=False)
    return Selection(likely[rows], class_id, found)


def logit(probability: float) -> float:
    """Return the logit of a probability; the lowest finite float32 for 0."""
    if probability <= 0:
        return _LOWEST
    return math.inf if probability >= 1 else math.log(probability / (1 - probability))
