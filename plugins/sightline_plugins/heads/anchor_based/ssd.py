"""SSD before its post-processing: offsets from default boxes, and scores of the classes and the background.

Offsets (1, boxes, 4) and scores (1, boxes, 1 + classes), raw or after softmax, in either order; the flat outputs of
Caffe are read too. Default boxes come with the model, as an output whose name contains prior, anchor or default,
(1, boxes, 4) or Caffe's (1, 2, 4 * boxes); otherwise they are generated from a `style` and its parameters. Without a
`style` the number of boxes decides; 8732 boxes mean `vgg` (W. Liu et al., "SSD: Single Shot MultiBox Detector", 2016).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.decoding import (
    Floats,
    Selection,
    are_logits,
    boxes_from_offsets,
    is_dense_pair,
    named,
    select_classes,
    select_pairs,
    shapes_text,
)
from sightline_plugins.heads.head import (
    Array,
    Candidates,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    Shape,
    Signature,
    SizeWh,
)
from sightline_plugins.nms.options import NmsOptions

Style = Literal["mobilenet", "vgg", "torchvision_ssd300", "torchvision_ssdlite320", "tensorflow"]
Ratios = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Parameters of default boxes.

    scales        sizes of boxes as fractions of the input, for each map and one more
    ratios        aspect ratios besides the square, for each map; each also gives its inverse
    maps          columns and rows of the maps; None: the first is the input over 16, each next half of it (rounded up)
    steps         pixels of the input from cell to cell; None: the cells divide the input evenly
    clip          cut centres and sizes to 0..1
    tensorflow    order of TensorFlow: a square, each ratio and its inverse, then a larger square (the root of this
                  scale and the next), as fractions of the input's shorter side, where the first map has only a small
                  square and the first ratio; otherwise both squares come first
    """

    scales: tuple[float, ...]
    ratios: Ratios
    maps: tuple[tuple[int, int], ...] | None = None
    steps: tuple[float, ...] | None = None
    clip: bool = True
    tensorflow: bool = False

    @property
    def is_consistent(self) -> bool:
        """Whether every list has an entry for each map."""
        lists = [given for given in (self.maps, self.steps) if given is not None]
        return all(len(given) == len(self.ratios) for given in (self.scales[1:], *lists))

    def grids(self, size_wh: SizeWh) -> Sequence[tuple[int, int]]:
        """Return columns and rows of each map."""
        if self.maps is not None:
            return self.maps
        grids = [(-(-size_wh[0] // _FIRST_STRIDE), -(-size_wh[1] // _FIRST_STRIDE))]
        while len(grids) < len(self.ratios):
            grids.append((-(-grids[-1][0] // 2), -(-grids[-1][1] // 2)))
        return grids

    def shapes(self, number: int) -> list[tuple[float, float]]:
        """Return widths and heights of the boxes in a cell of a map."""
        scale, ratios = self.scales[number], self.ratios[number]
        squares = [(scale, scale), ((larger := (scale * self.scales[number + 1]) ** 0.5), larger)]
        sides = [(scale * ratio**0.5, scale / ratio**0.5) for ratio in ratios]
        turned = [shape for width, height in sides for shape in ((width, height), (height, width))]
        if not self.tensorflow:
            return [*squares, *turned]
        return [squares[0], *turned, squares[1]] if number else [(0.1, 0.1), *turned[:2]]

    def count(self, size_wh: SizeWh) -> int:
        """Return the number of default boxes."""
        grids = enumerate(self.grids(size_wh))
        return sum(columns * rows * len(self.shapes(number)) for number, (columns, rows) in grids)


_FIRST_STRIDE = 16
_EVEN = (*(0.2 + 0.15 * number for number in range(6)), 1.0)
_TWO_AND_THREE: Ratios = ((2, 3),) * 6
_VGG = Layout(
    scales=tuple(size / 300 for size in (30, 60, 111, 162, 213, 264, 315)),
    ratios=((2,), (2, 3), (2, 3), (2, 3), (2,), (2,)),
    maps=((38, 38), (19, 19), (10, 10), (5, 5), (3, 3), (1, 1)),
    steps=(8.0, 16.0, 32.0, 64.0, 100.0, 300.0),
)
LAYOUTS: Mapping[Style, Layout] = MappingProxyType(
    {
        "mobilenet": Layout(
            scales=tuple(size / 300 for size in (60, 105, 150, 195, 240, 285, 330)),
            ratios=_TWO_AND_THREE,
            maps=tuple((cells, cells) for cells in (19, 10, 5, 3, 2, 1)),
            steps=(16, 32, 64, 100, 150, 300),
        ),
        "vgg": _VGG,
        "torchvision_ssd300": replace(_VGG, scales=(0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05)),
        "torchvision_ssdlite320": Layout(_EVEN, _TWO_AND_THREE),
        "tensorflow": Layout(_EVEN, _TWO_AND_THREE, clip=False, tensorflow=True),
    }
)
"""`mobilenet`, `vgg`: qfgaohao/pytorch-ssd, `vision/ssd/config`; `torchvision_...`: pytorch/vision, `models/detection`
(`ssd.py`, `ssdlite.py`, `anchor_utils.py`); `tensorflow`: tensorflow/models, `research/object_detection/
anchor_generators/multiple_grid_anchor_generator.py`, create_ssd_anchors, with the ratios of
`samples/configs/ssd_mobilenet_v1_coco.config`."""


@lru_cache(maxsize=16)
def default_boxes(layout: Layout, size_wh: SizeWh) -> Floats:
    """Return the default boxes (N, 4): centre, width and height as fractions of the input. Read-only."""
    maps = []
    for number, (columns, rows) in enumerate(layout.grids(size_wh)):
        step = None if layout.steps is None else layout.steps[number]
        across, down = (columns, rows) if step is None else (size_wh[0] / step, size_wh[1] / step)
        x, y = np.meshgrid((np.arange(columns) + 0.5) / across, (np.arange(rows) + 0.5) / down)
        centres = np.stack([x.ravel(), y.ravel()], axis=1)
        shapes = np.array(layout.shapes(number))
        if layout.tensorflow:
            shapes = shapes * (min(size_wh) / np.array(size_wh))
        maps.append(np.hstack([np.repeat(centres, len(shapes), axis=0), np.tile(shapes, (len(centres), 1))]))
    boxes = np.concatenate(maps)
    found = (boxes.clip(0, 1) if layout.clip else boxes).astype(np.float32)
    found.flags.writeable = False
    return found


_PRIORS = ("prior", "anchor", "default")


class SsdOptions(HeadOptions):
    """Options of the head `ssd`."""

    style: Style | None = None
    """How default boxes are generated; derived from their number when not given."""
    maps: tuple[tuple[int, int], ...] | None = None
    """Columns and rows of each map, the finest first; the style's when not given."""
    steps: tuple[float, ...] | None = None
    """Stride in pixels of the input, for each map; the style's when not given."""
    scales: tuple[float, ...] | None = None
    """Sizes of boxes as fractions of the input, for each map and one more; the style's when not given."""
    aspect_ratios: Ratios | None = None
    """Aspect ratios besides the square for each map, each with its inverse; the style's when not given."""
    variances: tuple[float, float] = (0.1, 0.2)
    """Factors of the offsets of the centre and of the size."""
    order: Literal["xywh", "yxhw"] | None = None
    """The order within offsets; `yxhw` for the style tensorflow when not given, else `xywh`."""
    background: Literal["first", "last"] = "first"
    """Which column of the scores is the background."""
    scores: Literal["auto", "probabilities", "softmax", "sigmoid"] = "auto"
    """Whether scores are `probabilities`, or the function that makes them so; `auto` takes raw ones through a softmax,
    with the style tensorflow through the logistic function."""
    priors: Literal["cxcywh", "xyxy"] = "cxcywh"
    """What an output with default boxes holds, in fractions of the input; Caffe's is always `xyxy`."""


_DEFAULTS = SsdOptions()


def decode_ssd(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every box and class that scores at least `context.confidence`."""
    options = context.options_or(_DEFAULTS)
    offsets_at, scores_at, priors_at = _places(outputs, context)
    offsets = outputs[offsets_at].reshape(-1, 4)
    scores = outputs[scores_at].reshape(len(offsets), -1)
    style = options.style or _style_of(len(offsets), context.size_wh, options)
    kept = _select(scores, context, options, style, op_type=context.op_type(scores_at))
    if priors_at is None:
        priors = _generated_boxes(style, options, context.size_wh, len(offsets))
    else:
        priors = _given_boxes(outputs[priors_at], options)
    chosen = offsets[kept.rows]
    if (options.order or ("yxhw" if style == "tensorflow" else "xywh")) == "yxhw":
        chosen = chosen[:, [1, 0, 3, 2]]
    boxes = boxes_from_offsets(chosen, priors[kept.rows], variances=options.variances)
    return Candidates.from_arrays(boxes * np.array(context.size_wh * 2, np.float32), kept.confidence, kept.class_id)


def _select(
    scores: Array, context: DecodeContext, options: SsdOptions, style: Style | None, *, op_type: str
) -> Selection:
    form = options.scores
    if form == "sigmoid" or (form == "auto" and style == "tensorflow"):
        others = scores[:, 1:] if options.background == "first" else scores[:, :-1]
        return select_pairs(others, context.confidence, logits=are_logits(others, form=form, op_type=op_type))
    background = 0 if options.background == "first" else -1
    return select_classes(scores, context.confidence, background=background, form=form, op_type=op_type)


def _places(outputs: Sequence[Array], context: DecodeContext) -> tuple[int, int, int | None]:
    """Return the places of offsets, scores and default boxes."""
    priors = named(outputs, context, *_PRIORS)
    others = [place for place in range(len(outputs)) if place not in priors[:1]]
    if len(others) != 2:
        raise ModelError(
            "head ssd: offsets (boxes, 4) and scores (boxes, 1 + classes) are needed, perhaps with default boxes "
            f"whose name says prior; the outputs are {shapes_text(outputs)}"
        )
    offsets = [place for place in named(outputs, context, "loc", "box", "reg") if place in others]
    if len(offsets) != 1:
        offsets = [place for place in others if outputs[place].shape[-1] == 4]
    if len(offsets) != 1:
        offsets = [min(others, key=lambda place: outputs[place].size)]
    scores = others[1] if others[0] == offsets[0] else others[0]
    rows, rest = divmod(outputs[offsets[0]].size, 4)
    if rest or not rows or outputs[scores].size % rows or outputs[scores].size < 2 * rows:
        raise ModelError(f"head ssd: offsets and scores do not fit each other: {shapes_text(outputs)}")
    return offsets[0], scores, priors[0] if priors else None


def _given_boxes(priors: Array, options: SsdOptions) -> Array:
    caffe = priors.ndim == 3 and priors.shape[1] == 2 and priors.shape[2] != 4
    table = (priors[0, 0] if caffe else priors).reshape(-1, 4)
    if options.priors == "cxcywh" and not caffe:
        return table
    return np.concatenate([(table[:, :2] + table[:, 2:]) / 2, table[:, 2:] - table[:, :2]], axis=1)


def _generated_boxes(style: Style | None, options: SsdOptions, size_wh: SizeWh, count: int) -> Array:
    layout = None if style is None else _layout(style, options)
    if layout is not None and not layout.is_consistent:
        raise ModelError(
            "head ssd: head_options need maps, steps and aspect_ratios for each map, and one of scales more; "
            f"there are {len(layout.ratios)} aspect_ratios and {len(layout.scales)} scales"
        )
    boxes = None if layout is None else default_boxes(layout, size_wh)
    if boxes is None or len(boxes) != count:
        known = ", ".join(f"{name} {layout.count(size_wh)}" for name, layout in LAYOUTS.items())
        generated = "" if boxes is None else f", and the options make {len(boxes)}"
        raise ModelError(
            f"head ssd: the model has {count} default boxes{generated}; at {size_wh[0]}x{size_wh[1]} the styles have "
            f"{known}: set style, or maps, steps, scales and aspect_ratios in head_options"
        )
    return boxes


@lru_cache(maxsize=64)
def _style_of(count: int, size_wh: SizeWh, options: SsdOptions) -> Style | None:
    layouts = ((style, _layout(style, options)) for style in LAYOUTS)
    return next((style for style, own in layouts if own.is_consistent and own.count(size_wh) == count), None)


def _layout(style: Style, options: SsdOptions) -> Layout:
    default = LAYOUTS[style]
    return replace(
        default,
        maps=options.maps or default.maps,
        steps=options.steps or default.steps,
        scales=options.scales or default.scales,
        ratios=options.aspect_ratios or default.ratios,
    )


def match_ssd(signature: Signature) -> MatchScore:
    """Match offsets and scores of as many boxes as a style has, or default boxes beside them."""
    shapes = signature.shapes
    if any(len(shape) not in (2, 3) for shape in shapes):
        return MatchScore.NONE
    if len(shapes) == 3:
        priors = sum(any(part in output.name.lower() for part in _PRIORS) for output in signature.outputs)
        return MatchScore.certain_if(priors == 1 and any(shape[-1] == 4 for shape in shapes))
    if not is_dense_pair(signature):
        return MatchScore.NONE
    known = [layout.count(signature.size_wh) for layout in LAYOUTS.values()]
    return MatchScore.certain_if(shapes[0][1] in known)


def count_ssd_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the columns of the scores, less the background."""
    others = [shape[-1] for shape in shapes if len(shape) == 3 and shape[-1] != 4]
    return others[0] - 1 if len(shapes) == 2 and len(others) == 1 and others[0] is not None else None


SSD = Head(
    name="ssd",
    family="SSD, MobileNet-SSD, SSDLite before post-processing",
    outputs="corrections (1, boxes, 4) and scores (1, boxes, 1 + classes), perhaps default boxes",
    decode=decode_ssd,
    count_classes=count_ssd_classes,
    match_score=match_ssd,
    ranks=(2, 3),
    preprocessing={"fit": "stretch", "color": "rgb", "mean": (127.0,), "scale": (128.0,)},
    nms=NmsOptions(iou=0.45),
    options=SsdOptions,
)
