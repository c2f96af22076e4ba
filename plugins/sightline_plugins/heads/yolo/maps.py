"""YOLO heads that read raw maps, one or more for each stride, in any order. The size of a map gives its stride.

`yolo_anchors`  YOLOv3, v4, v5 and v7 exported without decoding: (1, anchors * (5 + classes), rows, columns) or
                (1, anchors, rows, columns, 5 + classes), also with the channels last. Values are x, y, width, height,
                objectness and classes, as logits or after the logistic function; the score is objectness times class.
                v3 and v4 make sizes by exp, v5 and v7 by a squared logistic
`yolo_dfl`      YOLOv6, v8, v9, v11 and later exported without decoding: distances in strides from the middle of the
                cell to left, top, right and bottom, and class scores, as (1, 4 * bins + classes, rows, columns) or as
                two maps (a third map of one channel, the sum of the scores that some exports add, is ignored). A
                distance is the mean of a distribution over `bins` values (Generalized Focal Loss, Li et al. 2020;
                ultralytics/ultralytics, `nn/modules/block.py`: DFL; meituan/YOLOv6, `models/effidehead.py`); with one
                bin, as small YOLOv6 models have it, it is the value itself
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.decoding import (
    Floats,
    are_logits,
    boxes_from_distances,
    exponential,
    logit,
    sigmoid,
    softmax,
)
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
)
from sightline_plugins.heads.yolo.layout import (
    ANCHORS,
    PREPROCESSING,
    Map,
    channels_by_stride,
    grid_axis,
    joined_levels,
    maps_of,
)
from sightline_plugins.nms.options import NmsOptions

Version = Literal[
    "yolov3", "yolov3-tiny", "yolov4", "yolov4-tiny", "yolov5", "yolov5-p6", "yolov7", "yolov7-tiny", "yolov7-p6"
]
Anchors = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class BoxFormula:
    """How a version makes boxes of its maps, one entry for each stride, the finest first.

    anchors   widths and heights alternating, in pixels of the network's input
    scale_xy  how far a centre may leave its cell: offset = logistic * scale - (scale - 1) / 2
    squared   sizes are (2 * logistic)^2 * anchor; else exp(value) * anchor
    """

    anchors: Anchors
    scale_xy: tuple[float, ...]
    squared: bool


_V3: Anchors = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))
_V4: Anchors = ((12, 16, 19, 36, 40, 28), (36, 75, 76, 55, 72, 146), (142, 110, 192, 243, 459, 401))
_V3_TINY: Anchors = ((10, 14, 23, 27, 37, 58), (81, 82, 135, 169, 344, 319))
_V4_TINY: Anchors = ((23, 27, 37, 58, 81, 82), (81, 82, 135, 169, 344, 319))
_P6: Anchors = (
    (19, 27, 44, 40, 38, 94),
    (96, 68, 86, 152, 180, 137),
    (140, 301, 303, 264, 238, 542),
    (436, 615, 739, 380, 925, 792),
)

PUBLISHED: Mapping[Version, BoxFormula] = MappingProxyType(
    {
        "yolov3": BoxFormula(_V3, (1.0, 1.0, 1.0), False),
        "yolov3-tiny": BoxFormula(_V3_TINY, (1.0, 1.0), False),
        "yolov4": BoxFormula(_V4, (1.2, 1.1, 1.05), False),
        "yolov4-tiny": BoxFormula(_V4_TINY, (1.05, 1.05), False),
        "yolov5": BoxFormula(_V3, (2.0, 2.0, 2.0), True),
        "yolov5-p6": BoxFormula(_P6, (2.0, 2.0, 2.0, 2.0), True),
        "yolov7": BoxFormula(_V4, (2.0, 2.0, 2.0), True),
        "yolov7-tiny": BoxFormula(_V3, (2.0, 2.0, 2.0), True),
        "yolov7-p6": BoxFormula(_P6, (2.0, 2.0, 2.0, 2.0), True),
    }
)
"""AlexeyAB/darknet `cfg/yolov3.cfg`, `yolov3-tiny.cfg`, `yolov4.cfg`, `yolov4-tiny.cfg`; ultralytics/yolov5
`models/yolov5s.yaml`, `models/hub/yolov5s6.yaml`; WongKinYiu/yolov7 `cfg/deploy/yolov7.yaml`, `yolov7-tiny.yaml`,
`yolov7-w6.yaml`."""
VERSIONS: tuple[Version, ...] = get_args(Version)


class AnchorOptions(HeadOptions):
    """Options of `yolo_anchors`."""

    version: Version | None = None
    """Whose formula and anchors; required, because the shapes do not tell."""
    anchors: Anchors | None = None
    """Alternating widths and heights in pixels of the network's input, a list for each stride, the finest first; the
    published ones of the version when not given."""
    scale_xy: tuple[float, ...] | None = None
    """How far centres may leave their cells (`scale_x_y` of Darknet), for each stride; the version's when not given."""
    scores: ScoreForm = "auto"
    """Whether objectness and classes are logits, or are after the logistic function."""
    boxes: ScoreForm = "auto"
    """The same for x and y (and of width and height, where the version's formula has them logistic)."""

    @model_validator(mode="after")
    def _version_given(self) -> AnchorOptions:
        if self.version is None:
            known = ", ".join(VERSIONS)
            raise PydanticCustomError(
                "version_missing", f"set version, which the outputs do not tell, to one of {known}"
            )
        return self


DEFAULT_ANCHOR_OPTIONS = AnchorOptions(version="yolov5")


def decode_anchors(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every box whose best class times objectness is at least `context.confidence`."""
    options = context.options_or(DEFAULT_ANCHOR_OPTIONS)
    levels = anchor_levels(outputs, context)
    return joined_levels(_decode_anchor_level(*level, options, context) for level in levels)


def anchor_levels(outputs: Sequence[Array], context: DecodeContext) -> list[tuple[Map, Floats, float]]:
    """Return the maps, the finest first, each with its anchors (n, 2) and the scale of its centre offsets."""
    options = context.options_or(DEFAULT_ANCHOR_OPTIONS)
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


def _decode_anchor_level(
    entry: Map, anchors: Floats, scale: float, options: AnchorOptions, context: DecodeContext
) -> tuple[Floats, Floats, Array]:
    """Return boxes, scores and classes of one map."""
    assert options.version is not None
    squared = PUBLISHED[options.version].squared
    values = by_anchor(entry, len(anchors))
    op_type = context.op_type(entry.place)
    logits = are_logits(values[:, 4], form=options.scores, op_type=op_type)
    limit = logit(context.confidence) if logits else context.confidence
    anchor, row, column = np.nonzero(values[:, 4] >= limit)
    found = values[anchor, :, row, column].astype(np.float32)
    class_id = found[:, 5:].argmax(axis=1)
    chances = np.stack([found[:, 4], found[:, 5:].max(axis=1, initial=-np.inf)])
    score = np.prod(sigmoid(chances) if logits else chances, axis=0)
    kept = score >= context.confidence
    found, cell = found[kept], np.stack([column[kept], row[kept]], axis=1)
    logistic = 4 if squared else 2
    if len(found) and are_logits(values[:, :logistic], form=options.boxes, op_type=op_type):
        found[:, :logistic] = sigmoid(found[:, :logistic])
    centre = (found[:, :2] * scale - (scale - 1) / 2 + cell) * entry.stride
    with np.errstate(over="ignore"):
        size = (np.square(2 * found[:, 2:4]) if squared else exponential(found[:, 2:4])) * anchors[anchor[kept]]
    boxes = xyxy_from_cxcywh(np.concatenate([centre, size], axis=1).astype(np.float32))
    return boxes, score[kept], class_id[kept]


def by_anchor(entry: Map, anchors: int) -> Array:
    """Return the map as (anchors, values, rows, columns)."""
    values = entry.values
    if values.ndim == 3 and values.shape[0] % anchors == 0:
        values = values.reshape(anchors, -1, *values.shape[1:])
    if values.ndim == 4 and values.shape[0] == anchors and values.shape[1] > 5:
        return values
    raise ModelError(
        f"head yolo_anchors: a map of {' x '.join(map(str, entry.values.shape))} does not hold box, objectness and "
        f"classes for {anchors} anchors: set head_options: {{anchors: ...}} as the model's"
    )


def count_anchor_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the number of classes that the shapes tell: the channels are the size that all maps share."""
    if len(shapes[0]) == 5:
        return None if shapes[0][4] is None else shapes[0][4] - 5
    shared = [sizes[0] for sizes in zip(*shapes, strict=False) if len(set(sizes)) == 1 and sizes[0] not in (None, 1)]
    return shared[0] // ANCHORS - 5 if len(shapes) > 1 and len(shared) == 1 and shared[0] is not None else None


def match_anchors(signature: Signature) -> MatchScore:
    """Match maps of different strides that all have the same values for each of three boxes a cell."""
    grids = [grid_axis(shape, signature.size_wh) for shape in signature.shapes]
    strides = {grid[1] for grid in grids if grid is not None}
    if len(grids) < 2 or len(strides) != len(grids):
        return MatchScore.NONE
    values = {_values_of(shape, grid[0]) for shape, grid in zip(signature.shapes, grids, strict=True) if grid}
    each = values.pop()
    if values or each is None or each <= 5 or signature.classes not in (None, each - 5):
        return MatchScore.NONE
    is_certain = signature.classes is not None or all(len(shape) == 5 for shape in signature.shapes)
    return MatchScore.CERTAIN if is_certain else MatchScore.POSSIBLE


def _values_of(shape: Shape, axis: int) -> int | None:
    """Return the number of values of a box; None when the map does not hold three boxes a cell."""
    channels = shape[1 if axis == 2 else 3]
    if len(shape) == 5:
        return shape[4] if channels == ANCHORS else None
    return channels // ANCHORS if channels and channels % ANCHORS == 0 else None


YOLO_ANCHORS = Head(
    name="yolo_anchors",
    family="YOLOv3, v4, v5, v7 without decoding",
    outputs="raw maps, one a stride, of 3 * (5 + classes) channels",
    decode=decode_anchors,
    count_classes=count_anchor_classes,
    match_score=match_anchors,
    ranks=(4, 5),
    preprocessing=PREPROCESSING,
    nms=NmsOptions(iou=0.45),
    options=AnchorOptions,
)


BINS = 16
_COMMON_BINS = (BINS, BINS + 1)


class DflOptions(HeadOptions):
    """Options of `yolo_dfl`."""

    bins: Annotated[int, Field(ge=1, le=64)] | None = None
    """Whole numbers that a distance is spread over (`reg_max`; YOLOv6: `reg_max` + 1). By default derived from
    the box maps where they are separate outputs, else from the number of labels, else 16."""
    scores: ScoreForm = "auto"
    """Whether class scores are logits, or are after the logistic function."""


def decode_dfl(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every cell whose best class scores at least `context.confidence`."""
    options = context.options_or(DflOptions())
    levels = groupby(maps_of(outputs, context.size_wh, "yolo_dfl"), key=lambda entry: entry.stride)
    return joined_levels(_decode_dfl_level(list(group), stride, options, context) for stride, group in levels)


def _decode_dfl_level(
    maps: list[Map], stride: int, options: DflOptions, context: DecodeContext
) -> tuple[Floats, Floats, Array]:
    """Return boxes, scores and classes of the maps of one stride."""
    sides, scores, place = sides_and_scores(maps, options, len(context.labels))
    logits = are_logits(scores[:1], form=options.scores, op_type=context.op_type(place))
    row, column = np.nonzero(scores.max(axis=0) >= (logit(context.confidence) if logits else context.confidence))
    found = scores[:, row, column].astype(np.float32)
    best = found.max(axis=0, initial=-np.inf)
    distances = _distances(sides[:, row, column])
    middle = np.stack([column, row], axis=1).astype(np.float32) + np.float32(0.5)
    boxes = boxes_from_distances(middle, distances) * np.float32(stride)
    return boxes, sigmoid(best) if logits else best, found.argmax(axis=0)


def _distances(values: Array) -> Floats:
    """Return distances (n, 4) in strides: the means of distributions (4 * bins, n)."""
    spread: Floats = values.T.reshape(values.shape[1], 4, len(values) // 4).astype(np.float32)
    bins = spread.shape[2]
    if bins == 1 or not len(spread):
        return spread[..., 0]
    return np.asarray(softmax(spread) @ np.arange(bins), np.float32)


def sides_and_scores(maps: list[Map], options: DflOptions, labels: int) -> tuple[Array, Array, int]:
    """Return distances (4 * bins, rows, columns), scores (classes, rows, columns) and the place of the scores."""
    if any(entry.values.ndim != 3 for entry in maps):
        raise ModelError("head yolo_dfl: maps (1, channels, rows, columns) are needed")
    if len(maps) == 1:
        values = maps[0].values
        bins = (len(values) - labels) // 4 if labels and (len(values) - labels) % 4 == 0 else BINS
        split = 4 * (options.bins or bins)
        if 0 < split < len(values):
            return values[:split], values[split:], maps[0].place
    several = [entry for entry in maps if len(entry.values) > 1]
    pair = several if len(several) == 2 else maps[:2]
    if len(pair) == 2:
        sides, scores = pair
        if labels and len(sides.values) == labels and len(scores.values) != labels:
            sides, scores = scores, sides
        if len(sides.values) == 4 * (options.bins or len(sides.values) // 4):
            return sides.values, scores.values, scores.place
    sizes = ", ".join(str(len(entry.values)) for entry in maps)
    raise ModelError(
        f"head yolo_dfl: 4 * bins channels of distances and the classes are needed at stride {maps[0].stride}; "
        f"the maps have {sizes} channels: set head_options: {{bins: ...}} as the model's"
    )


def match_dfl(signature: Signature) -> MatchScore:
    """Match three strides or more, each with one map of distances and classes, or with a map of each."""
    channels = channels_by_stride(signature)
    if channels is None or len(channels) < 3 or len(set(channels.values())) != 1:
        return MatchScore.NONE
    sizes = next(iter(channels.values()))
    known = [size for size in sizes if size is not None]
    return _match_channels(known, signature.classes) if len(known) == len(sizes) else MatchScore.NONE


def _match_channels(sizes: Sequence[int], classes: int | None) -> MatchScore:
    """Match the channels at each stride: all together, or distances, scores and perhaps their sum."""
    if len(sizes) == 1:
        rest = [sizes[0] - 4 * bins for bins in _COMMON_BINS]
        if classes is not None:
            return MatchScore.certain_if(classes in rest)
        return MatchScore.POSSIBLE if rest[0] > 0 else MatchScore.NONE
    if len(sizes) not in (2, 3) or (len(sizes) == 3 and sizes[2] != 1) or classes not in (None, sizes[1]):
        return MatchScore.NONE
    if sizes[0] in [4 * bins for bins in _COMMON_BINS]:
        return MatchScore.CERTAIN
    return MatchScore.POSSIBLE if sizes[0] == 4 else MatchScore.NONE


YOLO_DFL = Head(
    name="yolo_dfl",
    family="YOLOv6, v8, v9, v11 and later without decoding",
    outputs="raw maps, one a stride, of 4 * bins + classes channels, or boxes and classes apart",
    decode=decode_dfl,
    match_score=match_dfl,
    ranks=(4,),
    preprocessing=PREPROCESSING,
    nms=NmsOptions(iou=0.45),
    options=DflOptions,
)
