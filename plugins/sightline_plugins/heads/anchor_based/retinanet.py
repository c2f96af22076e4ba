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
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.errors import ModelError
from sightline_plugins.heads.anchor_based.ssd import boxes_from_offsets, is_dense_pair
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
    SizeWh,
)
from sightline_plugins.heads.outputs import (
    check_count,
    count_cells,
    levels_of,
    named,
    shapes_text,
    width_of,
)
from sightline_plugins.heads.thresholding import are_logits, select_pairs
from sightline_plugins.nms import NmsOptions

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Anchors:
    """Parameters of anchors.

    Each cell of a level has a box of `sizes` (pixels of the input, one for each of `strides`) in every one of `scales`
    and `ratios` (height over width), ratio by ratio, or scale by scale when `scale_first`. It lies around the point at
    `offset` in the cell (0 its upper left corner, 0.5 its middle). `rounded` cuts scaled sizes to whole pixels and
    rounds corners, as torchvision does.
    """

    strides: tuple[int, ...]
    sizes: tuple[float, ...]
    scales: tuple[float, ...]
    ratios: tuple[float, ...]
    offset: float = 0.0
    scale_first: bool = False
    rounded: bool = False

    @property
    def each(self) -> int:
        """How many boxes a cell has."""
        return len(self.scales) * len(self.ratios)

    def count(self, size_wh: SizeWh) -> int:
        """Return how many boxes there are for an input of that size."""
        return count_cells(size_wh, self.strides) * self.each


@lru_cache(maxsize=16)
def anchor_boxes(anchors: Anchors, size_wh: SizeWh) -> Floats:
    """Return the anchors (N, 4), centre and size in pixels of the input, level by level, row by row; read-only."""
    levels = []
    for stride, size in zip(anchors.strides, anchors.sizes, strict=True):
        columns, rows = (-(-side // stride) for side in size_wh)
        places = (np.arange(columns) + anchors.offset) * stride, (np.arange(rows) + anchors.offset) * stride
        x, y = np.meshgrid(*places)
        around = _around_a_point(anchors, size)
        centres = np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), len(around), axis=0)
        shapes = np.tile(around, (columns * rows, 1))
        levels.append(np.concatenate([centres + shapes[:, :2], shapes[:, 2:]], axis=1))
    boxes = np.concatenate(levels).astype(np.float32)
    boxes.flags.writeable = False
    return boxes


def _around_a_point(anchors: Anchors, size: float) -> npt.NDArray[np.float64]:
    """Return the shift of the centre, width and height of each box of a cell, (each, 4)."""
    sides = [int(size * scale) if anchors.rounded else size * scale for scale in anchors.scales]
    if anchors.scale_first:
        pairs = [(side, ratio) for side in sides for ratio in anchors.ratios]
    else:
        pairs = [(side, ratio) for ratio in anchors.ratios for side in sides]
    half = np.array([(side / ratio**0.5, side * ratio**0.5) for side, ratio in pairs]) / 2
    if anchors.rounded:
        half = np.round(half)
    return np.concatenate([np.zeros_like(half), 2 * half], axis=1)


Positive = Annotated[float, Field(gt=0)]


class RetinaNetOptions(HeadOptions):
    """Options of the head `retinanet`."""

    strides: tuple[Annotated[int, Field(ge=1)], ...] = (8, 16, 32, 64, 128)
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

    def anchors(self) -> Anchors:
        """Return the parameters of the anchors."""
        sizes = self.sizes or tuple(4.0 * stride for stride in self.strides)
        return Anchors(self.strides, sizes, self.scales, self.ratios, self.offset, self.scale_first, self.rounded)


_DEFAULTS = RetinaNetOptions()
_LEVELS = len(_DEFAULTS.strides)


def decode_retinanet(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every anchor and class that scores at least `context.confidence`."""
    options = context.options_or(_DEFAULTS)
    anchors = options.anchors()
    scores, deltas, first = _tables(outputs, context, each=anchors.each)
    boxes = anchor_boxes(anchors, context.size_wh)
    check_count("retinanet", context.size_wh, expected=len(boxes), found=len(scores))
    logits = are_logits(scores, form=options.scores, op_type=context.op_type(first))
    kept = select_pairs(scores, context.confidence, logits=logits)
    chosen = deltas[kept.rows] * np.array(options.deviations, np.float32)
    around = boxes[kept.rows]
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
    maps = all(output.ndim == 4 for output in outputs)
    per_cell = each if maps else 1
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
    classes = widths[scores[0]] // per_cell
    every = levels_of([outputs[place] for place in scores], classes)
    return every, levels_of([outputs[place] for place in boxes], 4), scores[0]


def match_retinanet(signature: Signature) -> MatchScore:
    """Match five pairs of maps with nine boxes a cell, or two tables with nine rows for each cell."""
    shapes, default = signature.shapes, _DEFAULTS.anchors()
    if len(shapes) == 2 * _LEVELS and all(len(shape) == 4 for shape in shapes):
        boxes = sum(shape[1] == 4 * default.each for shape in shapes)
        return MatchScore.CERTAIN if boxes in (_LEVELS, 2 * _LEVELS) else MatchScore.NONE
    if not is_dense_pair(signature) or not all(signature.size_wh):
        return MatchScore.NONE
    return MatchScore.CERTAIN if shapes[0][1] == default.count(signature.size_wh) else MatchScore.NONE


def count_retinanet_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the columns of the scores, where they are one table."""
    others = [shape[-1] for shape in shapes if len(shape) == 3 and shape[-1] != 4]
    return others[0] if len(shapes) == 2 and len(others) == 1 else None


RETINANET = Head(
    name="retinanet",
    decode=decode_retinanet,
    count_classes=count_retinanet_classes,
    match_score=match_retinanet,
    preprocessing={
        "fit": "letterbox",
        "align": "top_left",
        "color": "rgb",
        "mean": (123.675, 116.28, 103.53),
        "scale": (58.395, 57.12, 57.375),
        "pad": (124, 116, 104),
    },
    nms=NmsOptions(iou=0.5),
    options=RetinaNetOptions,
)
