"""PaddleDetection exports with their post-processing: rows of class, score, x1, y1, x2, y2, and their count.

(n, 6) and (1,); boxes are in pixels of the image that the inputs im_shape and scale_factor speak of, here the
network's input (PaddlePaddle/PaddleDetection, `ppdet/modeling/post_process.py`). Rows without an object have class -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Signature
from sightline_plugins.heads.outputs import shapes_text
from sightline_plugins.nms import NmsOptions


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image with at least that confidence."""
    tables = [output for output in outputs if output.ndim >= 2 and output.shape[-1] == 6]
    counts = [output for output in outputs if output.ndim <= 1]
    if len(tables) != 1:
        raise ModelError(f"head paddle: rows of 6 values are needed; the outputs are {shapes_text(outputs)}")
    rows = tables[0].reshape(-1, 6)
    if counts:
        rows = rows[: int(counts[0].reshape(-1)[0])]
    there = (rows[:, 1] >= max(context.confidence, np.finfo(np.float32).tiny)) & (rows[:, 0] >= 0)
    found = rows[there]
    return Candidates.from_arrays(found[:, 2:], found[:, 1], found[:, 0])


def match_score(signature: Signature) -> MatchScore:
    """Rows of 6 values, and a list of counts in whole numbers."""
    if len(signature.outputs) != 2:
        return MatchScore.NONE
    tables = [shape for shape in signature.shapes if len(shape) == 2 and shape[1] == 6]
    counts = [output for output in signature.outputs if len(output.shape) <= 1 and output.dtype.kind in "iu"]
    return MatchScore.CERTAIN if len(tables) == len(counts) == 1 else MatchScore.NONE


HEAD = Head(
    name="paddle",
    decode=decode,
    match_score=match_score,
    usual={
        "fit": "stretch",
        "color": "rgb",
        "mean": (123.675, 116.28, 103.53),
        "scale": (58.395, 57.12, 57.375),
    },
    nms=NmsOptions(iou=1.0),
)
