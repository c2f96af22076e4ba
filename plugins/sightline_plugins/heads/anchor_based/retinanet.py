"""RetinaNet: per-class logistic scores and offsets from anchors on five levels (strides 8 to 128).

Maps of each level, (1, anchors * classes, rows, columns) and (1, anchors * 4, rows, columns), ten in all, or joined as
(1, boxes, classes) and (1, boxes, 4), in either order. By default nine anchors a cell: sizes of four strides, times 1,
2^(1/3) and 2^(2/3), in ratios 0.5, 1 and 2 (T. Lin et al., "Focal Loss for Dense Object Detection", 2017;
open-mmlab/mmdetection, `anchor_generator.py` and `delta_xywh_bbox_coder.py`). Options for other training code:

torchvision           `rounded: true`; its labels begin with the background
Detectron2            `scale_first: true`
NVIDIA ODTK           `scale_first: true, offset: 0.5`
keras-retinanet       `offset: 0.5, deltas: corners, deviations: [0.2, 0.2, 0.2, 0.2]`
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.errors import ModelError
from sightline_plugins.heads.decoding import (
    Floats,
    anchor_boxes,
    are_logits,
    boxes_from_offsets,
    check_count,
    count_cells,
    is_dense_pair,
    levels_of,
    named,
    select_pairs,
    shapes_text,
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
    SizeWh,
    Strides,
)
from sightline_plugins.nms.options import NmsOptions

Positive = Annotated[float, Field(gt=0)]


class RetinaNetOptions(HeadOptions):
    """Options of the head `retinanet`."""

    strides: Strides = (8, 16, 32, 64, 128)
    """Stride in pixels of the input, for each level."""
    sizes: tuple[Positive, ...] | None = None
    """Side of the anchor of scale 1 in pixels of the input, for each level; four strides when not given."""
    scales: tuple[Positive, ...] = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
    """Scales of the anchors in each cell."""
    ratios: tuple[Positive, ...] = (0.5, 1.0, 2.0)
    """Height over width of the anchors in each cell."""
    offset: float = 0.0
    """Where in its cell the anchors' middle lies: 0 is the upper left corner, 0.5 the middle."""
    scale_first: bool = False
    """Whether anchors are ordered scale by scale (each in all ratios), not ratio by ratio."""
    rounded: bool = False
    """Whether anchors have whole pixels, as torchvision's."""
    deltas: Literal["size", "corners"] = "size"
    """Whether offsets are of centre and size, or of the four sides in fractions of the anchor's size."""
    deviations: tuple[Positive, Positive, Positive, Positive] = (1.0, 1.0, 1.0, 1.0)
    """Factors of the offsets."""
    scores: ScoreForm = "auto"
    """Whether class scores are `probabilities` or `logits`."""

    @model_validator(mode="after")
    def _check_sizes(self) -> RetinaNetOptions:
        if self.sizes is not None and len(self.sizes) != len(self.strides):
            raise ValueError(f"one of sizes for each of {len(self.strides)} strides is needed")
        return self

    @property
    def each(self) -> int:
        """Number of anchors in a cell."""
        return len(self.scales) * len(self.ratios)


_DEFAULTS = RetinaNetOptions()
_LEVELS = len(_DEFAULTS.strides)


@lru_cache(maxsize=16)
def _anchors(options: RetinaNetOptions, size_wh: SizeWh) -> Floats:
    sizes = options.sizes or tuple(4.0 * stride for stride in options.strides)
    shapes = (_anchor_sizes(options, size) for size in sizes)
    return anchor_boxes(size_wh, options.strides, shapes, offset=options.offset)


def _anchor_sizes(options: RetinaNetOptions, size: float) -> npt.NDArray[np.float64]:
    """Return widths and heights (each, 2) of the anchors in a cell."""
    sides = [int(size * scale) if options.rounded else size * scale for scale in options.scales]
    if options.scale_first:
        pairs = [(side, ratio) for side in sides for ratio in options.ratios]
    else:
        pairs = [(side, ratio) for ratio in options.ratios for side in sides]
    half = np.array([(side / ratio**0.5, side * ratio**0.5) for side, ratio in pairs]) / 2
    return 2 * (np.round(half) if options.rounded else half)


def decode_retinanet(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every anchor and class that scores at least `context.confidence`."""
    options = context.options_or(_DEFAULTS)
    scores, deltas, first = _tables(outputs, context, each=options.each)
    anchors = _anchors(options, context.size_wh)
    check_count("retinanet", context.size_wh, expected=len(anchors), found=len(scores))
    logits = are_logits(scores, form=options.scores, op_type=context.op_type(first))
    kept = select_pairs(scores, context.confidence, logits=logits)
    chosen = deltas[kept.rows] * np.array(options.deviations, np.float32)
    around = anchors[kept.rows]
    if options.deltas == "size":
        found = boxes_from_offsets(chosen, around, variances=(1.0, 1.0))
    else:
        half = around[:, 2:] / 2
        sides = np.concatenate([around[:, :2] - half, around[:, :2] + half], axis=1)
        found = sides + chosen * np.tile(around[:, 2:], 2)
    return Candidates.from_arrays(found, kept.confidence, kept.class_id)


def _tables(outputs: Sequence[Array], context: DecodeContext, *, each: int) -> tuple[Array, Array, int]:
    """Return scores (boxes, classes), offsets (boxes, 4), and the place of the first output with scores."""
    half = len(outputs) // 2
    per_cell = each if all(output.ndim == 4 for output in outputs) else 1
    widths = [int(width_of(output.shape) or 0) for output in outputs]
    boxes = [place for place, width in enumerate(widths) if width == 4 * per_cell]
    if len(boxes) == len(outputs):
        boxes = named(outputs, context, "box", "reg", "loc") or boxes[half:]
    scores = [place for place in range(len(outputs)) if place not in boxes]
    if not half or len(boxes) != half or len(scores) != half or widths[scores[0]] % per_cell:
        raise ModelError(
            f"head retinanet: each level needs scores and offsets of {each} anchors a cell; the outputs are "
            f"{shapes_text(outputs)}: set scales and ratios in head_options"
        )
    every = levels_of([outputs[place] for place in scores], widths[scores[0]] // per_cell)
    return every, levels_of([outputs[place] for place in boxes], 4), scores[0]


def match_retinanet(signature: Signature) -> MatchScore:
    """Match five pairs of maps with nine boxes a cell, or two tables with nine rows for each cell."""
    shapes, each = signature.shapes, _DEFAULTS.each
    if len(shapes) == 2 * _LEVELS and all(len(shape) == 4 for shape in shapes):
        boxes = sum(shape[1] == 4 * each for shape in shapes)
        return MatchScore.certain_if(boxes in (_LEVELS, 2 * _LEVELS))
    if not is_dense_pair(signature) or not all(signature.size_wh):
        return MatchScore.NONE
    return MatchScore.certain_if(shapes[0][1] == count_cells(signature.size_wh, _DEFAULTS.strides) * each)


def count_retinanet_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the columns of the scores, where they are one table."""
    others = [shape[-1] for shape in shapes if len(shape) == 3 and shape[-1] != 4]
    return others[0] if len(shapes) == 2 and len(others) == 1 else None


RETINANET = Head(
    name="retinanet",
    family="RetinaNet",
    outputs="scores and corrections: maps of five levels, or put together",
    decode=decode_retinanet,
    count_classes=count_retinanet_classes,
    match_score=match_retinanet,
    preprocessing={**TOP_LEFT, "color": "rgb", **IMAGENET, "pad": (124, 116, 104)},
    nms=NmsOptions(iou=0.5),
    options=RetinaNetOptions,
)
