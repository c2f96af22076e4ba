"""YOLOX as exported without decoding: (1, cells, 5 + classes) over strides 8, 16, 32 (and 64) in that order.

Centre = (offset + cell) * stride, size = exp(value) * stride; objectness and classes are logistic already and the score
is their product (Megvii-BaseDetection/YOLOX, `yolox/utils/demo_utils.py`: demo_postprocess). A model exported with
decoding gives the same shape in pixels: that is the head `yolov5` with this family's pre-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature, SizeWh
from sightline_plugins.heads.thresholding import exponential
from sightline_plugins.heads.yolo.layout import PYRAMIDS, count_cells
from sightline_plugins.nms import NmsOptions


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every cell whose best class scores at least `reading.confidence`."""
    cells = outputs[0].reshape(outputs[0].shape[-2:])
    likely = np.flatnonzero(cells[:, 4] >= context.confidence)
    found = cells[likely]
    class_id = found[:, 5:].argmax(axis=1)
    score = found[:, 4] * found[:, 5:].max(axis=1, initial=0)
    sure = score >= context.confidence
    found, place = found[sure], likely[sure]
    corners, strides = _grid(context.size_wh, len(cells))
    stride = strides[place]
    centre = (found[:, :2] + corners[place]) * stride
    with np.errstate(over="ignore"):
        size = exponential(found[:, 2:4]) * stride
    boxes = xyxy_from_cxcywh(np.concatenate([centre, size], axis=1))
    return Candidates.from_arrays(boxes, score[sure], class_id[sure])


def strides_of(size_wh: SizeWh, cells: int) -> tuple[int, ...]:
    """The strides whose grids have that many cells together. Raises ModelError when there are none."""
    for strides in PYRAMIDS:
        if count_cells(size_wh, strides) == cells:
            return strides
    counts = " or ".join(str(count_cells(size_wh, strides)) for strides in PYRAMIDS)
    raise ModelError(
        f"head yolox: an input of {size_wh[0]}x{size_wh[1]} has {counts} cells, the model's output has {cells}: "
        "another input size or another head is needed"
    )


@lru_cache(maxsize=16)
def _grid(size_wh: SizeWh, cells: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    corners, sizes = [], []
    for stride in strides_of(size_wh, cells):
        columns, rows = size_wh[0] // stride, size_wh[1] // stride
        x, y = np.meshgrid(np.arange(columns), np.arange(rows))
        corners.append(np.stack([x.ravel(), y.ravel()], axis=1))
        sizes.append(np.full((columns * rows, 1), stride))
    return np.concatenate(corners).astype(np.float32), np.concatenate(sizes).astype(np.float32)


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The number of classes that the shape of the output tells."""
    return None if shapes[0][-1] is None else shapes[0][-1] - 5


def match_score(signature: Signature) -> MatchScore:
    """One box a cell, its values last. Without labels, exports that keep values last are these."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) != 3:
        return MatchScore.NONE
    _, boxes, values = signature.shapes[0]
    if values is None or values <= 5:
        return MatchScore.NONE
    if boxes is None:
        return MatchScore.NONE if values == 6 else MatchScore.POSSIBLE
    if boxes <= values or boxes not in [count_cells(signature.size_wh, strides) for strides in PYRAMIDS]:
        return MatchScore.NONE
    return MatchScore.CERTAIN if signature.classes in (None, values - 5) else MatchScore.NONE


HEAD = Head(
    name="yolox",
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(2, 3),
    usual={"fit": "letterbox", "align": "top_left", "color": "bgr", "scale": (1.0,), "pad": (114,)},
    nms=NmsOptions(iou=0.45),
)
