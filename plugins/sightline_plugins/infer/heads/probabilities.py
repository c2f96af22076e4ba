"""From raw scores to probabilities: what several heads do to outputs that may hold them already."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sightline_plugins.infer.heads.findings import Array

Floats = npt.NDArray[np.float32]

_SUM = 0.02
"""How far from 1 a sum of probabilities in half precision may be."""
_SLACK = 1e-3
_READY = frozenset({"Softmax", "Sigmoid", "HardSigmoid"})
_RAW = frozenset({"Add", "Conv", "Gemm", "MatMul"})


def told_ready(made_by: str) -> bool | None:
    """Whether values are probabilities already, by the operator that made them; None when that does not tell it."""
    return True if made_by in _READY else False if made_by in _RAW else None


def is_ready(values: Array, *, made_by: str, looks_ready: Callable[[Array], bool]) -> bool:
    """Whether values are probabilities already: told by the operator that made them, else by how they look."""
    told = told_ready(made_by)
    return looks_ready(values) if told is None else told


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
