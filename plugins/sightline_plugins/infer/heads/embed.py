"""Embeddings: the first output as one vector, (1, D), (1, D, 1, 1) or (D,)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline_plugins.infer.heads.classify import IMAGENET_MEAN, IMAGENET_SCALE, count_values
from sightline_plugins.infer.heads.findings import Array, Vector
from sightline_plugins.infer.heads.head import Head, Likeness, Reading, Signature


def decode(outputs: Sequence[Array], reading: Reading) -> Vector:
    """The vector as the network gives it."""
    del reading
    return Vector(outputs[0].reshape(-1).astype(np.float32, copy=False))


def likeness(signature: Signature) -> Likeness:
    """One output that is a vector; the first of several perhaps."""
    if count_values(signature.shapes[0]) in (None, 1):
        return Likeness.NONE
    return Likeness.SURE if len(signature.shapes) == 1 else Likeness.POSSIBLE


HEAD = Head(
    name="embed",
    decode=decode,
    task="embed",
    finding=Vector,
    likeness=likeness,
    usual={"fit": "stretch", "color": "rgb", "mean": IMAGENET_MEAN, "scale": IMAGENET_SCALE},
)
