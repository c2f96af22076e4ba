"""Models that choose their boxes themselves: nothing is left but to read them.

`end_to_end`             rows of x1, y1, x2, y2, score, class: (n, 6) or (1, n, 6), as YOLOv10 gives them;
                         rows of image, x1, y1, x2, y2, class, score: (n, 7), as YOLOv7's export gives them; or boxes,
                         scores and labels as outputs of their own (models that gather what NonMaxSuppression chose,
                         TensorRT's EfficientNMS with its count): labels are the ones of integer type, else those whose
                         name says so, else the last; without labels all are of one class
`end_to_end_normalized`  the same with boxes as shares of the network's input
`detr_deployed`          labels, boxes and scores, by these names, as deployed RT-DETR, D-FINE and DEIM give them; the
                         image is stretched (lyuwenyu/RT-DETR, `rtdetr_pytorch/tools/export_onnx.py`)

Rows of padding (score 0, or past the given count) fall to the confidence limit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.end_to_end.object_detection_api import is_like as is_detection_api
from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Signature
from sightline_plugins.heads.outputs import named, shapes_text
from sightline_plugins.heads.yolo.layout import PYRAMIDS, count_cells
from sightline_plugins.heads.yolo.nas import FLAT
from sightline_plugins.nms import NmsOptions


def decode_pixels(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image with at least that confidence; boxes are in pixels already."""
    boxes, scores, labels = _rows(outputs[0]) if len(outputs) == 1 else _columns(outputs, context)
    sure = np.flatnonzero(scores >= max(context.confidence, np.finfo(np.float32).tiny))
    return Candidates.from_arrays(boxes[sure], scores[sure], labels[sure])


def decode_shares(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """As `decode_pixels`, of boxes that are shares of the network's input."""
    found = decode_pixels(outputs, context)
    return Candidates(found.xyxy * np.array(context.size_wh * 2, np.float32), found.confidence, found.class_id)


def _rows(output: Array) -> tuple[Array, Array, Array]:
    rows = output.reshape(-1, output.shape[-1])
    if rows.shape[1] == 7:
        return rows[:, 1:5], rows[:, 6], rows[:, 5]
    if rows.shape[1] != 6:
        raise ModelError(f"head end_to_end: rows of 6 or 7 values are needed; the output is {output.shape}")
    return rows[:, :4], rows[:, 4], rows[:, 5]


def _columns(outputs: Sequence[Array], context: DecodeContext) -> tuple[Array, Array, Array]:
    """Boxes, scores and labels from outputs of their own."""
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
    """Which output is the count: by its name, else the first that holds one number."""
    called = [place for place in named(outputs, context, "num", "count") if place in others]
    single = [place for place in (*called, *others) if outputs[place].size == 1]
    return single[0] if single else others[0]


def match_score(signature: Signature) -> MatchScore:
    """Rows of 6 or 7 values that are no boxes of cells, or boxes with columns of their own beside them."""
    shapes = signature.shapes
    if len(shapes) in (2, 3, 4):
        return _match_columns(signature)
    if len(shapes) != 1:
        return MatchScore.NONE
    shape = shapes[0]
    if FLAT in signature.outputs[0].name:
        return MatchScore.NONE
    if len(shape) == 2:
        return MatchScore.CERTAIN if shape[1] in (6, 7) else MatchScore.NONE
    if len(shape) != 3 or shape[2] not in (6, 7):
        return MatchScore.NONE
    if shape[1] is None or shape[2] == 7:
        return MatchScore.CERTAIN if shape[2] == 6 and signature.classes != 1 else MatchScore.POSSIBLE
    cells = [count_cells(signature.size_wh, strides) for strides in PYRAMIDS]
    return MatchScore.NONE if shape[1] in cells or shape[1] in [3 * count for count in cells] else MatchScore.CERTAIN


def _match_columns(signature: Signature) -> MatchScore:
    """Boxes, and beside them nothing but columns: (1, n), (n,) or (1, n, 1)."""
    boxes = [shape for shape in signature.shapes if len(shape) in (2, 3) and shape[-1] == 4]
    columns = [shape for shape in signature.shapes if len(shape) in (1, 2) or (len(shape) == 3 and shape[2] == 1)]
    others = [shape for shape in columns if shape not in boxes]
    if len(boxes) != 1 or len(others) != len(signature.shapes) - 1 or any(shape[-1] in (3, 6) for shape in others):
        return MatchScore.NONE
    known = is_detection_api(signature) or match_deployed(signature) is MatchScore.CERTAIN
    return MatchScore.NONE if known else MatchScore.CERTAIN


def match_deployed(signature: Signature) -> MatchScore:
    """Labels in whole numbers, boxes and scores, by these names in this order."""
    outputs = signature.outputs
    if [output.name for output in outputs] != ["labels", "boxes", "scores"] or outputs[0].dtype.kind not in "iu":
        return MatchScore.NONE
    return MatchScore.CERTAIN if len(outputs[1].shape) == 3 and outputs[1].shape[2] == 4 else MatchScore.NONE


_USUAL = {"fit": "letterbox", "align": "center", "color": "rgb", "scale": (255.0,), "pad": (114,)}

END_TO_END = Head(
    name="end_to_end",
    decode=decode_pixels,
    match_score=match_score,
    usual=_USUAL,
    nms=NmsOptions(iou=1.0),
)
NORMALIZED = Head(
    name="end_to_end_normalized",
    decode=decode_shares,
    usual=_USUAL,
    nms=NmsOptions(iou=1.0),
)
DETR_DEPLOYED = Head(
    name="detr_deployed",
    decode=decode_pixels,
    match_score=match_deployed,
    usual={"fit": "stretch", "color": "rgb", "scale": (255.0,)},
    nms=NmsOptions(iou=1.0),
)
