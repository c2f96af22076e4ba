"""Models that select their boxes themselves, each in the layout and units of its exporter.

`end_to_end`             rows of x1, y1, x2, y2, score, class, (n, 6) or (1, n, 6), as YOLOv10 exports; rows of image,
                         x1, y1, x2, y2, class, score, (n, 7), as YOLOv7's export, or of x1, y1, x2, y2, score,
                         class and one more; or boxes, scores and labels as
                         separate outputs (models that gather the result of NonMaxSuppression; TensorRT's EfficientNMS
                         with its count). Labels are the output of integer type, else the one named so, else the last;
                         without labels all boxes are of one class
`end_to_end_normalized`  the same with boxes as fractions of the network's input
`detr_deployed`          outputs named labels, boxes and scores, as deployed RT-DETR, D-FINE and DEIM give them; the
                         image is stretched (lyuwenyu/RT-DETR, `rtdetr_pytorch/tools/export_onnx.py`)
`object_detection_api`   the TensorFlow Object Detection API: detection_boxes, detection_classes, detection_scores and
                         num_detections. Boxes (1, n, 4) are top, left, bottom, right as fractions of the input; classes
                         are floats that count from 1 (tensorflow/models, `research/object_detection/core/
                         standard_fields.py`: DetectionResultFields, `exporter.py`). Other outputs are ignored.
                         TensorFlow Lite gives boxes, classes, scores and count in this order under other names and
                         counts classes from 0: `first_class: 0`
`selected_indices`       models that end in ONNX's NonMaxSuppression: selected_indices (n, 3) or (1, n, 3) holds image,
                         class and box of each selected box; boxes (1, boxes, 4) and scores (1, classes, boxes) are what
                         it selected from. Boxes are top, left, bottom, right (any two opposite corners), as the
                         operator defines them, unless `boxes` says otherwise (onnx/onnx, `docs/Operators.md`; YOLOv3 of
                         the ONNX model zoo)
`paddle`                 PaddleDetection with its post-processing: rows of class, score, x1, y1, x2, y2, (n, 6), and
                         their count, (1,). Boxes are in pixels of the network's input; padding has class -1
                         (PaddlePaddle/PaddleDetection, `ppdet/modeling/post_process.py`)
`detection_output`       Caffe's and OpenVINO's DetectionOutput: rows of image, class, score, x1, y1, x2, y2 in
                         (1, 1, n, 7). Boxes are fractions of the input; a row of image -1 ends the list; class 0 is the
                         background (weiliu89/caffe, branch ssd, `detection_output_layer.cpp`)

Padding (rows of score 0, or beyond the count) is never returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.decoding import PYRAMIDS, at_least, count_cells, named, shapes_text
from sightline_plugins.heads.head import (
    IMAGENET,
    Array,
    Candidates,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    Shape,
    Signature,
    no_match,
)
from sightline_plugins.heads.yolo.layout import PREPROCESSING
from sightline_plugins.heads.yolo.tables import NAS_FLAT_NAME
from sightline_plugins.nms.options import NmsOptions

_DETECTION_API_NAMES = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")


_MOST_AS_FRACTION = 1.5
"""Coordinates above this are pixels."""


class RowsOptions(HeadOptions):
    """Options of the heads `end_to_end` and `end_to_end_normalized`."""

    rows: Literal["auto", "image_first", "box_first"] = "auto"
    """The order of rows of seven values: image, box, class and score (`image_first`); box, score, class and one more
    (`box_first`). Default: read from the values of each image."""


_ROWS = RowsOptions()


class FirstClassOptions(HeadOptions):
    """Options of the heads `object_detection_api` and `detection_output`."""

    first_class: Annotated[int, Field(ge=0)] = 1
    """The number of the first class, which is the first label; 1 where 0 is the background."""


_FIRST_CLASS = FirstClassOptions()


def decode_detection_api(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes with at least that confidence."""
    first_class = context.options_or(_FIRST_CLASS).first_class
    boxes, classes, scores, count = _detection_api_columns(outputs, context)
    kept = at_least(scores[:count], context.confidence)
    xyxy = boxes[kept][:, [1, 0, 3, 2]] * np.array(context.size_wh * 2, np.float32)
    return Candidates.from_arrays(xyxy, scores[kept], np.rint(classes[kept]) - first_class)


def _detection_api_columns(outputs: Sequence[Array], context: DecodeContext) -> tuple[Array, Array, Array, int]:
    named_outputs = [(name.split(":")[0], output) for name, output in zip(context.outputs, outputs, strict=False)]
    chosen = [next((output for name, output in named_outputs if name == own), None) for own in _DETECTION_API_NAMES]
    if len(outputs) == 4 and any(output is None for output in chosen[:3]):
        chosen = list(outputs)
    boxes, classes, scores, count = chosen
    if boxes is None or classes is None or scores is None or boxes.shape[-1] != 4 or scores.size != classes.size:
        raise ModelError(
            f"head object_detection_api: outputs called {', '.join(_DETECTION_API_NAMES[:3])} are needed, or "
            f"boxes, classes, scores and their count in this order; the outputs are {shapes_text(outputs)}"
        )
    known = scores.size if count is None else min(max(int(count.reshape(-1)[0]), 0), scores.size)
    return boxes.reshape(-1, 4), classes.reshape(-1), scores.reshape(-1), known


def _is_detection_api(signature: Signature) -> bool:
    """Return whether outputs have the names, and classes in floating point: those of EfficientNMS are integers."""
    by_name = {output.name.split(":")[0]: output for output in signature.outputs}
    return set(_DETECTION_API_NAMES[:3]) <= set(by_name) and by_name["detection_classes"].dtype.kind == "f"


def match_detection_api(signature: Signature) -> MatchScore:
    """Match outputs of these names."""
    return MatchScore.certain_if(_is_detection_api(signature))


OBJECT_DETECTION_API = Head(
    name="object_detection_api",
    family="TensorFlow Object Detection API, TensorFlow Lite",
    outputs="detection_boxes, detection_classes, detection_scores, num_detections",
    decode=decode_detection_api,
    match_score=match_detection_api,
    preprocessing={"fit": "stretch", "color": "rgb", "scale": (1.0,)},
    nms=NmsOptions(iou=1.0),
    options=FirstClassOptions,
)


def decode_pixels(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes with at least that confidence, whose coordinates are pixels."""
    order = context.options_or(_ROWS).rows
    boxes, scores, labels = _rows(outputs[0], order) if len(outputs) == 1 else _columns(outputs, context)
    kept = at_least(scores, context.confidence)
    return Candidates.from_arrays(boxes[kept], scores[kept], labels[kept])


def decode_fractions(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes with at least that confidence, whose coordinates are fractions of the network's input."""
    found = decode_pixels(outputs, context)
    return replace(found, xyxy=found.xyxy * np.array(context.size_wh * 2, np.float32))


def _rows(output: Array, order: str) -> tuple[Array, Array, Array]:
    rows = output.reshape(-1, output.shape[-1])
    if rows.shape[1] == 7 and (order == "image_first" or (order == "auto" and not _is_box_first(rows))):
        return rows[:, 1:5], rows[:, 6], rows[:, 5]
    if rows.shape[1] not in (6, 7):
        raise ModelError(f"head end_to_end: rows of 6 or 7 values are needed; the output is {output.shape}")
    return rows[:, :4], rows[:, 4], rows[:, 5]


def _is_box_first(rows: Array) -> bool:
    """Return whether rows of seven values begin with the box: they do not begin with image 0, a score and a class
    follow the box. Where both orders are possible, a bottom of at most one pixel is none.
    """
    used = rows[np.any(rows != 0, axis=1)]
    classes = bool(len(used)) and bool(np.all((used[:, 5] >= 0) & (used[:, 5] == np.rint(used[:, 5]))))
    box_first = classes and bool(np.all((used[:, 4] >= 0) & (used[:, 4] <= 1)))
    image_first = classes and bool(np.all((used[:, 0] == 0) & (used[:, 6] >= 0) & (used[:, 6] <= 1)))
    return box_first and (not image_first or bool(np.max(used[:, 1:4]) > _MOST_AS_FRACTION))


def _columns(outputs: Sequence[Array], context: DecodeContext) -> tuple[Array, Array, Array]:
    """Return boxes, scores and labels from separate outputs."""
    fours = [place for place, array in enumerate(outputs) if array.ndim >= 2 and array.shape[-1] == 4]
    if not fours:
        raise ModelError("head end_to_end: no output holds boxes (its last size must be 4)")
    boxes_at = max(fours, key=lambda place: outputs[place].ndim)
    boxes = outputs[boxes_at].reshape(-1, 4)
    others = [place for place in range(len(outputs)) if place != boxes_at]
    count = len(boxes)
    if len(others) == 3:
        count_at = _count_place(outputs, context, others)
        others.remove(count_at)
        count = int(outputs[count_at].reshape(-1)[0])
    columns = [outputs[place].reshape(-1) for place in others]
    if len(columns) not in (1, 2) or any(len(column) != len(boxes) for column in columns):
        raise ModelError(
            "head end_to_end: boxes, scores and labels of equal count are needed; the outputs are "
            f"{shapes_text(outputs)}"
        )
    if len(columns) == 1:
        return boxes[:count], columns[0][:count], np.zeros(count, np.int32)
    called = named(outputs, context, "class", "label", "cls")
    first_is_labels = columns[0].dtype.kind in "iu" or (columns[1].dtype.kind == "f" and others[0] in called)
    labels, scores = columns if first_is_labels else columns[::-1]
    return boxes[:count], scores[:count], labels[:count]


def _count_place(outputs: Sequence[Array], context: DecodeContext, others: Sequence[int]) -> int:
    """Return the place of the count among the outputs: by its name, else the first that holds one number."""
    called = [place for place in named(outputs, context, "num", "count") if place in others]
    single = [place for place in (*called, *others) if outputs[place].size == 1]
    return single[0] if single else others[0]


def match_rows(signature: Signature) -> MatchScore:
    """Match rows of 6 or 7 values that are no boxes of cells, or boxes with columns of their own beside them."""
    if len(signature.outputs) in (2, 3, 4):
        return _match_separate_columns(signature)
    if len(signature.outputs) != 1 or NAS_FLAT_NAME in signature.outputs[0].name:
        return MatchScore.NONE
    shape = signature.shapes[0]
    if len(shape) not in (2, 3) or shape[-1] not in (6, 7):
        return MatchScore.NONE
    if len(shape) == 2:
        return MatchScore.CERTAIN
    if shape[1] is None or shape[2] == 7:
        return MatchScore.CERTAIN if shape[2] == 6 and signature.classes != 1 else MatchScore.POSSIBLE
    cells = [count_cells(signature.size_wh, strides, partial=False) for strides in PYRAMIDS]
    return MatchScore.certain_if(shape[1] not in [each * count for count in cells for each in (1, 3)])


def _match_separate_columns(signature: Signature) -> MatchScore:
    """Match boxes, and beside them nothing but columns: (1, n), (n,) or (1, n, 1)."""
    boxes = [shape for shape in signature.shapes if len(shape) in (2, 3) and shape[-1] == 4]
    columns = [shape for shape in signature.shapes if len(shape) in (1, 2) or (len(shape) == 3 and shape[2] == 1)]
    others = [shape for shape in columns if shape not in boxes]
    if len(boxes) != 1 or len(others) != len(signature.shapes) - 1 or any(shape[-1] in (3, 6) for shape in others):
        return MatchScore.NONE
    return MatchScore.certain_if(not _is_detection_api(signature) and match_deployed(signature) is MatchScore.NONE)


def match_deployed(signature: Signature) -> MatchScore:
    """Match labels as integers, boxes and scores, by these names in this order."""
    outputs = signature.outputs
    if [output.name for output in outputs] != ["labels", "boxes", "scores"] or outputs[0].dtype.kind not in "iu":
        return MatchScore.NONE
    return MatchScore.certain_if(len(outputs[1].shape) == 3 and outputs[1].shape[2] == 4)


END_TO_END = Head(
    name="end_to_end",
    family="YOLOv10, DETR-like, EfficientNMS",
    outputs="final boxes: (n, 6), (1, n, 6), (n, 7), or boxes, scores and labels",
    decode=decode_pixels,
    match_score=match_rows,
    preprocessing=PREPROCESSING,
    nms=NmsOptions(iou=1.0),
    options=RowsOptions,
)
NORMALIZED = replace(
    END_TO_END,
    name="end_to_end_normalized",
    family="models that gather what NonMaxSuppression chose",
    outputs="final boxes as fractions of the input",
    decode=decode_fractions,
    match_score=no_match,
)
DETR_DEPLOYED = replace(
    END_TO_END,
    name="detr_deployed",
    family="RT-DETR, D-FINE, DEIM exported to deploy",
    outputs="labels, boxes, scores, by these names",
    match_score=match_deployed,
    preprocessing={"fit": "stretch", "color": "rgb", "scale": (255.0,)},
)


class SelectedIndicesOptions(HeadOptions):
    """Options of the head `selected_indices`."""

    boxes: Literal["yxyx", "xyxy", "cxcywh"] = "yxyx"
    """The order of a box: two corners, or (`center_point_box: 1`) centre, width and height."""
    units: Literal["pixels", "shares"] = "pixels"
    """Unit of the boxes: pixels of the input, or fractions of its size."""


_SELECTED_INDICES = SelectedIndicesOptions()


def decode_selected_indices(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the selected boxes with at least that confidence."""
    options = context.options_or(_SELECTED_INDICES)
    indices, boxes, scores = _tables(outputs)
    indices = indices[(indices >= 0).all(axis=1) & (indices[:, 0] == 0)]
    classes, rows = indices[:, 1], indices[:, 2]
    if len(indices) and (classes.max() >= scores.shape[0] or rows.max() >= len(boxes)):
        raise ModelError(f"head selected_indices: indices point outside boxes and scores: {shapes_text(outputs)}")
    confidence = scores[classes, rows]
    kept = confidence >= context.confidence
    found = boxes[rows[kept]].astype(np.float32)
    if options.boxes == "cxcywh":
        found = xyxy_from_cxcywh(found)
    else:
        corners = found.reshape(-1, 2, 2)[..., :: -1 if options.boxes == "yxyx" else 1]
        found = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    if options.units == "shares":
        found = found * np.array(context.size_wh * 2, np.float32)
    return Candidates.from_arrays(found, confidence[kept], classes[kept])


def _tables(outputs: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Return indices (n, 3), boxes (boxes, 4) and scores (classes, boxes)."""
    indices = [output for output in outputs if output.dtype.kind in "iu" and output.shape[-1] == 3]
    boxes = [output for output in outputs if output.dtype.kind == "f" and output.ndim > 1 and output.shape[-1] == 4]
    if len(boxes) == 2:  # four boxes, so that the scores have four columns, too
        boxes = [output for output in boxes if output.shape[-2] == 4][:1]
    others = [output for output in outputs if all(output is not taken for taken in (*indices, *boxes))]
    if len(outputs) != 3 or not len(indices) == len(boxes) == len(others) == 1:
        raise ModelError(
            "head selected_indices: indices (n, 3) as integers, boxes (boxes, 4) and scores (classes, boxes) are "
            f"needed; the outputs are {shapes_text(outputs)}"
        )
    table = boxes[0].reshape(-1, 4)
    if others[0].size % max(len(table), 1):
        raise ModelError(f"head selected_indices: boxes and scores do not fit each other: {shapes_text(outputs)}")
    return indices[0].reshape(-1, 3), table, others[0].reshape(-1, len(table))


def match_selected_indices(signature: Signature) -> MatchScore:
    """Match three outputs, one with rows of three integers, one with boxes."""
    if len(signature.outputs) != 3:
        return MatchScore.NONE
    indices = [output for output in signature.outputs if _is_indices(output.shape) and output.dtype.kind in "iu"]
    boxes = [shape for shape in signature.shapes if len(shape) == 3 and shape[2] == 4]
    return MatchScore.certain_if(len(indices) == 1 and len(boxes) > 0)


def _is_indices(shape: Shape) -> bool:
    """Return whether a shape can be that of selected indices."""
    return len(shape) in (2, 3) and shape[-1] == 3


def count_selected_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the rows of the scores."""
    others = [shape for shape in shapes if not _is_indices(shape) and len(shape) == 3 and shape[2] != 4]
    return others[0][1] if len(others) == 1 else None


SELECTED_INDICES = Head(
    name="selected_indices",
    family="models that end in NonMaxSuppression",
    outputs="(n, 3) indices, (1, boxes, 4), (1, classes, boxes)",
    decode=decode_selected_indices,
    count_classes=count_selected_classes,
    match_score=match_selected_indices,
    preprocessing=PREPROCESSING,
    nms=NmsOptions(iou=1.0),
    options=SelectedIndicesOptions,
)


def decode_paddle(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes with at least that confidence."""
    tables = [output for output in outputs if output.ndim >= 2 and output.shape[-1] == 6]
    counts = [output for output in outputs if output.ndim <= 1]
    if len(tables) != 1:
        raise ModelError(f"head paddle: rows of 6 values are needed; the outputs are {shapes_text(outputs)}")
    rows = tables[0].reshape(-1, 6)
    if counts:
        rows = rows[: int(counts[0].reshape(-1)[0])]
    rows = rows[rows[:, 0] >= 0]
    found = rows[at_least(rows[:, 1], context.confidence)]
    return Candidates.from_arrays(found[:, 2:], found[:, 1], found[:, 0])


def match_paddle(signature: Signature) -> MatchScore:
    """Match rows of 6 values, and a list of counts as integers."""
    if len(signature.outputs) != 2:
        return MatchScore.NONE
    tables = [shape for shape in signature.shapes if len(shape) == 2 and shape[1] == 6]
    counts = [output for output in signature.outputs if len(output.shape) <= 1 and output.dtype.kind in "iu"]
    return MatchScore.certain_if(len(tables) == len(counts) == 1)


PADDLE = Head(
    name="paddle",
    family="PaddleDetection with its post-processing",
    outputs="(n, 6): class, score, box; and their count",
    decode=decode_paddle,
    match_score=match_paddle,
    preprocessing={"fit": "stretch", "color": "rgb", **IMAGENET},
    nms=NmsOptions(iou=1.0),
)


def decode_detection_output(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return the boxes with at least that confidence."""
    if len(outputs) != 1 or outputs[0].shape[-1] != 7:
        raise ModelError(f"head detection_output: rows of 7 values are needed; the outputs are {shapes_text(outputs)}")
    rows = outputs[0].reshape(-1, 7)
    ends = np.flatnonzero(rows[:, 0] < 0)
    rows = rows[: ends[0]] if len(ends) else rows
    found = rows[at_least(rows[:, 2], context.confidence)]
    boxes = found[:, 3:] * np.array(context.size_wh * 2, np.float32)
    return Candidates.from_arrays(boxes, found[:, 2], found[:, 1] - context.options_or(_FIRST_CLASS).first_class)


def match_detection_output(signature: Signature) -> MatchScore:
    """Match one output (1, 1, n, 7)."""
    shapes = signature.shapes
    fits = len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][1] == 1 and shapes[0][3] == 7
    return MatchScore.certain_if(fits)


DETECTION_OUTPUT = Head(
    name="detection_output",
    family="DetectionOutput of Caffe and OpenVINO",
    outputs="(1, 1, n, 7): image, class, score, box as fractions",
    decode=decode_detection_output,
    match_score=match_detection_output,
    preprocessing={"fit": "stretch", "color": "bgr", "scale": (1.0,)},
    nms=NmsOptions(iou=1.0),
    options=FirstClassOptions,
)
