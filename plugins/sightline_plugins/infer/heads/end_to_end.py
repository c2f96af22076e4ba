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
from sightline_plugins.infer.heads.head import Array, Candidates, Head, Shape, SizeWh
from sightline_plugins.infer.nms import NmsOptions


def decode_pixels(outputs: Sequence[Array], *, size_wh: SizeWh, confidence: float) -> Candidates:
    """Candidates of one picture with at least that confidence; boxes are in pixels already."""
    del size_wh
    boxes, scores, labels = _columns(outputs)
    sure = np.flatnonzero(scores >= max(confidence, np.finfo(np.float32).tiny))
    return Candidates.from_arrays(boxes[sure], scores[sure], labels[sure])


def decode_shares(outputs: Sequence[Array], *, size_wh: SizeWh, confidence: float) -> Candidates:
    """As `decode_pixels`, of boxes that are shares of the network's input."""
    found = decode_pixels(outputs, size_wh=size_wh, confidence=confidence)
    return Candidates(found.xyxy * np.array(size_wh * 2, np.float32), found.confidence, found.class_id)


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


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """Outputs of this kind do not say how many classes there are."""
    del shapes
    return None


_USUAL = {"fit": "letterbox", "align": "center", "color": "rgb", "scale": (255.0,), "pad": (114,)}

END_TO_END = Head(
    name="end_to_end",
    decode=decode_pixels,
    count_classes=count_classes,
    usual=_USUAL,
    nms=NmsOptions(iou=1.0),
)
NORMALIZED = Head(
    name="end_to_end_normalized",
    decode=decode_shares,
    count_classes=count_classes,
    usual=_USUAL,
    nms=NmsOptions(iou=1.0),
)
