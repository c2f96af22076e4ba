"""FCOS: each cell gives distances to the four sides, a score for every class and a centerness.

Outputs of five levels (strides 8 to 128) as maps, (1, classes, rows, columns), (1, 4, rows, columns) and (1, 1, rows,
columns), fifteen in all, or put together as (1, cells, classes), (1, cells, 4), (1, cells, 1). Distances start from the
cell's middle and are in pixels; the score is the root of class score times centerness (tianzhi0549/FCOS,
`fcos_core/modeling/rpn/fcos/inference.py`). Other trainings differ in details: torchvision's
(`models/detection/fcos.py`) wants `units: strides` and `offset: 0`, MMDetection's (`fcos_head.py`) `score: product`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

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
    ScoreForm,
    Shape,
    Signature,
    options_of,
)
from sightline_plugins.heads.outputs import (
    boxes_from_distances,
    cells_of,
    check_count,
    count_cells,
    levels_of,
    named,
    op_type_of,
    shapes_text,
    width_of,
)
from sightline_plugins.heads.thresholding import are_logits, select_pairs, sigmoid
from sightline_plugins.nms import NmsOptions

STRIDES = (8, 16, 32, 64, 128)


class FcosOptions(HeadOptions):
    """Settings of the head `fcos`."""

    strides: tuple[Annotated[int, Field(ge=1)], ...] = STRIDES
    """Pixels of the input from cell to cell, for each level."""
    offset: float = 0.5
    """Where in its cell the point lies that distances start from: 0.5 is the middle, 0 the upper left corner."""
    units: Literal["pixels", "strides"] = "pixels"
    """What distances are measured in."""
    score: Literal["root", "product"] = "root"
    """How class score and centerness become one: their product, or its square root."""
    scores: ScoreForm = "auto"
    """Whether class scores and centerness are `probabilities` or `logits`."""


_OPTIONS = FcosOptions()


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every cell and class whose score is at least `reading.confidence`."""
    options = options_of(context, _OPTIONS)
    classes, boxes, centres = _places(outputs, context)
    cells = cells_of(context.size_wh, options.strides)
    scores = levels_of([outputs[place] for place in classes], _width(outputs, classes))
    check_count("fcos", context.size_wh, expected=len(cells.stride), found=len(scores))
    logits = are_logits(scores, form=options.scores, op_type=op_type_of(context, classes[0]))
    root = options.score == "root"
    least = context.confidence**2 if root else context.confidence
    likely = select_pairs(scores, least, logits=logits)
    centerness = levels_of([outputs[place] for place in centres], 1)[likely.rows, 0]
    score = likely.confidence * (sigmoid(centerness) if logits else centerness)
    score = np.sqrt(np.maximum(score, 0)) if root else score
    sure = score >= context.confidence
    rows = likely.rows[sure]
    stride = cells.stride[rows]
    distances = levels_of([outputs[place] for place in boxes], 4)[rows]
    points = (cells.corner[rows] + np.float32(options.offset)) * stride
    found = boxes_from_distances(points, distances * stride if options.units == "strides" else distances)
    return Candidates.from_arrays(found, score[sure], likely.class_id[sure])


def _places(outputs: Sequence[Array], context: DecodeContext) -> tuple[list[int], list[int], list[int]]:
    """The places of class scores, distances and centerness."""
    count = len(outputs) // 3
    widths = [width_of(output.shape) for output in outputs]
    boxes = [place for place, width in enumerate(widths) if width == 4]
    if len(boxes) == 2 * count:
        boxes = named(outputs, context, "box", "reg", "loc") or boxes[count:]
    centres = [place for place, width in enumerate(widths) if width == 1]
    if len(centres) == 2 * count:
        centres = named(outputs, context, "cent", "ctr") or centres[count:]
    classes = [place for place in range(len(outputs)) if place not in boxes and place not in centres]
    if not count or not len(boxes) == len(centres) == len(classes) == count:
        raise ModelError(
            "head fcos: each level needs class scores, four distances and a centerness; the outputs are "
            f"{shapes_text(outputs)}"
        )
    return classes, boxes, centres


def _width(outputs: Sequence[Array], places: Sequence[int]) -> int:
    return int(width_of(outputs[places[0]].shape) or 0)


def match_score(signature: Signature) -> MatchScore:
    """Distances, centerness and classes of five levels as maps, or three tables with a row for each cell."""
    shapes = signature.shapes
    widths = [width_of(shape) for shape in shapes]
    if len(shapes) == 3 * len(STRIDES) and all(len(shape) == 4 for shape in shapes):
        fits = widths.count(4) >= len(STRIDES) and widths.count(1) >= len(STRIDES)
        return MatchScore.CERTAIN if fits else MatchScore.NONE
    if len(shapes) != 3 or any(len(shape) != 3 for shape in shapes) or not {4, 1} <= set(widths):
        return MatchScore.NONE
    cells = count_cells(signature.size_wh, STRIDES)
    return MatchScore.CERTAIN if cells and all(shape[1] == cells for shape in shapes) else MatchScore.NONE


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The number of classes that the widths of the outputs tell."""
    others = {width_of(shape) for shape in shapes} - {1, 4}
    return others.pop() if len(others) == 1 else None


HEAD = Head(
    name="fcos",
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    usual={
        "fit": "letterbox",
        "align": "top_left",
        "color": "bgr",
        "mean": (102.9801, 115.9465, 122.7717),
        "scale": (1.0,),
        "pad": (103, 116, 123),
    },
    nms=NmsOptions(iou=0.6),
    options=FcosOptions,
)
