"""Keypoints of the one object in an image.

`heatmap`  a map for each keypoint, (1, K, rows, columns), highest at the keypoint: Simple Baselines
           (https://arxiv.org/abs/1804.06208) and HRNet (https://arxiv.org/abs/1902.09212). The highest cell moves by a
           quarter of a cell towards the higher neighbour each way (microsoft/human-pose-estimation.pytorch,
           `lib/core/inference.py`, which leaves cells 0, 1 and the last where they are). `refine: dark` finds the peak
           by a Taylor expansion of the logarithm instead (https://arxiv.org/abs/1910.06278). Cell n of a map is at n
           times the stride, as in the published code
`simcc`    two rows of scores for each keypoint, one across and one down: (1, K, width * n) and (1, K, height * n)
           (https://arxiv.org/abs/2107.03332), as in RTMPose (https://arxiv.org/abs/2303.07399; open-mmlab/mmpose,
           `codecs/utils/post_processing.py`): the highest place of each row, and the lower of both scores
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.errors import ModelError
from sightline_plugins.heads.class_map import has_shape_of
from sightline_plugins.heads.decoding import Floats, shapes_text
from sightline_plugins.heads.head import (
    IMAGENET,
    Array,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    Points,
    Shape,
    Signature,
)


class HeatmapOptions(HeadOptions):
    """Options of the head `heatmap`."""

    refine: Literal["quarter", "dark", "none"] = "quarter"
    """How positions between cells are found: a `quarter` of a cell towards the higher neighbour, by the shape of the
    peak (`dark`, for networks trained for it), or not."""
    kernel: int = Field(default=11, ge=3, le=31)
    """Side of the blur that `dark` begins with, in cells, an odd number: 11 for maps trained with sigma 2, 17 for 3."""


def decode_heatmaps(outputs: Sequence[Array], context: DecodeContext) -> Points:
    """Return the keypoints; those whose map is nowhere above 0 have confidence 0."""
    if outputs[0].ndim != 4:
        raise ModelError(f"head heatmap: the output must be (1, keypoints, rows, columns), not {outputs[0].shape}")
    options = context.options_or(HeatmapOptions())
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


def match_heatmaps(signature: Signature) -> MatchScore:
    """Match maps a whole number of times smaller than the input, one for each keypoint."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) != 4 or signature.outputs[0].dtype.kind != "f":
        return MatchScore.NONE
    _, count, rows, columns = signature.shapes[0]
    if count is None or count < 2 or not has_shape_of((rows, columns), signature.size_wh):
        return MatchScore.NONE
    return MatchScore.certain_if(columns is None or signature.size_wh[0] >= 2 * columns)


def _quarters(maps: Floats, cells: npt.NDArray[np.intp]) -> Floats:
    """Return a quarter of a cell towards the higher neighbour, (K, 2); 0 near the edge and between equals."""
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
    """Return the steps from the highest cell to the peak, (K, 2): minus the inverse Hessian times the gradient."""
    from sightline_plugins.opencv import cv2  # heads are imported to recognise models, where OpenCV is not needed

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


HEATMAP = Head(
    name="heatmap",
    family="Simple Baselines, HRNet, ViTPose",
    outputs="(1, K, h, w): a map for each keypoint",
    decode=decode_heatmaps,
    task="pose",
    result_type=Points,
    match_score=match_heatmaps,
    ranks=(4,),
    preprocessing={"fit": "expand", "color": "rgb", **IMAGENET},
    options=HeatmapOptions,
)


def decode_simcc(outputs: Sequence[Array], context: DecodeContext) -> Points:
    """Return the keypoints. Raises ModelError unless there are two rows of scores for each keypoint."""
    if not _is_pair([output.shape for output in outputs]):
        found = shapes_text(outputs)
        raise ModelError(f"head simcc: two outputs (1, keypoints, places) are needed; the outputs are {found}")
    across, down = (output[0].astype(np.float32, copy=False) for output in outputs)
    width, height = context.size_wh
    if across.shape[1] * height != down.shape[1] * width and across.shape[1] * width == down.shape[1] * height:
        across, down = down, across
    x = across.argmax(axis=1) * np.float32(width / across.shape[1])
    y = down.argmax(axis=1) * np.float32(height / down.shape[1])
    score = np.clip(np.minimum(across.max(axis=1), down.max(axis=1)), 0, 1)
    return Points(np.stack([x, y, score], axis=1).astype(np.float32))


def match_simcc(signature: Signature) -> MatchScore:
    """Match two outputs with as many rows, whose lengths have the ratio of the input's sides."""
    if not _is_pair(signature.shapes):
        return MatchScore.NONE
    (_, _, across), (_, _, down) = signature.shapes
    if across is None or down is None or 0 in signature.size_wh:
        return MatchScore.POSSIBLE
    width, height = signature.size_wh
    return MatchScore.certain_if(across * height == down * width or across * width == down * height)


def _is_pair(shapes: Sequence[Shape]) -> bool:
    return len(shapes) == 2 and all(len(shape) == 3 for shape in shapes) and shapes[0][1] == shapes[1][1]


SIMCC = Head(
    name="simcc",
    family="RTMPose, SimCC",
    outputs="(1, K, width * n) and (1, K, height * n)",
    decode=decode_simcc,
    task="pose",
    result_type=Points,
    match_score=match_simcc,
    ranks=(3,),
    preprocessing={"fit": "expand", "color": "rgb", **IMAGENET},
)
