"""The decoded outputs of the YOLO family: centre x and y, width and height in pixels of the network's input, scores.

`yolov5`  (1, boxes, 5 + classes): objectness, then classes; the score is their product (also v6, whose objectness is 1,
          v7, and YOLOX exported with decoding); raw maps that older exports give besides are passed over
`yolov8`  (1, 4 + classes, boxes): classes only (also v9, v11 and later)

Both are read in either orientation: there are always more boxes than values of a box.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature
from sightline_plugins.heads.yolo.layout import (
    ANCHORS,
    USUAL,
    BoxTable,
    best_classes,
    box_table,
    values_first,
    xyxy_of,
)
from sightline_plugins.nms import NmsOptions


def decode_with_objectness(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every box whose best class times objectness is at least `reading.confidence`."""
    values = values_first(min(outputs, key=np.ndim))
    likely = np.flatnonzero(values[4] >= context.confidence)
    found = values[:, likely]
    class_id = found[5:].argmax(axis=0)
    score = found[4] * found[5:].max(axis=0, initial=0)
    sure = score >= context.confidence
    return Candidates.from_arrays(xyxy_of(found[:4, sure]), score[sure], class_id[sure])


def decode_classes_only(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every box whose best class scores at least `reading.confidence`."""
    values = values_first(outputs[0])
    sure, score, class_id = best_classes(values[4:], context.confidence)
    return Candidates.from_arrays(xyxy_of(values[:4, sure]), score, class_id)


def _count(shapes: Sequence[Shape], extra: int) -> int | None:
    known = [size for size in shapes[0][-2:] if size is not None]
    return min(known) - extra if known else None


def match_with_objectness(signature: Signature) -> MatchScore:
    """Three boxes a cell; perhaps one a cell with the values first and one value more than classes and box."""
    table = _lone_table(signature)
    if table is None or table.values is None:
        return MatchScore.NONE
    if table.boxes is None:
        fits = not table.values_first and table.values > 5 and (table.values != 6 or signature.classes == 1)
        return MatchScore.POSSIBLE if fits else MatchScore.NONE
    if table.per_cell == ANCHORS:
        return MatchScore.CERTAIN
    fits = signature.exported_task is None and signature.classes == table.values - 5
    return MatchScore.POSSIBLE if table.per_cell == 1 and table.values_first and fits else MatchScore.NONE


def match_classes_only(signature: Signature) -> MatchScore:
    """One box a cell: the values first, or as many as classes and box."""
    table = box_table(signature.shapes[0], signature.size_wh) if len(signature.outputs) == 1 else None
    if table is None or table.values is None or signature.exported_task not in (None, "detect"):
        return MatchScore.NONE
    if table.boxes is None:
        return MatchScore.CERTAIN if table.values_first and table.values > 4 else MatchScore.NONE
    if table.per_cell != 1:
        return MatchScore.NONE
    if signature.classes is None and signature.exported_task is None and table.values == _POSE_VALUES:
        return MatchScore.POSSIBLE
    fits = table.values == signature.classes + 4 if signature.classes is not None else table.values_first
    return MatchScore.CERTAIN if fits else MatchScore.NONE


def _lone_table(signature: Signature) -> BoxTable | None:
    """The only table of boxes; besides it there may be the raw maps (1, anchors, rows, columns, values)."""
    tables = [shape for shape in signature.shapes if len(shape) == 3]
    if len(tables) != 1:
        return None
    table = box_table(tables[0], signature.size_wh)
    maps = [shape for shape in signature.shapes if len(shape) != 3]
    known = table is not None and all(len(shape) == 5 and shape[-1] == table.values for shape in maps)
    return table if known else None


_POSE_VALUES = 4 + 1 + 17 * 3
"""Of 52 classes, or of one class and COCO's 17 keypoints."""

YOLOV5 = Head(
    name="yolov5",
    decode=decode_with_objectness,
    count_classes=lambda shapes: _count(sorted(shapes, key=len), 5),
    match_score=match_with_objectness,
    usual=USUAL,
    nms=NmsOptions(iou=0.45),
)
YOLOV8 = Head(
    name="yolov8",
    decode=decode_classes_only,
    count_classes=lambda shapes: _count(shapes, 4),
    match_score=match_classes_only,
    ranks=(2, 3),
    usual=USUAL,
    nms=NmsOptions(iou=0.45),
)
