"""YOLO heads for oriented boxes, instance masks and keypoints.

`yolov8_obb`       (1, 4 + classes + 1, boxes): centre, width and height in pixels of the network's input, class scores,
                   angle in radians, clockwise on the screen (ultralytics/ultralytics, `utils/ops.py`: xywhr2xyxyxyxy)
`end_to_end_obb`   rows of centre x and y, width, height, score, class, angle, as exported with `nms=True`
`yolov5_seg`       (1, boxes, 5 + classes + masks), as `yolov5` (also YOLOv7), and prototypes (1, masks, rows, columns)
`yolov8_seg`       (1, 4 + classes + masks, boxes), as `yolov8` (also v9, v11 and later), and prototypes
`end_to_end_seg`   rows of x1, y1, x2, y2, score, class and coefficients, as exported with `nms=True`, and prototypes
`yolov8_pose`      (1, 4 + classes + keypoints * 3, boxes), as `yolov8` (also v11 and later)
`end_to_end_pose`  rows of x1, y1, x2, y2, score, class and keypoints, as exported with `nms=True`, and YOLOv7 pose
                   after its suppression

A mask is where the sum of the prototypes, weighted by the coefficients, is above 0 (ultralytics/ultralytics,
`utils/ops.py`: process_mask). Keypoints of two values have confidence 1 (`nn/modules/head.py`: Pose).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.errors import ModelError
from sightline_plugins.heads.head import (
    Array,
    Candidates,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    Shape,
    Signature,
)
from sightline_plugins.heads.yolo.layout import (
    ANCHORS,
    PREPROCESSING,
    best_classes,
    box_table,
    boxes_and_prototypes,
    confident_rows,
    count_table_classes,
    table_and_prototypes,
    values_first,
    xyxy_of,
)
from sightline_plugins.nms.options import NmsOptions


def decode_obb(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every box whose best class scores at least `context.confidence`, with its corners."""
    values = values_first(outputs[0])
    kept, score, class_id = best_classes(values[4:-1], context.confidence)
    found = values[:, kept]
    return _candidates(found[:4].T, found[-1], score, class_id)


def decode_obb_rows(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes with at least that confidence, chosen by the model, with their corners."""
    rows = confident_rows(outputs[0], context.confidence)
    return _candidates(rows[:, :4], rows[:, 6], rows[:, 4], rows[:, 5])


def corners_of(cxcywh: npt.NDArray[np.float32], angle: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return corners (n, 4, 2) of boxes (n, 4) turned by `angle` (n,) radians.

    They are clockwise on the screen, from the corner that is top left before the turn.
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


def match_obb(signature: Signature) -> MatchScore:
    """Match one box a cell; certain when the metadata says that it is for oriented boxes."""
    table = box_table(signature.shapes[0], signature.size_wh) if len(signature.outputs) == 1 else None
    if table is None or table.per_cell not in (None, 1) or (table.boxes is None and not table.values_first):
        return MatchScore.NONE
    classes = (table.values or 0) - 5
    if classes < 1 or signature.classes not in (None, classes) or signature.exported_task not in (None, "obb"):
        return MatchScore.NONE
    if signature.exported_task == "obb":
        return MatchScore.CERTAIN
    return MatchScore.POSSIBLE if table.values_first and signature.classes is not None else MatchScore.NONE


def match_obb_rows(signature: Signature) -> MatchScore:
    """Match rows of seven values (1, rows, 7)."""
    is_table = len(signature.outputs) == 1 and len(signature.shapes[0]) == 3 and signature.shapes[0][2] == 7
    if not is_table or signature.exported_task not in (None, "obb"):
        return MatchScore.NONE
    table = box_table(signature.shapes[0], signature.size_wh)
    if table is None or table.per_cell not in (None, 0):
        return MatchScore.NONE
    return MatchScore.CERTAIN if signature.exported_task == "obb" else MatchScore.POSSIBLE


YOLOV8_OBB = Head(
    name="yolov8_obb",
    family="YOLOv8-obb, v11-obb and later",
    outputs="(1, 4 + classes + 1, boxes): centre, size, class scores, angle",
    decode=decode_obb,
    count_classes=lambda shapes: count_table_classes(shapes, 5),
    match_score=match_obb,
    ranks=(2, 3),
    preprocessing=PREPROCESSING,
    nms=NmsOptions(iou=0.45),
)
END_TO_END_OBB = replace(
    YOLOV8_OBB,
    name="end_to_end_obb",
    family="YOLOv8-obb and later, exported with nms=True",
    outputs="(1, n, 7): centre, size, score, class, angle",
    decode=decode_obb_rows,
    count_classes=lambda _: None,
    match_score=match_obb_rows,
    nms=NmsOptions(iou=1.0),
)


def decode_yolov5_masks(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes whose best class times objectness is at least `context.confidence`."""
    table, prototypes = table_and_prototypes(outputs, "yolov5_seg")
    values = values_first(table)
    likely = values[:, np.flatnonzero(values[4] >= context.confidence)]
    return _with_masks(likely, likely[4] * likely[5 : -len(prototypes)], prototypes, context)


def decode_yolov8_masks(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes whose best class scores at least `context.confidence`."""
    table, prototypes = table_and_prototypes(outputs, "yolov8_seg")
    values = values_first(table)
    return _with_masks(values, values[4 : -len(prototypes)], prototypes, context)


def _with_masks(values: Array, scores: Array, prototypes: Array, context: DecodeContext) -> Candidates:
    kept, score, class_id = best_classes(scores, context.confidence)
    found = values[:, kept]
    masks = found[-len(prototypes) :].T
    return Candidates.from_arrays(xyxy_of(found[:4]), score, class_id, masks=masks, prototypes=prototypes)


def decode_mask_rows(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes with at least that confidence, chosen by the model."""
    table, prototypes = table_and_prototypes(outputs, "end_to_end_seg")
    rows = confident_rows(table, context.confidence)
    return Candidates.from_arrays(rows[:, :4], rows[:, 4], rows[:, 5], masks=rows[:, 6:], prototypes=prototypes)


def match_yolov5_masks(signature: Signature) -> MatchScore:
    """Match three boxes a cell, with prototypes."""
    found = boxes_and_prototypes(signature.shapes)
    table = box_table(found[0], signature.size_wh) if found else None
    if found is None or table is None or table.values is None or table.per_cell not in (None, ANCHORS):
        return MatchScore.NONE
    classes = table.values - 5 - (found[1][1] or 0)
    if classes < 1 or table.values_first or signature.classes not in (None, classes):
        return MatchScore.NONE
    return MatchScore.POSSIBLE if table.boxes is None and classes == 1 else MatchScore.CERTAIN


def match_yolov8_masks(signature: Signature) -> MatchScore:
    """Match one box a cell, with prototypes: the values first, or as many as classes, box and masks."""
    found = boxes_and_prototypes(signature.shapes)
    table = box_table(found[0], signature.size_wh) if found else None
    if found is None or table is None or table.values is None or table.per_cell not in (None, 1):
        return MatchScore.NONE
    classes = table.values - 4 - (found[1][1] or 0)
    if classes < 1 or signature.classes not in (None, classes) or (table.boxes is None and not table.values_first):
        return MatchScore.NONE
    return MatchScore.CERTAIN if table.values_first or signature.classes is not None else MatchScore.POSSIBLE


def match_mask_rows(signature: Signature) -> MatchScore:
    """Match rows of box, score, class and coefficients, fewer or more than the cells."""
    found = boxes_and_prototypes(signature.shapes)
    if found is None or found[0][2] is None or found[0][2] != 6 + (found[1][1] or 0):
        return MatchScore.NONE
    if found[0][1] is None:
        return MatchScore.POSSIBLE if signature.classes in (None, 1) else MatchScore.CERTAIN
    table = box_table(found[0], signature.size_wh)
    return MatchScore.certain_if(table is not None and table.per_cell == 0)


def _count_mask_classes(shapes: Sequence[Shape], extra: int) -> int | None:
    found = boxes_and_prototypes(shapes)
    return count_table_classes(found[:1], extra + (found[1][1] or 0)) if found else None


YOLOV5_SEG = Head(
    name="yolov5_seg",
    family="YOLOv5-seg, v7-seg",
    outputs="(1, boxes, 5 + classes + masks) and prototypes (1, masks, h, w)",
    task="segment",
    decode=decode_yolov5_masks,
    count_classes=lambda shapes: _count_mask_classes(shapes, 5),
    match_score=match_yolov5_masks,
    preprocessing=PREPROCESSING,
    nms=NmsOptions(iou=0.45),
)
YOLOV8_SEG = replace(
    YOLOV5_SEG,
    name="yolov8_seg",
    family="YOLOv8-seg, v9-seg, v11-seg and later",
    outputs="(1, 4 + classes + masks, boxes) and prototypes (1, masks, h, w)",
    decode=decode_yolov8_masks,
    count_classes=lambda shapes: _count_mask_classes(shapes, 4),
    match_score=match_yolov8_masks,
)
END_TO_END_SEG = replace(
    YOLOV5_SEG,
    name="end_to_end_seg",
    family="YOLOv8-seg and later, exported with nms=True",
    outputs="(1, n, 6 + masks) and prototypes (1, masks, h, w)",
    decode=decode_mask_rows,
    count_classes=lambda _: None,
    match_score=match_mask_rows,
    nms=NmsOptions(iou=1.0),
)


KEYPOINTS = 17
"""Number of keypoints of a person in COCO."""


class PoseOptions(HeadOptions):
    """Options of the keypoint heads."""

    keypoints: tuple[int, int] | None = Field(None, examples=[(17, 3)])
    """Number of keypoints and values of each: 3 (x, y, confidence) or 2 (x, y). The file's metadata says it
    (`kpt_shape`); else the number of labels tells it (one class when there are none), 3 values where they fit."""


def decode_poses(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every box whose best class scores at least `context.confidence`, with keypoints."""
    values = values_first(outputs[0])
    points, size = _keypoints(len(values) - 4, context, classes=len(context.labels) or 1)
    last = len(values) - points * size
    kept, score, class_id = best_classes(values[4:last], context.confidence)
    found = values[:, kept]
    return Candidates.from_arrays(
        xyxy_of(found[:4]), score, class_id, points=_points(found[last:].T, points=points, size=size)
    )


def decode_pose_rows(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes with at least that confidence, chosen by the model, with keypoints."""
    rows = confident_rows(outputs[0], context.confidence)
    points, size = _keypoints(rows.shape[1] - 6, context, classes=0)
    keypoints = _points(rows[:, 6 : 6 + points * size], points=points, size=size)
    return Candidates.from_arrays(rows[:, :4], rows[:, 4], rows[:, 5], points=keypoints)


def _keypoints(values: int, context: DecodeContext, *, classes: int) -> tuple[int, int]:
    """Return the number of keypoints, and of the values of each, among `values` of a box with class scores."""
    known = context.options_or(PoseOptions()).keypoints
    if known is not None:
        points, size = known
        if size in (2, 3) and points > 0 and values - points * size >= min(classes, 1):
            return points, size
        raise ModelError(f"{points} keypoints of {size} values do not fit the {values} values that the model gives")
    size = next((size for size in (3, 2) if values > classes and (values - classes) % size == 0), 0)
    if not size:
        raise ModelError(
            f"the {values} values that the model gives for each box are no {classes} class(es) and keypoints: "
            "set labels, or head_options: {keypoints: [17, 3]} as the model has them"
        )
    return (values - classes) // size, size


def _points(values: Array, *, points: int, size: int) -> Array:
    """Return keypoints (n, K, 3) from rows (n, K * size)."""
    found = np.ones((len(values), points, 3), np.float32)
    found[..., :size] = values.reshape(len(values), points, size)
    return found


def match_poses(signature: Signature) -> MatchScore:
    """Match one box a cell with more values than classes and box; certain when the metadata names poses."""
    table = box_table(signature.shapes[0], signature.size_wh) if len(signature.outputs) == 1 else None
    if table is None or table.per_cell not in (None, 1) or (table.boxes is None and not table.values_first):
        return MatchScore.NONE
    left = (table.values or 0) - 4 - (signature.classes or 1)
    if left < 2 or (left % 3 and left % 2) or signature.exported_task not in (None, "pose"):
        return MatchScore.NONE
    if signature.exported_task == "pose":
        return MatchScore.CERTAIN
    is_person = left == KEYPOINTS * 3 and table.boxes is not None
    return MatchScore.POSSIBLE if is_person or (signature.classes is not None and left % 3 == 0) else MatchScore.NONE


def match_pose_rows(signature: Signature) -> MatchScore:
    """Match rows of box, score, class and keypoints, fewer or more than the cells."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) not in (2, 3):
        return MatchScore.NONE
    rows, values = signature.shapes[0][-2:]
    left = (values or 0) - 6
    if left < 2 or (left % 3 and left % 2) or signature.exported_task not in (None, "pose"):
        return MatchScore.NONE
    if rows is not None:
        table = box_table((1, rows, values), signature.size_wh)
        if table is None or table.per_cell != 0 or table.values_first:
            return MatchScore.NONE
    if signature.exported_task == "pose":
        return MatchScore.CERTAIN
    return MatchScore.POSSIBLE if left == KEYPOINTS * 3 else MatchScore.NONE


def _count_pose_classes(shapes: Sequence[Shape]) -> int | None:
    """Return 0 where no value is left for keypoints; else None: classes and keypoints cannot be separated."""
    known = [size for size in shapes[0][-2:] if size is not None]
    return 0 if known and min(known) < 4 + 1 + 2 else None


YOLOV8_POSE = Head(
    name="yolov8_pose",
    family="YOLOv8-pose, v11-pose and later",
    outputs="(1, 4 + classes + K * 3, boxes): centre, size, class scores, keypoints",
    task="pose",
    decode=decode_poses,
    count_classes=_count_pose_classes,
    match_score=match_poses,
    ranks=(2, 3),
    preprocessing=PREPROCESSING,
    nms=NmsOptions(iou=0.45),
    options=PoseOptions,
)
END_TO_END_POSE = replace(
    YOLOV8_POSE,
    name="end_to_end_pose",
    family="YOLOv8-pose and later, exported with nms=True; YOLOv7-pose",
    outputs="(1, n, 6 + K * 3): corners, score, class, keypoints",
    decode=decode_pose_rows,
    count_classes=lambda _: None,
    match_score=match_pose_rows,
    nms=NmsOptions(iou=1.0),
)
