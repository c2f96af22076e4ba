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
from sightline_plugins.infer.heads.head import Array, Candidates, Head, Shape, SizeWh
from sightline_plugins.infer.nms import NmsOptions


def decode_with_objectness(outputs: Sequence[Array], *, size_wh: SizeWh, confidence: float) -> Candidates:
    """Candidates of one picture: every box whose best class, times its objectness, scores at least `confidence`."""
    del size_wh
    values = _values_first(outputs[0])
    likely = np.flatnonzero(values[4] >= confidence)
    found = values[:, likely]
    class_id = found[5:].argmax(axis=0)
    score = found[4] * found[5:].max(axis=0, initial=0)
    sure = score >= confidence
    return _candidates(found[:4, sure], score[sure], class_id[sure])


def decode_classes_only(outputs: Sequence[Array], *, size_wh: SizeWh, confidence: float) -> Candidates:
    """Candidates of one picture: every box whose best class scores at least `confidence`."""
    del size_wh
    values = _values_first(outputs[0])
    best = values[4:].max(axis=0)
    likely = np.flatnonzero(best >= confidence)
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


_USUAL = {"fit": "letterbox", "align": "center", "color": "rgb", "scale": (255.0,), "pad": (114,)}

YOLOV5 = Head(
    name="yolov5",
    decode=decode_with_objectness,
    count_classes=lambda shapes: _count(shapes, 5),
    ranks=(2, 3),
    usual=_USUAL,
    nms=NmsOptions(iou=0.45),
)
YOLOV8 = Head(
    name="yolov8",
    decode=decode_classes_only,
    count_classes=lambda shapes: _count(shapes, 4),
    ranks=(2, 3),
    usual=_USUAL,
    nms=NmsOptions(iou=0.45),
)
