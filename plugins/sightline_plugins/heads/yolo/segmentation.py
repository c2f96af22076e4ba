"""YOLO models for instance masks: a table of boxes with mask coefficients, and prototypes (1, masks, rows, columns).

`yolov5_seg`      (1, boxes, 5 + classes + masks), as `yolov5` (also YOLOv7)
`yolov8_seg`      (1, 4 + classes + masks, boxes), as `yolov8` (also v9, v11 and later)
`end_to_end_seg`  rows of x1, y1, x2, y2, score, class and coefficients, as Ultralytics exports with `nms=True`

A mask is where the sum of the prototypes, weighted by the coefficients, is above 0 (ultralytics/ultralytics,
`utils/ops.py`: process_mask). The number of masks, mostly 32, is that of the prototypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature
from sightline_plugins.heads.yolo.layout import (
    ANCHORS,
    USUAL,
    best_classes,
    box_table,
    boxes_and_prototypes,
    confident_rows,
    table_and_prototypes,
    values_first,
    xyxy_of,
)
from sightline_plugins.nms import NmsOptions


def decode_with_objectness(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image whose best class times objectness is at least `reading.confidence`."""
    table, prototypes = table_and_prototypes(outputs, "yolov5_seg")
    values, masks = values_first(table), len(prototypes)
    found = values[:, np.flatnonzero(values[4] >= context.confidence)]
    scores = found[4] * found[5:-masks]
    sure, score, class_id = best_classes(scores, context.confidence)
    found = found[:, sure]
    return Candidates.from_arrays(xyxy_of(found[:4]), score, class_id, masks=found[-masks:].T, prototypes=prototypes)


def decode_classes_only(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image whose best class scores at least `reading.confidence`."""
    table, prototypes = table_and_prototypes(outputs, "yolov8_seg")
    values, masks = values_first(table), len(prototypes)
    sure, score, class_id = best_classes(values[4:-masks], context.confidence)
    found = values[:, sure]
    return Candidates.from_arrays(xyxy_of(found[:4]), score, class_id, masks=found[-masks:].T, prototypes=prototypes)


def decode_rows(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image with at least that confidence, chosen by the model."""
    table, prototypes = table_and_prototypes(outputs, "end_to_end_seg")
    rows = confident_rows(table, context.confidence)
    return Candidates.from_arrays(rows[:, :4], rows[:, 4], rows[:, 5], masks=rows[:, 6:], prototypes=prototypes)


def match_with_objectness(signature: Signature) -> MatchScore:
    """Three boxes a cell, with prototypes."""
    found = boxes_and_prototypes(signature.shapes)
    table = box_table(found[0], signature.size_wh) if found else None
    if found is None or table is None or table.values is None or table.per_cell not in (None, ANCHORS):
        return MatchScore.NONE
    classes = table.values - 5 - (found[1][1] or 0)
    if classes < 1 or table.values_first or signature.classes not in (None, classes):
        return MatchScore.NONE
    return MatchScore.POSSIBLE if table.boxes is None and classes == 1 else MatchScore.CERTAIN


def match_classes_only(signature: Signature) -> MatchScore:
    """One box a cell, with prototypes: the values first, or as many as classes, box and masks."""
    found = boxes_and_prototypes(signature.shapes)
    table = box_table(found[0], signature.size_wh) if found else None
    if found is None or table is None or table.values is None or table.per_cell not in (None, 1):
        return MatchScore.NONE
    classes = table.values - 4 - (found[1][1] or 0)
    if classes < 1 or signature.classes not in (None, classes) or (table.boxes is None and not table.values_first):
        return MatchScore.NONE
    return MatchScore.CERTAIN if table.values_first or signature.classes is not None else MatchScore.POSSIBLE


def match_rows(signature: Signature) -> MatchScore:
    """Rows of box, score, class and coefficients, fewer or more than the cells."""
    found = boxes_and_prototypes(signature.shapes)
    if found is None or found[0][2] is None or found[0][2] != 6 + (found[1][1] or 0):
        return MatchScore.NONE
    if found[0][1] is None:
        return MatchScore.POSSIBLE if signature.classes in (None, 1) else MatchScore.CERTAIN
    table = box_table(found[0], signature.size_wh)
    return MatchScore.CERTAIN if table is not None and table.per_cell == 0 else MatchScore.NONE


def _count(extra: int) -> Callable[[Sequence[Shape]], int | None]:
    def count(shapes: Sequence[Shape]) -> int | None:
        found = boxes_and_prototypes(shapes)
        known = [size for size in found[0][1:] if size is not None] if found else []
        return min(known) - extra - (found[1][1] or 0) if found and known else None

    return count


YOLOV5_SEG = Head(
    name="yolov5_seg",
    task="segment",
    decode=decode_with_objectness,
    count_classes=_count(5),
    match_score=match_with_objectness,
    usual=USUAL,
    nms=NmsOptions(iou=0.45),
)
YOLOV8_SEG = Head(
    name="yolov8_seg",
    task="segment",
    decode=decode_classes_only,
    count_classes=_count(4),
    match_score=match_classes_only,
    usual=USUAL,
    nms=NmsOptions(iou=0.45),
)
END_TO_END_SEG = Head(
    name="end_to_end_seg",
    task="segment",
    decode=decode_rows,
    match_score=match_rows,
    usual=USUAL,
    nms=NmsOptions(iou=1.0),
)
