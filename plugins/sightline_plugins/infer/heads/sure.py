"""Which boxes and classes are sure enough: found before anything is decoded."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline_plugins.infer.heads.findings import Array
from sightline_plugins.infer.heads.probabilities import are_fractions, are_shares, is_ready, sigmoid, softmax
from sightline_plugins.infer.heads.told import ScoreForm
from sightline_plugins.nms import MAX_CANDIDATES

Index = npt.NDArray[np.intp]
_SAMPLE = 64
_LEAST = float(np.finfo(np.float32).min)


class Sure(NamedTuple):
    """Pairs of a box and a class, each (M,): a box that may be two things is there twice."""

    rows: Index
    class_id: Index
    confidence: npt.NDArray[np.float32]


def are_logits(scores: Array, *, form: ScoreForm, made_by: str = "") -> bool:
    """Whether scores are still to go through the logistic function. `auto`: told by the operator that made them, else
    by whether one of them is not within 0..1.
    """
    if form == "auto":
        return not is_ready(scores, made_by=made_by, looks_ready=are_fractions)
    return form == "logits"


def sure_pairs(scores: Array, confidence: float, *, logits: bool) -> Sure:
    """Boxes and classes (rows, columns of `scores`) with at least that confidence, each class by itself.

    Of more than `MAX_CANDIDATES` the best are given; suppression looks at no more than these.
    """
    limit = logit(confidence) if logits else confidence
    rows, class_id = np.nonzero(scores >= limit)
    found = scores[rows, class_id].astype(np.float32)
    if len(found) > MAX_CANDIDATES:
        best = np.sort(np.argsort(-found, kind="stable")[:MAX_CANDIDATES])
        rows, class_id, found = rows[best], class_id[best], found[best]
    return Sure(rows, class_id, sigmoid(found) if logits else found)


def sure_classes(scores: Array, confidence: float, *, background: int, form: ScoreForm, made_by: str = "") -> Sure:
    """As `sure_pairs`, of scores (boxes, 1 + classes) that exclude each other, one column being the background (0, or
    -1 for the last). Classes are counted without it.
    """
    others = scores[:, 1:] if background == 0 else scores[:, :-1]
    ready = form == "probabilities"
    if form == "auto":
        ready = is_ready(scores[:_SAMPLE], made_by=made_by, looks_ready=are_shares)
    if ready:
        return sure_pairs(others, confidence, logits=False)
    likely = np.flatnonzero((others.max(axis=1) - scores[:, background]) >= logit(confidence))
    shares = softmax(scores[likely]) if len(likely) else scores[likely]
    rows, class_id, found = sure_pairs(shares[:, 1:] if background == 0 else shares[:, :-1], confidence, logits=False)
    return Sure(likely[rows], class_id, found)


def logit(share: float) -> float:
    """The score whose logistic value is `share`; the least finite one for 0."""
    if share <= 0:
        return _LEAST
    return math.inf if share >= 1 else math.log(share / (1 - share))
