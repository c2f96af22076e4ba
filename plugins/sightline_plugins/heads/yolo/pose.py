"""YOLO models for keypoints: boxes with x, y and mostly confidence of each keypoint, in pixels of the network's input.

`yolov8_pose`      (1, 4 + classes + keypoints * 3, boxes), as `yolov8` (also v11 and later)
`end_to_end_pose`  rows of x1, y1, x2, y2, score, class and keypoints, as Ultralytics exports with `nms=True` and YOLOv7
                   pose after its suppression

Keypoints of two values have confidence 1. Sources: ultralytics/ultralytics, `nn/modules/head.py`: Pose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
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
    options_of,
)
from sightline_plugins.heads.yolo.layout import (
    USUAL,
    best_classes,
    box_table,
    confident_rows,
    values_first,
    xyxy_of,
)
from sightline_plugins.nms import NmsOptions

KEYPOINTS = 17
"""Of a person in COCO."""


class PoseOptions(HeadOptions):
    """Settings of the heads for keypoints."""

    keypoints: tuple[int, int] | None = Field(None, examples=[(17, 3)])
    """Number of keypoints and values of each: 3 (x, y, confidence) or 2 (x, y). The file's metadata says it
    (`kpt_shape`); else it is told by the number of labels (one class when there are none), 3 values where they fit."""


def decode_boxes(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every box whose best class scores at least `reading.confidence`, with keypoints."""
    values = values_first(outputs[0])
    points, size = _keypoints(len(values) - 4, context, classes=len(context.labels) or 1)
    last = len(values) - points * size
    sure, score, class_id = best_classes(values[4:last], context.confidence)
    found = values[:, sure]
    return Candidates.from_arrays(
        xyxy_of(found[:4]), score, class_id, points=_points(found[last:].T, points=points, size=size)
    )


def decode_rows(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image with at least that confidence, chosen by the model, with keypoints."""
    rows = confident_rows(outputs[0], context.confidence)
    points, size = _keypoints(rows.shape[1] - 6, context, classes=0)
    keypoints = _points(rows[:, 6 : 6 + points * size], points=points, size=size)
    return Candidates.from_arrays(rows[:, :4], rows[:, 4], rows[:, 5], points=keypoints)


def _keypoints(values: int, context: DecodeContext, *, classes: int) -> tuple[int, int]:
    """How many keypoints of how many values are among `values` of a box, which are class scores besides."""
    told = options_of(context, PoseOptions()).keypoints
    if told is not None:
        points, size = told
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
    """Keypoints (n, K, 3) from rows (n, K * size)."""
    found = np.ones((len(values), points, 3), np.float32)
    found[..., :size] = values.reshape(len(values), points, size)
    return found


def match_boxes(signature: Signature) -> MatchScore:
    """One box a cell with more values than classes and box; sure when the metadata says that it is for poses."""
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


def match_rows(signature: Signature) -> MatchScore:
    """Rows of box, score, class and keypoints, fewer or more than the cells."""
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


def _count_one(shapes: Sequence[Shape]) -> int | None:
    """The number of classes is not told apart from that of keypoints, except where none is left for these."""
    known = [size for size in shapes[0][-2:] if size is not None]
    return 0 if known and min(known) < 4 + 1 + 2 else None


YOLOV8_POSE = Head(
    name="yolov8_pose",
    task="pose",
    decode=decode_boxes,
    count_classes=_count_one,
    match_score=match_boxes,
    ranks=(2, 3),
    usual=USUAL,
    nms=NmsOptions(iou=0.45),
    options=PoseOptions,
)
END_TO_END_POSE = Head(
    name="end_to_end_pose",
    task="pose",
    decode=decode_rows,
    match_score=match_rows,
    ranks=(2, 3),
    usual=USUAL,
    nms=NmsOptions(iou=1.0),
    options=PoseOptions,
)
