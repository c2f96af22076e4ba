"""Distances as distributions (generalised focal loss): NanoDet, NanoDet-Plus, PicoDet.

Each cell has a score for every class, logistic already, and four distributions over 0, 1 .. reg_max, given as raw
scores: the expected value of each, times the stride, is the distance from the cell's point to left, top, right and
bottom. Either all in one, (1, cells, classes + 4 * (reg_max + 1)), or scores and distributions of each level as outputs
of their own, (1, cells of the level, ...) or maps.

`nanodet`       strides 8, 16, 32; the point is the cell's middle (RangiLyu/nanodet, `nanodet/model/head/gfl_head.py`)
`nanodet_plus`  strides 8 to 64; the point is the cell's corner (the same, `nanodet_plus_head.py`)
`picodet`       strides 8 to 64; the middle (PaddlePaddle/PaddleDetection, `ppdet/modeling/heads/pico_head.py`),
                exported without post-processing
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from sightline.errors import ModelError
from sightline_plugins.heads.head import (
    Array,
    Candidates,
    Decode,
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
    op_type_of,
    rows_of,
    shapes_text,
    width_of,
)
from sightline_plugins.heads.thresholding import are_logits, select_pairs, softmax
from sightline_plugins.nms import NmsOptions

_USUAL_REG_MAX = 7
_COCO_WIDTH = 80 + 4 * (_USUAL_REG_MAX + 1)
_THREE, _FOUR = (8, 16, 32), (8, 16, 32, 64)


class DistributionOptions(HeadOptions):
    """Settings of the heads `nanodet`, `nanodet_plus` and `picodet`."""

    strides: tuple[Annotated[int, Field(ge=1)], ...] = _THREE
    """Pixels of the input from cell to cell, for each level."""
    offset: float = 0.5
    """Where in its cell the point lies that distances start from: 0.5 is the middle, 0 the upper left corner."""
    reg_max: Annotated[int, Field(ge=1)] | None = None
    """The longest distance in strides; told from the number of labels when not given, without labels 7."""
    scores: ScoreForm = "auto"
    """Whether class scores are `probabilities` or `logits`."""


class NanoDetPlusOptions(DistributionOptions):
    """Settings of the head `nanodet_plus`."""

    strides: tuple[Annotated[int, Field(ge=1)], ...] = _FOUR
    offset: float = 0.0


class PicoDetOptions(DistributionOptions):
    """Settings of the head `picodet`."""

    strides: tuple[Annotated[int, Field(ge=1)], ...] = _FOUR


def decoder(head: str, usual: DistributionOptions) -> Decode[Candidates]:
    """How a head of this family reads its outputs, with the family's usual settings."""

    def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
        options = options_of(context, usual)
        scores, distributions = _tables(outputs, context, options)
        cells = cells_of(context.size_wh, options.strides)
        check_count(head, context.size_wh, expected=len(cells.stride), found=len(scores))
        logits = are_logits(scores, form=options.scores, op_type="" if len(outputs) == 1 else op_type_of(context, 0))
        sure = select_pairs(scores, context.confidence, logits=logits)
        stride = cells.stride[sure.rows]
        points = (cells.corner[sure.rows] + np.float32(options.offset)) * stride
        boxes = boxes_from_distances(points, expected_distances(distributions[sure.rows]) * stride)
        return Candidates.from_arrays(boxes, sure.confidence, sure.class_id)

    return decode


def expected_distances(distributions: Array) -> Array:
    """Expected values (N, 4) of four distributions of raw scores (N, 4 * bins) over 0 .. bins - 1."""
    shares = softmax(distributions.reshape(len(distributions), 4, -1))
    return shares @ np.arange(shares.shape[2], dtype=np.float32)


def _tables(outputs: Sequence[Array], context: DecodeContext, options: DistributionOptions) -> tuple[Array, Array]:
    """Scores (cells, classes) and distributions (cells, 4 * bins)."""
    if len(outputs) == 1:
        last = outputs[0].shape[-1]
        sides = _sides(last, options, classes=len(context.labels))
        rows = rows_of(outputs[0], last)
        return rows[:, :-sides], rows[:, -sides:]
    half = len(outputs) // 2
    widths = [int(width_of(output.shape) or 0) for output in outputs]
    sides = 4 * ((_USUAL_REG_MAX if options.reg_max is None else options.reg_max) + 1)
    wide = [place for place, width in enumerate(widths) if width == sides]
    if len(wide) == len(outputs):
        wide = wide[half:]
    if len(wide) != half or len(outputs) % 2:
        raise ModelError(
            f"each level needs scores and distances of {sides} values; the outputs are {shapes_text(outputs)}: set "
            "reg_max in head_options, or another head"
        )
    others = [place for place in range(len(outputs)) if place not in wide]
    scores = levels_of([outputs[place] for place in others], widths[others[0]])
    return scores, levels_of([outputs[place] for place in wide], sides)


def _sides(values: int, options: DistributionOptions, *, classes: int) -> int:
    """How many of the values of a cell are distances."""
    if options.reg_max is not None:
        return 4 * (options.reg_max + 1)
    return values - classes if classes else 4 * (_USUAL_REG_MAX + 1)


def in_one_likeness(strides: tuple[int, ...]) -> Callable[[Signature], MatchScore]:
    """One table whose rows are the cells of these strides, each with classes and four distributions."""

    def match_score(signature: Signature) -> MatchScore:
        if len(signature.outputs) != 1 or len(signature.shapes[0]) != 3:
            return _pairs_likeness(signature, strides) if strides == _THREE else MatchScore.NONE
        _, cells, values = signature.shapes[0]
        if values is None or cells != count_cells(signature.size_wh, strides):
            return MatchScore.NONE
        if signature.classes is not None:
            sides = values - signature.classes
            return MatchScore.CERTAIN if sides >= 8 and sides % 4 == 0 else MatchScore.NONE
        return MatchScore.CERTAIN if values == _COCO_WIDTH else MatchScore.NONE

    return match_score


def picodet_likeness(signature: Signature) -> MatchScore:
    """Scores and distances of four levels as outputs of their own."""
    return _pairs_likeness(signature, _FOUR)


def _pairs_likeness(signature: Signature, strides: tuple[int, ...]) -> MatchScore:
    if len(signature.outputs) != 2 * len(strides):
        return MatchScore.NONE
    widths = [width_of(shape) for shape in signature.shapes]
    distances = 4 * (_USUAL_REG_MAX + 1)
    return MatchScore.CERTAIN if widths.count(distances) in (len(strides), 2 * len(strides)) else MatchScore.NONE


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The number of classes, where outputs of their own hold the scores."""
    widths = {width_of(shape) for shape in shapes} - {4 * (_USUAL_REG_MAX + 1)}
    return next(iter(widths)) if len(shapes) > 1 and len(widths) == 1 else None


_USUAL = {
    "fit": "stretch",
    "color": "bgr",
    "mean": (103.53, 116.28, 123.675),
    "scale": (57.375, 57.12, 58.395),
}
_NMS = NmsOptions(iou=0.6)

NANODET = Head(
    name="nanodet",
    decode=decoder("nanodet", DistributionOptions()),
    count_classes=count_classes,
    match_score=in_one_likeness(_THREE),
    usual=_USUAL,
    nms=_NMS,
    options=DistributionOptions,
)
NANODET_PLUS = Head(
    name="nanodet_plus",
    decode=decoder("nanodet_plus", NanoDetPlusOptions()),
    count_classes=count_classes,
    match_score=in_one_likeness(_FOUR),
    usual=_USUAL,
    nms=_NMS,
    options=NanoDetPlusOptions,
)
PICODET = Head(
    name="picodet",
    decode=decoder("picodet", PicoDetOptions()),
    count_classes=count_classes,
    match_score=picodet_likeness,
    usual={
        "fit": "stretch",
        "color": "rgb",
        "mean": (123.675, 116.28, 103.53),
        "scale": (58.395, 57.12, 57.375),
    },
    nms=_NMS,
    options=PicoDetOptions,
)
