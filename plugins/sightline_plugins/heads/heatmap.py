"""Keypoints from heatmaps (1, K, h, w): one map for each keypoint, highest where it is.

Simple Baselines (https://arxiv.org/abs/1804.06208) and HRNet (https://arxiv.org/abs/1902.09212): the highest cell,
moved by a quarter of a cell towards the higher neighbour each way (microsoft/human-pose-estimation.pytorch,
`lib/core/inference.py`, which leaves cells 0, 1 and the last where they are). `refine: dark` finds the top of the hill
by a Taylor expansion of its logarithm instead (https://arxiv.org/abs/1910.06278). Cell n of a map stands at n times the
stride, as in the published code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sightline.errors import ModelError
from sightline_plugins.heads.class_map import has_shape_of
from sightline_plugins.heads.head import Array, DecodeContext, Head, MatchScore, Points, Signature

Floats = npt.NDArray[np.float32]


class HeatmapOptions(BaseModel):
    """Settings of the head `heatmap`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    refine: Literal["quarter", "dark", "none"] = "quarter"
    """How positions between cells are found: a `quarter` of a cell towards the higher neighbour, by the shape of the
    hill (`dark`, for networks trained for it), or not."""
    kernel: int = Field(default=11, ge=3, le=31)
    """Side of the blur that `dark` begins with, in cells, an odd number: 11 for maps trained with sigma 2, 17 for 3."""


def decode(outputs: Sequence[Array], context: DecodeContext) -> Points:
    """The keypoints; those whose map is nowhere above 0 have confidence 0."""
    if outputs[0].ndim != 4:
        raise ModelError(f"head heatmap: the output must be (1, keypoints, rows, columns), not {outputs[0].shape}")
    options = context.options if isinstance(context.options, HeatmapOptions) else HeatmapOptions()
    maps = outputs[0][0].astype(np.float32, copy=False)
    count, rows, columns = maps.shape
    flat = maps.reshape(count, -1)
    best = flat.argmax(axis=1)
    highest = flat[np.arange(count), best]
    cells = np.stack([best % columns, best // columns], axis=1)
    places = cells.astype(np.float32)
    if options.refine == "quarter":
        places += _quarters(maps, cells)
    elif options.refine == "dark":
        places += _tops(maps, cells, kernel=options.kernel | 1)
    strides = np.array([context.size_wh[0] / columns, context.size_wh[1] / rows], np.float32)
    return Points(np.concatenate([places * strides, np.clip(highest, 0, 1)[:, None]], axis=1))


def match_score(signature: Signature) -> MatchScore:
    """Maps a whole number of times smaller than the input, one for each keypoint."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) != 4 or signature.outputs[0].dtype.kind != "f":
        return MatchScore.NONE
    _, count, rows, columns = signature.shapes[0]
    if count is None or count < 2 or not has_shape_of((rows, columns), signature.size_wh):
        return MatchScore.NONE
    return MatchScore.CERTAIN if columns is None or signature.size_wh[0] >= 2 * columns else MatchScore.NONE


def _quarters(maps: Floats, cells: npt.NDArray[np.intp]) -> Floats:
    """A quarter of a cell towards the higher neighbour, (K, 2); 0 near the edge of the map and between equals."""
    count, rows, columns = maps.shape
    number, (x, y) = np.arange(count), cells.T
    inside = (x > 1) & (x < columns - 1) & (y > 1) & (y < rows - 1)
    x, y = np.where(inside, x, 1), np.where(inside, y, 1)
    if min(rows, columns) < 3:
        return np.zeros((count, 2), np.float32)
    across = maps[number, y, x + 1] - maps[number, y, x - 1]
    down = maps[number, y + 1, x] - maps[number, y - 1, x]
    steps: Floats = np.where(inside[:, None], np.sign(np.stack([across, down], axis=1)) / 4, 0).astype(np.float32)
    return steps


def _tops(maps: Floats, cells: npt.NDArray[np.intp], *, kernel: int) -> Floats:
    """From the highest cell to the top of the hill, (K, 2): minus the inverse Hessian times the gradient."""
    steps = np.zeros((len(maps), 2), np.float32)
    rows, columns = maps.shape[1:]
    for number, (x, y) in enumerate(cells.tolist()):
        if not (2 <= x < columns - 2 and 2 <= y < rows - 2):
            continue
        hill = np.maximum(cv2.GaussianBlur(maps[number], (kernel, kernel), 0, borderType=cv2.BORDER_CONSTANT), 1e-10)
        near = np.log(hill[y - 2 : y + 3, x - 2 : x + 3].astype(np.float64))
        gradient = np.array([near[2, 3] - near[2, 1], near[3, 2] - near[1, 2]]) / 2
        across = (near[2, 4] - 2 * near[2, 2] + near[2, 0]) / 4
        down = (near[4, 2] - 2 * near[2, 2] + near[0, 2]) / 4
        both = (near[3, 3] - near[1, 3] - near[3, 1] + near[1, 1]) / 4
        area = across * down - both * both
        if area != 0:
            step = -np.array([[down, -both], [-both, across]]) @ gradient / area
            steps[number] = step if np.abs(step).max() <= 1 else 0
    return steps


HEAD = Head(
    name="heatmap",
    decode=decode,
    task="pose",
    result_type=Points,
    match_score=match_score,
    ranks=(4,),
    usual={"fit": "expand", "color": "rgb", "mean": (123.675, 116.28, 103.53), "scale": (58.395, 57.12, 57.375)},
    options=HeatmapOptions,
)
