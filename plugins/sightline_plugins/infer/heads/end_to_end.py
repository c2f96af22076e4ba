"""Models that choose their boxes themselves: nothing is left but to read them.

`end_to_end`             rows of x1, y1, x2, y2, score, class: (n, 6) or (1, n, 6), as YOLOv10 gives them;
                         rows of picture, x1, y1, x2, y2, class, score: (n, 7), as YOLOv7's export gives them; or boxes,
                         scores and labels as outputs of their own (DETR-like models, TensorRT's EfficientNMS with its
                         count in front): labels are the ones of integer type, else the last
`end_to_end_normalized`  the same with boxes as shares of the network's input

Rows of padding (score 0, or past the given count) fall to the confidence limit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.infer.heads.findings import Array, Candidates
from sightline_plugins.infer.heads.head import Head, Likeness, Reading, Signature
from sightline_plugins.infer.heads.yolo.layout import PYRAMIDS, count_cells
from sightline_plugins.infer.nms import NmsOptions


def decode_pixels(outputs: Sequence[Array], reading: Reading) -> Candidates:
    """Candidates of one picture with at least that confidence; boxes are in pixels already."""
    boxes, scores, labels = _columns(outputs)
    sure = np.flatnonzero(scores >= max(reading.confidence, np.finfo(np.float32).tiny))
    return Candidates.from_arrays(boxes[sure], scores[sure], labels[sure])


def decode_shares(outputs: Sequence[Array], reading: Reading) -> Candidates:
    """As `decode_pixels`, of boxes that are shares of the network's input."""
    found = decode_pixels(outputs, reading)
    return Candidates(found.xyxy * np.array(reading.size_wh * 2, np.float32), found.confidence, found.class_id)


def _columns(outputs: Sequence[Array]) -> tuple[Array, Array, Array]:
    if len(outputs) == 1:
        rows = outputs[0].reshape(-1, outputs[0].shape[-1])
        if rows.shape[1] == 7:
            return rows[:, 1:5], rows[:, 6], rows[:, 5]
        return rows[:, :4], rows[:, 4], rows[:, 5]
    fours = [array for array in outputs if array.ndim >= 2 and array.shape[-1] == 4]
    if not fours:
        raise ModelError("head end_to_end: no output holds boxes (its last size must be 4)")
    boxes = max(fours, key=np.ndim)
    others = [array.reshape(-1) for array in outputs if array is not boxes]
    boxes = boxes.reshape(-1, 4)
    count = int(others.pop(0)[0]) if len(others) == 3 else len(boxes)
    if len(others) != 2 or any(len(column) != len(boxes) for column in others):
        sizes = ", ".join(str(array.shape) for array in outputs)
        raise ModelError(
            f"head end_to_end: boxes, scores and labels of equal count are needed; the outputs are {sizes}"
        )
    scores, labels = others if others[0].dtype.kind == "f" else others[::-1]
    return boxes[:count], scores[:count], labels[:count]


def likeness(signature: Signature) -> Likeness:
    """Rows of 6 or 7 values that are no boxes of cells, or boxes with outputs of their own beside them."""
    shapes = signature.shapes
    if len(shapes) in (3, 4):
        has_boxes = any(len(shape) in (2, 3) and shape[-1] == 4 for shape in shapes)
        return Likeness.SURE if has_boxes else Likeness.NONE
    if len(shapes) != 1:
        return Likeness.NONE
    shape = shapes[0]
    if len(shape) == 2:
        return Likeness.SURE if shape[1] in (6, 7) else Likeness.NONE
    if len(shape) != 3 or shape[2] != 6:
        return Likeness.NONE
    if shape[1] is None:
        return Likeness.POSSIBLE if signature.classes == 1 else Likeness.SURE
    cells = [count_cells(signature.size_wh, strides) for strides in PYRAMIDS]
    return Likeness.NONE if shape[1] in cells or shape[1] in [3 * count for count in cells] else Likeness.SURE


_USUAL = {"fit": "letterbox", "align": "center", "color": "rgb", "scale": (255.0,), "pad": (114,)}

END_TO_END = Head(
    name="end_to_end",
    decode=decode_pixels,
    likeness=likeness,
    usual=_USUAL,
    nms=NmsOptions(iou=1.0),
)
NORMALIZED = Head(
    name="end_to_end_normalized",
    decode=decode_shares,
    usual=_USUAL,
    nms=NmsOptions(iou=1.0),
)
