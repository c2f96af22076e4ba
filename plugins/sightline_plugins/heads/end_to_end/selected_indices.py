"""Models that end in ONNX's NonMaxSuppression: what it chose, with all boxes and scores beside it.

selected_indices (n, 3) or (1, n, 3) holds image, class and box of each choice, in whole numbers; boxes (1, boxes, 4)
and scores (1, classes, boxes) are what it chose from. Boxes are as the operator wants them, top, left, bottom, right
(any two opposite corners), unless `boxes` says otherwise (onnx/onnx, `docs/Operators.md`: NonMaxSuppression; so YOLOv3
of the ONNX model zoo). Models that gather what was chosen themselves are read by `end_to_end`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
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
from sightline_plugins.heads.outputs import shapes_text
from sightline_plugins.nms import NmsOptions


class SelectedIndicesOptions(HeadOptions):
    """Settings of the head `selected_indices`."""

    boxes: Literal["yxyx", "xyxy", "cxcywh"] = "yxyx"
    """The order of a box: two corners, or (`center_point_box: 1`) centre, width and height."""
    units: Literal["pixels", "shares"] = "pixels"
    """What boxes are measured in: pixels of the input, or shares of its size."""


_OPTIONS = SelectedIndicesOptions()


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: what was chosen, with at least that confidence."""
    options = options_of(context, _OPTIONS)
    indices, boxes, scores = _tables(outputs)
    indices = indices[(indices >= 0).all(axis=1) & (indices[:, 0] == 0)]
    classes, rows = indices[:, 1], indices[:, 2]
    if len(indices) and (classes.max() >= scores.shape[0] or rows.max() >= len(boxes)):
        raise ModelError(f"head selected_indices: indices point outside boxes and scores: {shapes_text(outputs)}")
    confidence = scores[classes, rows]
    sure = confidence >= context.confidence
    found = boxes[rows[sure]].astype(np.float32)
    if options.boxes == "cxcywh":
        found = xyxy_from_cxcywh(found)
    else:
        corners = found.reshape(-1, 2, 2)[..., :: -1 if options.boxes == "yxyx" else 1]
        found = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    if options.units == "shares":
        found = found * np.array(context.size_wh * 2, np.float32)
    return Candidates.from_arrays(found, confidence[sure], classes[sure])


def _tables(outputs: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Indices (n, 3), boxes (boxes, 4) and scores (classes, boxes)."""
    indices = [output for output in outputs if output.dtype.kind in "iu" and output.shape[-1] == 3]
    boxes = [output for output in outputs if output.dtype.kind == "f" and output.ndim > 1 and output.shape[-1] == 4]
    if len(boxes) == 2:  # four boxes, so that the scores have four columns, too
        boxes = [output for output in boxes if output.shape[-2] == 4][:1]
    others = [output for output in outputs if all(output is not taken for taken in (*indices, *boxes))]
    if len(outputs) != 3 or not len(indices) == len(boxes) == len(others) == 1:
        raise ModelError(
            "head selected_indices: indices (n, 3) in whole numbers, boxes (boxes, 4) and scores (classes, boxes) are "
            f"needed; the outputs are {shapes_text(outputs)}"
        )
    table = boxes[0].reshape(-1, 4)
    if others[0].size % max(len(table), 1):
        raise ModelError(f"head selected_indices: boxes and scores do not fit each other: {shapes_text(outputs)}")
    return indices[0].reshape(-1, 3), table, others[0].reshape(-1, len(table))


def match_score(signature: Signature) -> MatchScore:
    """Three outputs, one with rows of three whole numbers, one with boxes."""
    if len(signature.outputs) != 3:
        return MatchScore.NONE
    indices = [output for output in signature.outputs if is_indices(output.shape) and output.dtype.kind in "iu"]
    boxes = [shape for shape in signature.shapes if len(shape) == 3 and shape[2] == 4]
    return MatchScore.CERTAIN if len(indices) == 1 and boxes else MatchScore.NONE


def is_indices(shape: Shape) -> bool:
    """Whether a shape can be that of selected indices."""
    return len(shape) in (2, 3) and shape[-1] == 3


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The rows of the scores."""
    others = [shape for shape in shapes if not is_indices(shape) and len(shape) == 3 and shape[2] != 4]
    return others[0][1] if len(others) == 1 else None


HEAD = Head(
    name="selected_indices",
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    usual={"fit": "letterbox", "align": "center", "color": "rgb", "scale": (255.0,), "pad": (114,)},
    nms=NmsOptions(iou=1.0),
    options=SelectedIndicesOptions,
)
