"""YOLOv3, v4, v5 and v7 exported without decoding: a raw map for each stride, in any order.

Maps are (1, anchors * (5 + classes), rows, columns) or (1, anchors, rows, columns, 5 + classes), also with the channels
last. Values are x, y, width, height, objectness and classes, logits or logistic already; the score is objectness times
class. The stride is told by the size of the map. v3 and v4 make sizes by exp, v5 and v7 by a squared logistic; see
`published.py` for the sources.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.head import (
    Array,
    Candidates,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    ScoreForm,
    Shape,
    Signature,
    options_of,
)
from sightline_plugins.heads.outputs import op_type_of
from sightline_plugins.heads.thresholding import are_fractions, are_probabilities, exponential, logit, sigmoid
from sightline_plugins.heads.yolo.layout import ANCHORS, USUAL, Floats, Map, grid_axis, maps_of
from sightline_plugins.heads.yolo.published import PUBLISHED, VERSIONS, Anchors, Version
from sightline_plugins.nms import NmsOptions


class AnchorOptions(HeadOptions):
    """Settings of `yolo_anchors`."""

    version: Version | None = None
    """Whose formula and anchors: the shapes do not tell it, so it has to be given."""
    anchors: Anchors | None = None
    """Widths and heights by turns in pixels of the network's input, a list for each stride, the finest first; the
    published ones of the version when not given."""
    scale_xy: tuple[float, ...] | None = None
    """How far centres may leave their cells (`scale_x_y` of Darknet), for each stride; the version's when not given."""
    scores: ScoreForm = "auto"
    """Whether objectness and classes are logits, or went through the logistic function already."""
    boxes: ScoreForm = "auto"
    """The same of x and y (and of width and height, where the version's formula has them logistic)."""

    @model_validator(mode="after")
    def _version_given(self) -> AnchorOptions:
        if self.version is None:
            known = ", ".join(VERSIONS)
            raise PydanticCustomError(
                "version_missing", f"set version, which the outputs do not tell, to one of {known}"
            )
        return self


USUAL_OPTIONS = AnchorOptions(version="yolov5")


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every box whose best class times objectness is at least `reading.confidence`."""
    options = options_of(context, USUAL_OPTIONS)
    levels = [_level(*level, options, context) for level in levels_of(outputs, context)]
    boxes, scores, classes = (np.concatenate(column) for column in zip(*levels, strict=True))
    return Candidates.from_arrays(boxes, scores, classes)


def levels_of(outputs: Sequence[Array], context: DecodeContext) -> list[tuple[Map, Floats, float]]:
    """The maps, the finest first, each with its anchors (n, 2) and with how far centres may leave their cells."""
    options = options_of(context, USUAL_OPTIONS)
    assert options.version is not None
    published = PUBLISHED[options.version]
    anchors, scales = options.anchors or published.anchors, options.scale_xy or published.scale_xy
    maps = maps_of(outputs, context.size_wh, "yolo_anchors")
    if not len(maps) == len(anchors) == len(scales):
        raise ModelError(
            f"head yolo_anchors: the model gives {len(maps)} maps, version {options.version} has anchors for "
            f"{len(anchors)} strides and scale_xy for {len(scales)}: set version, anchors and scale_xy as the model's"
        )
    return [
        (entry, np.array(sizes, np.float32).reshape(-1, 2), scale)
        for entry, sizes, scale in zip(maps, anchors, scales, strict=True)
    ]


def _level(
    entry: Map, anchors: Floats, scale: float, options: AnchorOptions, context: DecodeContext
) -> tuple[Floats, Floats, Array]:
    """Boxes, scores and classes of one map."""
    assert options.version is not None
    squared = PUBLISHED[options.version].squared
    values = by_anchor(entry, len(anchors))
    op_type = op_type_of(context, entry.place)
    ready = _is_ready(values[:, 4], options.scores, op_type)
    limit = context.confidence if ready else logit(context.confidence)
    anchor, row, column = np.nonzero(values[:, 4] >= limit)
    found = values[anchor, :, row, column].astype(np.float32)
    class_id = found[:, 5:].argmax(axis=1)
    chances = np.stack([found[:, 4], found[:, 5:].max(axis=1, initial=-np.inf)])
    score = np.prod(chances if ready else sigmoid(chances), axis=0)
    sure = score >= context.confidence
    found, cell = found[sure], np.stack([column[sure], row[sure]], axis=1)
    logistic = 4 if squared else 2
    if len(found) and not _is_ready(values[:, :logistic], options.boxes, op_type):
        found[:, :logistic] = sigmoid(found[:, :logistic])
    centre = (found[:, :2] * scale - (scale - 1) / 2 + cell) * entry.stride
    with np.errstate(over="ignore"):
        size = (np.square(2 * found[:, 2:4]) if squared else exponential(found[:, 2:4])) * anchors[anchor[sure]]
    boxes = xyxy_from_cxcywh(np.concatenate([centre, size], axis=1).astype(np.float32))
    return boxes, score[sure], class_id[sure]


def _is_ready(values: Array, form: ScoreForm, op_type: str) -> bool:
    return (
        are_probabilities(values, op_type=op_type, looks_like=are_fractions)
        if form == "auto"
        else form == "probabilities"
    )


def by_anchor(entry: Map, anchors: int) -> Array:
    """The map as (anchors, values, rows, columns)."""
    values = entry.values
    if values.ndim == 3 and values.shape[0] % anchors == 0:
        values = values.reshape(anchors, -1, *values.shape[1:])
    if values.ndim == 4 and values.shape[0] == anchors and values.shape[1] > 5:
        return values
    raise ModelError(
        f"head yolo_anchors: a map of {' x '.join(map(str, entry.values.shape))} does not hold box, objectness and "
        f"classes for {anchors} anchors: set head_options: {{anchors: ...}} as the model's"
    )


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The number of classes that the shapes tell: the channels are the size that all maps share."""
    if len(shapes[0]) == 5:
        return None if shapes[0][4] is None else shapes[0][4] - 5
    shared = [sizes[0] for sizes in zip(*shapes, strict=False) if len(set(sizes)) == 1 and sizes[0] not in (None, 1)]
    return shared[0] // ANCHORS - 5 if len(shapes) > 1 and len(shared) == 1 and shared[0] is not None else None


def match_score(signature: Signature) -> MatchScore:
    """Maps of different strides that all have the same values for each of three boxes a cell."""
    grids = [grid_axis(shape, signature.size_wh) for shape in signature.shapes]
    strides = {grid[1] for grid in grids if grid is not None}
    if len(grids) < 2 or len(strides) != len(grids):
        return MatchScore.NONE
    values = {_values_of(shape, grid[0]) for shape, grid in zip(signature.shapes, grids, strict=True) if grid}
    each = values.pop()
    if values or each is None or each <= 5 or signature.classes not in (None, each - 5):
        return MatchScore.NONE
    is_told = signature.classes is not None or all(len(shape) == 5 for shape in signature.shapes)
    return MatchScore.CERTAIN if is_told else MatchScore.POSSIBLE


def _values_of(shape: Shape, axis: int) -> int | None:
    """How many values a box has; None when the map does not hold three boxes a cell."""
    if len(shape) == 5:
        return shape[4] if shape[1 if axis == 2 else 3] == ANCHORS else None
    channels = shape[1 if axis == 2 else 3]
    return channels // ANCHORS if channels and channels % ANCHORS == 0 else None


HEAD = Head(
    name="yolo_anchors",
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(4, 5),
    usual=USUAL,
    nms=NmsOptions(iou=0.45),
    options=AnchorOptions,
)
