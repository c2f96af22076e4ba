"""A head of your own: rows of two corners in fractions of the input and a score, (1, n, 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.head import (
    Array,
    Candidates,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    Signature,
)
from sightline_plugins.nms.options import NmsOptions


class CornerOptions(HeadOptions):
    """Options of the head `corners`."""

    grow: float = 0.0
    """How much larger boxes become on each side, in pixels of the network's input."""


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the rows with at least the wanted confidence, in pixels of the network's input."""
    options = context.options_or(CornerOptions())
    if outputs[0].shape[-1] != 5:
        raise ModelError(f"head corners: rows of 5 values are needed; the output is {outputs[0].shape}")
    rows = outputs[0].reshape(-1, 5)
    kept = rows[rows[:, 4] >= context.confidence]
    boxes = kept[:, :4] * np.array(context.size_wh * 2, np.float32) + options.grow * np.array([-1, -1, 1, 1])
    return Candidates.from_arrays(boxes, kept[:, 4], np.zeros(len(kept)))


def match_score(signature: Signature) -> MatchScore:
    """Match one output with rows of five values."""
    shapes = signature.shapes
    return MatchScore.CERTAIN if len(shapes) == 1 and len(shapes[0]) == 3 and shapes[0][2] == 5 else MatchScore.NONE


CORNERS = Head(
    name="corners",
    family="models of ours that give corners",
    outputs="(1, n, 5): corners as fractions of the input, score",
    decode=decode,
    match_score=match_score,
    ranks=(2, 3),
    preprocessing={"fit": "stretch", "color": "rgb", "scale": (255.0,)},
    nms=NmsOptions(iou=0.5),
    options=CornerOptions,
)
