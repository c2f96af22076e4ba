"""Keypoints from two rows of scores each, one across and one down: (1, K, width * n) and (1, K, height * n).

SimCC (https://arxiv.org/abs/2107.03332), as RTMPose has it (https://arxiv.org/abs/2303.07399; open-mmlab/mmpose,
`codecs/utils/post_processing.py`): the highest place of each row, in parts of a pixel, and the lower of both scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.head import Array, DecodeContext, Head, MatchScore, Points, Shape, Signature


def decode(outputs: Sequence[Array], context: DecodeContext) -> Points:
    """The keypoints. Raises ModelError unless there are two rows of scores for each keypoint."""
    if not _is_pair([output.shape for output in outputs]):
        shapes = ", ".join(str(output.shape) for output in outputs)
        raise ModelError(f"head simcc: two outputs (1, keypoints, places) are needed; the outputs are {shapes}")
    across, down = (output[0].astype(np.float32, copy=False) for output in outputs)
    width, height = context.size_wh
    if across.shape[1] * height != down.shape[1] * width and across.shape[1] * width == down.shape[1] * height:
        across, down = down, across
    x = across.argmax(axis=1) * np.float32(width / across.shape[1])
    y = down.argmax(axis=1) * np.float32(height / down.shape[1])
    score = np.clip(np.minimum(across.max(axis=1), down.max(axis=1)), 0, 1)
    return Points(np.stack([x, y, score], axis=1).astype(np.float32))


def match_score(signature: Signature) -> MatchScore:
    """Two outputs with as many rows, whose lengths are to each other as the sides of the input."""
    if not _is_pair(signature.shapes):
        return MatchScore.NONE
    (_, _, across), (_, _, down) = signature.shapes
    if across is None or down is None or 0 in signature.size_wh:
        return MatchScore.POSSIBLE
    width, height = signature.size_wh
    return MatchScore.CERTAIN if across * height == down * width or across * width == down * height else MatchScore.NONE


def _is_pair(shapes: Sequence[Shape]) -> bool:
    return len(shapes) == 2 and all(len(shape) == 3 for shape in shapes) and shapes[0][1] == shapes[1][1]


HEAD = Head(
    name="simcc",
    decode=decode,
    task="pose",
    result_type=Points,
    match_score=match_score,
    ranks=(3,),
    usual={"fit": "expand", "color": "rgb", "mean": (123.675, 116.28, 103.53), "scale": (58.395, 57.12, 57.375)},
)
