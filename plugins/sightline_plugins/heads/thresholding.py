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

_SUM = 0.02
"""How far from 1 a sum of probabilities in half precision may be."""
_SLACK = 1e-3
_READY = frozenset({"Softmax", "Sigmoid", "HardSigmoid"})
_RAW = frozenset({"Add", "Conv", "Gemm", "MatMul"})


def is_probability_op(op_type: str) -> bool | None:
    """Whether values are probabilities already, by the operator that made them; None when that does not tell it."""
    return True if op_type in _READY else False if op_type in _RAW else None


def are_probabilities(values: Array, *, op_type: str, looks_like: Callable[[Array], bool]) -> bool:
    """Whether values are probabilities already: told by the operator that made them, else by how they look."""
    told = is_probability_op(op_type)
    return looks_like(values) if told is None else told


def softmax(logits: Array) -> Floats:
    """Shares (..., C) of scores (..., C); of logarithms of probabilities these very probabilities."""
    values = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    shares: Floats = (values / values.sum(axis=-1, keepdims=True)).astype(np.float32)
    return shares


def sigmoid(logits: Array) -> Floats:
    """The logistic function, without overflow."""
    shares: Floats = (0.5 + 0.5 * np.tanh(logits.astype(np.float64) / 2)).astype(np.float32)
    return shares


def exponential(values: Array) -> Floats:
    """The exponential function, rounded once, so that every machine gives the same."""
    powers: Floats = np.exp(values.astype(np.float64)).astype(np.float32)
    return powers


def are_shares(values: Array) -> bool:
    """Whether all rows (..., C) are within 0..1 and add up to 1, so that they are probabilities already."""
    return are_fractions(values) and bool((np.abs(values.sum(axis=-1, dtype=np.float64) - 1) <= _SUM).all())


def are_fractions(values: Array) -> bool:
    """Whether all values are within 0..1."""
    return values.size == 0 or bool(values.min() >= -_SLACK and values.max() <= 1 + _SLACK)


Index = npt.NDArray[np.intp]
_SAMPLE = 64
_LEAST = float(np.finfo(np.float32).min)


class Selection(NamedTuple):
    """Pairs of a box and a class, each (M,): a box that may be two things is there twice."""

    rows: Index
    class_id: Index
    confidence: npt.NDArray[np.float32]


def are_logits(scores: Array, *, form: ScoreForm, op_type: str = "") -> bool:
    """Whether scores are still to go through the logistic function. `auto`: told by the operator that made them, else
    by whether one of them is not within 0..1.
    """
    if form == "auto":
        return not are_probabilities(scores, op_type=op_type, looks_like=are_fractions)
    return form == "logits"


def select_pairs(scores: Array, confidence: float, *, logits: bool) -> Selection:
    """Boxes and classes (rows, columns of `scores`) with at least that confidence, each class by itself.

    Of more than `MAX_CANDIDATES` the best are given; suppression looks at no more than these.
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
    """As `select_pairs`, of scores (boxes, 1 + classes) that exclude each other, one column being the background (0, or
    -1 for the last). Classes are counted without it.
    """
    others = scores[:, 1:] if background == 0 else scores[:, :-1]
    ready = form == "probabilities"
    if form == "auto":
        ready = are_probabilities(scores[:_SAMPLE], op_type=op_type, looks_like=are_shares)
    if ready:
        return select_pairs(others, confidence, logits=False)
    likely = np.flatnonzero((others.max(axis=1) - scores[:, background]) >= logit(confidence))
    shares = softmax(scores[likely]) if len(likely) else scores[likely]
    rows, class_id, found = select_pairs(shares[:, 1:] if background == 0 else shares[:, :-1], confidence, logits=False)
    return Selection(likely[rows], class_id, found)


def logit(share: float) -> float:
    """The score whose logistic value is `share`; the least finite one for 0."""
    if share <= 0:
        return _LEAST
    return math.inf if share >= 1 else math.log(share / (1 - share))
