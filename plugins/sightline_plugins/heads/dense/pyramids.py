"""Anchor-free heads over feature pyramids: `nanodet`, `nanodet_plus`, `picodet` and `fcos`.

The first three give each cell a score for every class, after the logistic function, and four distributions over
0, 1 .. reg_max as raw scores (generalized focal loss): the expected value of each, times the stride, is the distance
from the cell's point to left, top, right and bottom. Either all in one output, (1, cells, classes + 4 * (reg_max + 1)),
or scores and distributions of each level as separate outputs, (1, cells of the level, ...) or maps.

`nanodet`       strides 8, 16, 32; the point is the cell's middle (RangiLyu/nanodet, `nanodet/model/head/gfl_head.py`)
`nanodet_plus`  strides 8 to 64; the point is the cell's corner (the same, `nanodet_plus_head.py`)
`picodet`       strides 8 to 64; the middle (PaddlePaddle/PaddleDetection, `ppdet/modeling/heads/pico_head.py`),
                exported without post-processing
`fcos`          class scores, distances in pixels from the cell's middle and a centerness, on five levels (strides 8 to
                128): fifteen maps, (1, classes, rows, columns), (1, 4, rows, columns) and (1, 1, rows, columns), or
                (1, cells, classes), (1, cells, 4) and (1, cells, 1). The score is the square root of class score times
                centerness (tianzhi0549/FCOS, `fcos_core/modeling/rpn/fcos/inference.py`). torchvision's models
                (`models/detection/fcos.py`) need `units: strides, offset: 0`, MMDetection's (`fcos_head.py`)
                `score: product`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sightline.errors import ModelError
from sightline_plugins.heads.decoding import (
    PYRAMIDS,
    are_logits,
    boxes_from_distances,
    cells_of,
    check_count,
    count_cells,
    levels_of,
    named,
    rows_of,
    select_pairs,
    shapes_text,
    sigmoid,
    softmax,
    width_of,
)
from sightline_plugins.heads.head import (
    IMAGENET,
    TOP_LEFT,
    Array,
    Candidates,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    ScoreForm,
    Shape,
    Signature,
    Strides,
)
from sightline_plugins.nms.options import NmsOptions

_DEFAULT_REG_MAX = 7
_DEFAULT_SIDES = 4 * (_DEFAULT_REG_MAX + 1)
_COCO_WIDTH = 80 + _DEFAULT_SIDES
_THREE, _FOUR = PYRAMIDS


class DistributionOptions(HeadOptions):
    """Options of the heads `nanodet`, `nanodet_plus` and `picodet`."""

    strides: Strides = _THREE
    """Stride in pixels of the input, for each level."""
    offset: float = 0.5
    """Where in its cell the point lies that distances start from: 0.5 is the middle, 0 the upper left corner."""
    reg_max: Annotated[int, Field(ge=1)] | None = None
    """The longest distance in strides; by default derived from the number of labels, 7 without labels."""
    scores: ScoreForm = "auto"
    """Whether class scores are `probabilities` or `logits`."""

    @property
    def sides(self) -> int | None:
        """Number of values of a cell that are distances; None when the number of labels decides."""
        return None if self.reg_max is None else 4 * (self.reg_max + 1)


class NanoDetPlusOptions(DistributionOptions):
    """Options of the head `nanodet_plus`."""

    strides: Strides = _FOUR
    offset: float = 0.0


class PicoDetOptions(DistributionOptions):
    """Options of the head `picodet`."""

    strides: Strides = _FOUR


def decode_distributions(
    outputs: Sequence[Array], context: DecodeContext, *, head: str, default: DistributionOptions
) -> Candidates:
    """Return every cell and class that scores at least `context.confidence`."""
    options = context.options_or(default)
    scores, distributions = _scores_and_distributions(outputs, context, options)
    cells = cells_of(context.size_wh, options.strides)
    check_count(head, context.size_wh, expected=len(cells.stride), found=len(scores))
    logits = are_logits(scores, form=options.scores, op_type="" if len(outputs) == 1 else context.op_type(0))
    kept = select_pairs(scores, context.confidence, logits=logits)
    stride = cells.stride[kept.rows]
    points = (cells.corner[kept.rows] + np.float32(options.offset)) * stride
    shares = softmax(distributions[kept.rows].reshape(len(points), 4, distributions.shape[-1] // 4))
    distances = shares @ np.arange(shares.shape[2], dtype=np.float32)
    boxes = boxes_from_distances(points, distances * stride)
    return Candidates.from_arrays(boxes, kept.confidence, kept.class_id)


def _scores_and_distributions(
    outputs: Sequence[Array], context: DecodeContext, options: DistributionOptions
) -> tuple[Array, Array]:
    """Return scores (cells, classes) and distributions (cells, 4 * bins)."""
    if len(outputs) == 1:
        last = outputs[0].shape[-1]
        sides = options.sides or (last - len(context.labels) if context.labels else _DEFAULT_SIDES)
        rows = rows_of(outputs[0], last)
        return rows[:, :-sides], rows[:, -sides:]
    half = len(outputs) // 2
    widths = [int(width_of(output.shape) or 0) for output in outputs]
    sides = options.sides or _DEFAULT_SIDES
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


def match_table(signature: Signature, *, strides: tuple[int, ...]) -> MatchScore:
    """Match one table whose rows are the cells of these strides, with classes and distributions."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) != 3:
        return match_levels(signature, strides=strides) if strides == _THREE else MatchScore.NONE
    _, cells, values = signature.shapes[0]
    if values is None or cells != count_cells(signature.size_wh, strides):
        return MatchScore.NONE
    if signature.classes is not None:
        sides = values - signature.classes
        return MatchScore.certain_if(sides >= 8 and sides % 4 == 0)
    return MatchScore.certain_if(values == _COCO_WIDTH)


def match_levels(signature: Signature, *, strides: tuple[int, ...]) -> MatchScore:
    """Match scores and distances of each level as separate outputs."""
    levels, widths = len(strides), [width_of(shape) for shape in signature.shapes]
    fits = len(widths) == 2 * levels and widths.count(_DEFAULT_SIDES) in (levels, 2 * levels)
    return MatchScore.certain_if(fits)


def count_distribution_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the number of classes, where separate outputs hold the scores."""
    widths = {width_of(shape) for shape in shapes} - {_DEFAULT_SIDES}
    return next(iter(widths)) if len(shapes) > 1 and len(widths) == 1 else None


NANODET = Head(
    name="nanodet",
    family="NanoDet",
    outputs="(1, cells, classes + 32), or two outputs a level; three levels",
    decode=partial(decode_distributions, head="nanodet", default=DistributionOptions()),
    count_classes=count_distribution_classes,
    match_score=partial(match_table, strides=_THREE),
    preprocessing={"fit": "stretch", "color": "bgr", **{name: values[::-1] for name, values in IMAGENET.items()}},
    nms=NmsOptions(iou=0.6),
    options=DistributionOptions,
)
NANODET_PLUS = replace(
    NANODET,
    name="nanodet_plus",
    family="NanoDet-Plus",
    outputs="(1, cells, classes + 32); four levels",
    decode=partial(decode_distributions, head="nanodet_plus", default=NanoDetPlusOptions()),
    match_score=partial(match_table, strides=_FOUR),
    options=NanoDetPlusOptions,
)
PICODET = replace(
    NANODET,
    name="picodet",
    family="PicoDet without its post-processing",
    outputs="scores and distributions of four levels",
    decode=partial(decode_distributions, head="picodet", default=PicoDetOptions()),
    match_score=partial(match_levels, strides=_FOUR),
    preprocessing={"fit": "stretch", "color": "rgb", **IMAGENET},
    options=PicoDetOptions,
)


FCOS_STRIDES = (8, 16, 32, 64, 128)
_CAFFE_MEAN = (102.9801, 115.9465, 122.7717)


class FcosOptions(HeadOptions):
    """Options of the head `fcos`."""

    strides: Strides = FCOS_STRIDES
    """Stride in pixels of the input, for each level."""
    offset: float = 0.5
    """Where in its cell the point lies that distances start from: 0.5 is the middle, 0 the upper left corner."""
    units: Literal["pixels", "strides"] = "pixels"
    """Unit of the distances."""
    score: Literal["root", "product"] = "root"
    """How class score and centerness are combined: their product, or its square root."""
    scores: ScoreForm = "auto"
    """Whether class scores and centerness are `probabilities` or `logits`."""


_FCOS = FcosOptions()


def decode_fcos(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every cell and class whose score is at least `context.confidence`."""
    options = context.options_or(_FCOS)
    classes, boxes, centres = _places(outputs, context)
    cells = cells_of(context.size_wh, options.strides)
    scores = levels_of([outputs[place] for place in classes], int(width_of(outputs[classes[0]].shape) or 0))
    check_count("fcos", context.size_wh, expected=len(cells.stride), found=len(scores))
    logits = are_logits(scores, form=options.scores, op_type=context.op_type(classes[0]))
    root = options.score == "root"
    least = context.confidence**2 if root else context.confidence
    likely = select_pairs(scores, least, logits=logits)
    centerness = levels_of([outputs[place] for place in centres], 1)[likely.rows, 0]
    score = likely.confidence * (sigmoid(centerness) if logits else centerness)
    score = np.sqrt(np.maximum(score, 0)) if root else score
    kept = score >= context.confidence
    rows = likely.rows[kept]
    stride = cells.stride[rows]
    distances = levels_of([outputs[place] for place in boxes], 4)[rows]
    points = (cells.corner[rows] + np.float32(options.offset)) * stride
    found = boxes_from_distances(points, distances * stride if options.units == "strides" else distances)
    return Candidates.from_arrays(found, score[kept], likely.class_id[kept])


def _places(outputs: Sequence[Array], context: DecodeContext) -> tuple[list[int], list[int], list[int]]:
    """Return the places of class scores, distances and centerness."""
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


def match_fcos(signature: Signature) -> MatchScore:
    """Match distances, centerness and classes of five levels as maps, or three tables with a row for each cell."""
    shapes = signature.shapes
    widths = [width_of(shape) for shape in shapes]
    if len(shapes) == 3 * len(FCOS_STRIDES) and all(len(shape) == 4 for shape in shapes):
        fits = widths.count(4) >= len(FCOS_STRIDES) and widths.count(1) >= len(FCOS_STRIDES)
        return MatchScore.certain_if(fits)
    if len(shapes) != 3 or any(len(shape) != 3 for shape in shapes) or not {4, 1} <= set(widths):
        return MatchScore.NONE
    cells = count_cells(signature.size_wh, FCOS_STRIDES)
    return MatchScore.certain_if(cells > 0 and all(shape[1] == cells for shape in shapes))


def count_fcos_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the number of classes that the widths of the outputs tell."""
    others = {width_of(shape) for shape in shapes} - {1, 4}
    return others.pop() if len(others) == 1 else None


FCOS = Head(
    name="fcos",
    family="FCOS",
    outputs="classes, distances and centerness: maps of five levels, or put together",
    decode=decode_fcos,
    count_classes=count_fcos_classes,
    match_score=match_fcos,
    preprocessing={**TOP_LEFT, "color": "bgr", "mean": _CAFFE_MEAN, "scale": (1.0,), "pad": (103, 116, 123)},
    nms=NmsOptions(iou=0.6),
    options=FcosOptions,
)
