"""YOLO heads that read boxes from tables with the values of a box in each row (or column).

`yolov5`         (1, boxes, 5 + classes): centre x and y, width and height in pixels of the network's input, objectness,
                 classes; the score is objectness times class. Also v6 (objectness 1), v7, and YOLOX exported with
                 decoding. Raw maps that older exports add are ignored
`yolov8`         (1, 4 + classes, boxes): box and classes only. Also v9, v11 and later
`yolox`          YOLOX exported without decoding: (1, cells, 5 + classes) over strides 8, 16, 32 (and 64) in that order.
                 Centre = (offset + cell) * stride, size = exp(value) * stride; objectness and classes are after the
                 logistic function (Megvii-BaseDetection/YOLOX, `yolox/utils/demo_utils.py`: demo_postprocess). With
                 decoding the shape is the same: that is `yolov5` with this family's pre-processing
`yolo_nas`       boxes (1, boxes, 4), x1, y1, x2, y2 in pixels of the network's input, and class probabilities
                 (1, boxes, classes) (Deci-AI/super-gradients, `documentation/source/models_export.md`)
`yolo_nas_rows`  YOLO-NAS's flat format with suppression: rows of image, x1, y1, x2, y2, score, class (the score comes
                 before the class, unlike the rows of seven that `end_to_end` reads). Its batch format is `end_to_end`

`yolov5` and `yolov8` are read in either orientation: there are always more boxes than values of a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.decoding import PYRAMIDS, cells_of, exponential, shapes_text
from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature, SizeWh
from sightline_plugins.heads.yolo.layout import (
    ANCHORS,
    PREPROCESSING,
    BoxTable,
    best_classes,
    box_table,
    confident_rows,
    count_table_classes,
    pyramid_counts,
    values_first,
    xyxy_of,
)
from sightline_plugins.nms.options import NmsOptions


def decode_yolov5(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every box whose best class times objectness is at least `context.confidence`."""
    values = values_first(min(outputs, key=np.ndim))
    likely = np.flatnonzero(values[4] >= context.confidence)
    found = values[:, likely]
    class_id = found[5:].argmax(axis=0)
    score = found[4] * found[5:].max(axis=0, initial=0)
    kept = score >= context.confidence
    return Candidates.from_arrays(xyxy_of(found[:4, kept]), score[kept], class_id[kept])


def decode_yolov8(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every box whose best class scores at least `context.confidence`."""
    values = values_first(outputs[0])
    kept, score, class_id = best_classes(values[4:], context.confidence)
    return Candidates.from_arrays(xyxy_of(values[:4, kept]), score, class_id)


def match_yolov5(signature: Signature) -> MatchScore:
    """Match three boxes a cell; perhaps one a cell with the values first and one value more than classes and box."""
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


def match_yolov8(signature: Signature) -> MatchScore:
    """Match one box a cell: the values first, or as many as classes and box."""
    table = box_table(signature.shapes[0], signature.size_wh) if len(signature.outputs) == 1 else None
    if table is None or table.values is None or signature.exported_task not in (None, "detect"):
        return MatchScore.NONE
    if table.boxes is None:
        return MatchScore.certain_if(table.values_first and table.values > 4)
    if table.per_cell != 1:
        return MatchScore.NONE
    if signature.classes is None and signature.exported_task is None and table.values == _POSE_VALUES:
        return MatchScore.POSSIBLE
    fits = table.values == signature.classes + 4 if signature.classes is not None else table.values_first
    return MatchScore.certain_if(fits)


def _lone_table(signature: Signature) -> BoxTable | None:
    """Return the only table of boxes; besides it there may be the raw maps (1, anchors, rows, columns, values)."""
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
    family="YOLOv5, v6, v7; YOLOX exported with decoding",
    outputs="(1, boxes, 5 + classes): centre, size, objectness, class scores",
    decode=decode_yolov5,
    count_classes=lambda shapes: count_table_classes(sorted(shapes, key=len), 5),
    match_score=match_yolov5,
    preprocessing=PREPROCESSING,
    nms=NmsOptions(iou=0.45),
)
YOLOV8 = replace(
    YOLOV5,
    name="yolov8",
    family="YOLOv8, v9, v11 and later",
    outputs="(1, 4 + classes, boxes): centre, size, class scores",
    decode=decode_yolov8,
    count_classes=lambda shapes: count_table_classes(shapes, 4),
    match_score=match_yolov8,
    ranks=(2, 3),
)


def decode_yolox(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every cell whose best class scores at least `context.confidence`."""
    cells = outputs[0].reshape(outputs[0].shape[-2:])
    likely = np.flatnonzero(cells[:, 4] >= context.confidence)
    found = cells[likely]
    class_id = found[:, 5:].argmax(axis=1)
    score = found[:, 4] * found[:, 5:].max(axis=1, initial=0)
    kept = score >= context.confidence
    found, place = found[kept], likely[kept]
    corners, strides = cells_of(context.size_wh, strides_of(context.size_wh, len(cells)), partial=False)
    stride = strides[place]
    centre = (found[:, :2] + corners[place]) * stride
    with np.errstate(over="ignore"):
        size = exponential(found[:, 2:4]) * stride
    boxes = xyxy_from_cxcywh(np.concatenate([centre, size], axis=1))
    return Candidates.from_arrays(boxes, score[kept], class_id[kept])


def strides_of(size_wh: SizeWh, cells: int) -> tuple[int, ...]:
    """Return the strides whose grids have that many cells together. Raises ModelError when there are none."""
    counts = pyramid_counts(size_wh)
    if cells in counts:
        return PYRAMIDS[counts.index(cells)]
    raise ModelError(
        f"head yolox: an input of {size_wh[0]}x{size_wh[1]} has {' or '.join(map(str, counts))} cells, the model's "
        f"output has {cells}: another input size or another head is needed"
    )


def match_yolox(signature: Signature) -> MatchScore:
    """Match one box a cell, its values last. Without labels, exports that keep values last are these."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) != 3:
        return MatchScore.NONE
    _, boxes, values = signature.shapes[0]
    if values is None or values <= 5:
        return MatchScore.NONE
    if boxes is None:
        return MatchScore.NONE if values == 6 else MatchScore.POSSIBLE
    is_a_cell_each = boxes > values and boxes in pyramid_counts(signature.size_wh)
    return MatchScore.certain_if(is_a_cell_each and signature.classes in (None, values - 5))


YOLOX = Head(
    name="yolox",
    family="YOLOX",
    outputs="(1, cells, 5 + classes), not decoded",
    decode=decode_yolox,
    count_classes=lambda shapes: None if shapes[0][-1] is None else shapes[0][-1] - 5,
    match_score=match_yolox,
    ranks=(2, 3),
    preprocessing={"fit": "letterbox", "align": "top_left", "color": "bgr", "scale": (1.0,), "pad": (114,)},
    nms=NmsOptions(iou=0.45),
)


NAS_FLAT_NAME = "flat_predictions"
"""Part of the name that the exporter gives the output of the flat format."""


def decode_nas(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every box whose best class scores at least `context.confidence`."""
    tables: list[Array] = [array.reshape(array.shape[-2:]) for array in outputs if array.ndim >= 2]
    place = next((number for number, table in enumerate(tables) if table.shape[1] == 4), None)
    if len(tables) != 2 or place is None or len(tables[0]) != len(tables[1]):
        found = shapes_text(outputs)
        raise ModelError(f"head yolo_nas: boxes (1, n, 4) and scores (1, n, classes) are needed; outputs: {found}")
    kept, score, class_id = best_classes(tables[1 - place].T, context.confidence)
    return Candidates.from_arrays(np.asarray(tables[place][kept], np.float32), score, class_id)


def decode_nas_rows(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes with at least that confidence, chosen by the model."""
    rows = outputs[0].reshape(-1, outputs[0].shape[-1])
    if rows.shape[1] != 7:
        raise ModelError(f"head yolo_nas_rows: rows of 7 values are needed; the output is {outputs[0].shape}")
    found = confident_rows(rows[:, 1:], context.confidence)
    return Candidates.from_arrays(found[:, :4], found[:, 4], found[:, 5])


def count_nas_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the last size of the output beside the boxes."""
    tables = _boxes_and_scores(shapes)
    return None if tables is None else tables[1][-1]


def match_nas(signature: Signature) -> MatchScore:
    """Match two tables of one row for each cell."""
    tables = _boxes_and_scores(signature.shapes)
    if tables is None or tables[0][1] != tables[1][1] or signature.classes not in (None, tables[1][2]):
        return MatchScore.NONE
    boxes, values = tables[0][1], tables[1][2]
    if boxes is None or values is None:
        return MatchScore.POSSIBLE if values is not None else MatchScore.NONE
    table = box_table((1, 1, boxes), signature.size_wh)
    return MatchScore.certain_if(table is not None and table.per_cell == 1)


def match_nas_rows(signature: Signature) -> MatchScore:
    """Match rows of seven that are named as the exporter names them."""
    is_flat = len(signature.outputs) == 1 and NAS_FLAT_NAME in signature.outputs[0].name
    return MatchScore.certain_if(is_flat and signature.shapes[0][-1] == 7)


def _boxes_and_scores(shapes: Sequence[Shape]) -> tuple[Shape, Shape] | None:
    if [len(shape) for shape in shapes] != [3, 3]:
        return None
    first, second = shapes
    if first[2] == 4:
        return first, second
    return (second, first) if second[2] == 4 else None


YOLO_NAS = Head(
    name="yolo_nas",
    family="YOLO-NAS",
    outputs="(1, boxes, 4) corners and (1, boxes, classes)",
    decode=decode_nas,
    count_classes=count_nas_classes,
    match_score=match_nas,
    ranks=(2, 3),
    preprocessing=PREPROCESSING,
    nms=NmsOptions(iou=0.7),
)
YOLO_NAS_ROWS = replace(
    YOLO_NAS,
    name="yolo_nas_rows",
    family="YOLO-NAS, flat format",
    outputs="(n, 7): image, corners, score, class",
    decode=decode_nas_rows,
    count_classes=lambda _: None,
    match_score=match_nas_rows,
    nms=NmsOptions(iou=1.0),
)
