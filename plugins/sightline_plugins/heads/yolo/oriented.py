"""YOLO models for oriented boxes: centre, width and height in pixels of the network's input, and an angle.

`yolov8_obb`      (1, 4 + classes + 1, boxes): box, class scores, angle (YOLOv8, v11 and later)
`end_to_end_obb`  rows of centre x and y, width, height, score, class, angle, as Ultralytics exports with `nms=True`

The angle in radians turns the box's width from the x axis towards the y axis, which is clockwise on the screen
(ultralytics/ultralytics, `utils/ops.py`: xywhr2xyxyxyxy).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature
from sightline_plugins.heads.yolo.layout import USUAL, best_classes, box_table, confident_rows, values_first
from sightline_plugins.nms import NmsOptions


def decode_boxes(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every box whose best class scores at least `reading.confidence`, with its corners."""
    values = values_first(outputs[0])
    sure, score, class_id = best_classes(values[4:-1], context.confidence)
    found = values[:, sure]
    return _candidates(found[:4].T, found[-1], score, class_id)


def decode_rows(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image with at least that confidence, chosen by the model, with their corners."""
    rows = confident_rows(outputs[0], context.confidence)
    return _candidates(rows[:, :4], rows[:, 6], rows[:, 4], rows[:, 5])


def corners_of(cxcywh: npt.NDArray[np.float32], angle: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Corners (n, 4, 2) of boxes (n, 4) turned by `angle` (n,) radians: clockwise on the screen, from the one that is
    top left before the turn.
    """
    half = cxcywh[:, None, 2:] * np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]], np.float32)
    cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
    x = half[..., 0] * cosine - half[..., 1] * sine
    y = half[..., 0] * sine + half[..., 1] * cosine
    corners: npt.NDArray[np.float32] = cxcywh[:, None, :2] + np.stack([x, y], axis=-1)
    return corners


def _candidates(cxcywh: Array, angle: Array, score: Array, class_id: Array) -> Candidates:
    with np.errstate(invalid="ignore"):
        corners = corners_of(cxcywh.astype(np.float32), angle.astype(np.float32))
    xyxy = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    return Candidates.from_arrays(xyxy, score, class_id, corners=corners)


def match_boxes(signature: Signature) -> MatchScore:
    """One box a cell; sure when the metadata says that it is for oriented boxes."""
    table = box_table(signature.shapes[0], signature.size_wh) if len(signature.outputs) == 1 else None
    if table is None or table.per_cell not in (None, 1) or (table.boxes is None and not table.values_first):
        return MatchScore.NONE
    classes = (table.values or 0) - 5
    if classes < 1 or signature.classes not in (None, classes) or signature.exported_task not in (None, "obb"):
        return MatchScore.NONE
    if signature.exported_task == "obb":
        return MatchScore.CERTAIN
    return MatchScore.POSSIBLE if table.values_first and signature.classes is not None else MatchScore.NONE


def match_rows(signature: Signature) -> MatchScore:
    """Rows of seven values (1, rows, 7)."""
    is_table = len(signature.outputs) == 1 and len(signature.shapes[0]) == 3 and signature.shapes[0][2] == 7
    if not is_table or signature.exported_task not in (None, "obb"):
        return MatchScore.NONE
    table = box_table(signature.shapes[0], signature.size_wh)
    if table is None or table.per_cell not in (None, 0):
        return MatchScore.NONE
    return MatchScore.CERTAIN if signature.exported_task == "obb" else MatchScore.POSSIBLE


def _count(shapes: Sequence[Shape]) -> int | None:
    known = [size for size in shapes[0][-2:] if size is not None]
    return min(known) - 5 if known else None


YOLOV8_OBB = Head(
    name="yolov8_obb",
    decode=decode_boxes,
    count_classes=_count,
    match_score=match_boxes,
    ranks=(2, 3),
    usual=USUAL,
    nms=NmsOptions(iou=0.45),
)
END_TO_END_OBB = Head(
    name="end_to_end_obb",
    decode=decode_rows,
    match_score=match_rows,
    ranks=(2, 3),
    usual=USUAL,
    nms=NmsOptions(iou=1.0),
)
