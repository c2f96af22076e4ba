"""Embeddings: the first output as one vector, (1, D), (1, D, 1, 1) or (D,)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline_plugins.heads.classify import IMAGENET_MEAN, IMAGENET_SCALE, count_values
from sightline_plugins.heads.head import Array, DecodeContext, Head, MatchScore, Signature, Vector


def decode(outputs: Sequence[Array], context: DecodeContext) -> Vector:
    """The vector as the network gives it."""
    del context
    return Vector(outputs[0].reshape(-1).astype(np.float32, copy=False))


def match_score(signature: Signature) -> MatchScore:
    """One output that is a vector; the first of several perhaps."""
    if count_values(signature.shapes[0]) in (None, 1):
        return MatchScore.NONE
    return MatchScore.CERTAIN if len(signature.shapes) == 1 else MatchScore.POSSIBLE


HEAD = Head(
    name="embed",
    decode=decode,
    task="embed",
    result_type=Vector,
    match_score=match_score,
    usual={"fit": "stretch", "color": "rgb", "mean": IMAGENET_MEAN, "scale": IMAGENET_SCALE},
)
