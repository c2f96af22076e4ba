"""The decoded outputs of the YOLO family: centre x and y, width and height in pixels of the network's input, scores.

`yolov5`  (1, boxes, 5 + classes): objectness, then classes; the score is their product (also v6, v7, and YOLOX exported
          with decoding)
`yolov8`  (1, 4 + classes, boxes): classes only (also v9, v11 and later)

Both are read in either orientation: there are always more boxes than values of a box.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.infer.heads.findings import Array, Candidates
from sightline_plugins.infer.heads.head import Head, Likeness, Reading, Shape, Signature
from sightline_plugins.infer.heads.yolox import PYRAMIDS, count_cells
from sightline_plugins.infer.nms import NmsOptions


def decode_with_objectness(outputs: Sequence[Array], reading: Reading) -> Candidates:
    """Candidates of one picture: every box whose best class times objectness is at least `reading.confidence`."""
    values = _values_first(outputs[0])
    likely = np.flatnonzero(values[4] >= reading.confidence)
    found = values[:, likely]
    class_id = found[5:].argmax(axis=0)
    score = found[4] * found[5:].max(axis=0, initial=0)
    sure = score >= reading.confidence
    return _candidates(found[:4, sure], score[sure], class_id[sure])


def decode_classes_only(outputs: Sequence[Array], reading: Reading) -> Candidates:
    """Candidates of one picture: every box whose best class scores at least `reading.confidence`."""
    values = _values_first(outputs[0])
    best = values[4:].max(axis=0)
    likely = np.flatnonzero(best >= reading.confidence)
    class_id = values[4:, likely].argmax(axis=0)
    return _candidates(values[:4, likely], best[likely], class_id)


def _values_first(output: Array) -> Array:
    """The output as (values of a box, boxes), whichever way it came."""
    plain: Array = output.reshape(output.shape[-2:])
    return plain if plain.shape[0] <= plain.shape[1] else plain.T


def _candidates(cxcywh: Array, score: Array, class_id: Array) -> Candidates:
    return Candidates.from_arrays(xyxy_from_cxcywh(np.asarray(cxcywh.T, np.float32)), score, class_id)


def _count(shapes: Sequence[Shape], extra: int) -> int | None:
    known = [size for size in shapes[0][-2:] if size is not None]
    return min(known) - extra if known else None


def likeness_with_objectness(signature: Signature) -> Likeness:
    """Three boxes a cell; or one a cell with the values first and one value more than classes and box."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) != 3:
        return Likeness.NONE
    _, second, third = signature.shapes[0]
    if second is None or third is None:
        open_boxes = second is None and third is not None and third > 5
        return Likeness.POSSIBLE if open_boxes and (third != 6 or signature.classes == 1) else Likeness.NONE
    boxes, values = max(second, third), min(second, third)
    cells = _cells(signature)
    if boxes in [_ANCHORS * count for count in cells]:
        return Likeness.SURE
    return Likeness.SURE if boxes in cells and second == values == (signature.classes or 0) + 5 else Likeness.NONE


def likeness_classes_only(signature: Signature) -> Likeness:
    """One box a cell: the values first, or as many as classes and box."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) != 3:
        return Likeness.NONE
    _, second, third = signature.shapes[0]
    if second is None or third is None:
        return Likeness.SURE if second is not None and second > 4 else Likeness.NONE
    boxes, values = max(second, third), min(second, third)
    if boxes not in _cells(signature):
        return Likeness.NONE
    fits = values == signature.classes + 4 if signature.classes is not None else second == values
    return Likeness.SURE if fits else Likeness.NONE


def _cells(signature: Signature) -> list[int]:
    return [count_cells(signature.size_wh, strides) for strides in PYRAMIDS]


_ANCHORS = 3
_USUAL = {"fit": "letterbox", "align": "center", "color": "rgb", "scale": (255.0,), "pad": (114,)}

YOLOV5 = Head(
    name="yolov5",
    decode=decode_with_objectness,
    count_classes=lambda shapes: _count(shapes, 5),
    likeness=likeness_with_objectness,
    ranks=(2, 3),
    usual=_USUAL,
    nms=NmsOptions(iou=0.45),
)
YOLOV8 = Head(
    name="yolov8",
    decode=decode_classes_only,
    count_classes=lambda shapes: _count(shapes, 4),
    likeness=likeness_classes_only,
    ranks=(2, 3),
    usual=_USUAL,
    nms=NmsOptions(iou=0.45),
)
