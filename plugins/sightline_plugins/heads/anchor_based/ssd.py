"""SSD before its post-processing: corrections of default boxes, and scores of the classes and of the background.

Corrections (1, boxes, 4) and scores (1, boxes, 1 + classes), raw or soft-maxed, in either order; flat ones as Caffe
makes them are read too. The default boxes come with the model, as an output whose name says prior, anchor or default,
(1, boxes, 4) or Caffe's (1, 2, 4 * boxes); else they are made from a `style` and its numbers. The style is told from
the number of boxes where it is not given; 8732 boxes are taken for `vgg` (W. Liu et al., "SSD: Single Shot MultiBox
Detector", 2016; the styles' sources stand in `default_boxes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.anchor_based.coder import boxes_from_offsets
from sightline_plugins.heads.anchor_based.default_boxes import (
    LAYOUTS,
    Layout,
    Ratios,
    Style,
    count_boxes,
    default_boxes,
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
    SizeWh,
    options_of,
)
from sightline_plugins.heads.outputs import named, op_type_of, shapes_text
from sightline_plugins.heads.thresholding import Selection, are_logits, select_classes, select_pairs
from sightline_plugins.nms import NmsOptions

_PRIORS = ("prior", "anchor", "default")


class SsdOptions(HeadOptions):
    """Settings of the head `ssd`."""

    style: Style | None = None
    """How default boxes are made; told from their number when not given."""
    maps: tuple[tuple[int, int], ...] | None = None
    """Columns and rows of each map, the finest first; the style's when not given."""
    steps: tuple[float, ...] | None = None
    """Pixels of the input from cell to cell, for each map; the style's when not given."""
    scales: tuple[float, ...] | None = None
    """Sizes of boxes as shares of the input, for each map and one more; the style's when not given."""
    aspect_ratios: Ratios | None = None
    """Shapes besides the square for each map, each also turned; the style's when not given."""
    variances: tuple[float, float] = (0.1, 0.2)
    """What corrections of the centre and of the size are multiplied with."""
    order: Literal["xywh", "yxhw"] | None = None
    """The order within corrections; `yxhw` for the style tensorflow when not given, else `xywh`."""
    background: Literal["first", "last"] = "first"
    """Which column of the scores is the background."""
    scores: Literal["auto", "probabilities", "softmax", "sigmoid"] = "auto"
    """Whether scores are `probabilities` already, or what makes them some; `auto` takes raw ones through a softmax,
    with the style tensorflow through the logistic function."""
    priors: Literal["cxcywh", "xyxy"] = "cxcywh"
    """What an output with default boxes holds, in shares of the input; Caffe's is always `xyxy`."""


_OPTIONS = SsdOptions()


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every box and class that scores at least `reading.confidence`."""
    options = options_of(context, _OPTIONS)
    offsets_at, scores_at, priors_at = _places(outputs, context)
    offsets = outputs[offsets_at].reshape(-1, 4)
    scores = outputs[scores_at].reshape(len(offsets), -1)
    style = options.style or _style_of(len(offsets), context.size_wh, options)
    sure = _sure(scores, context, options, style, op_type=op_type_of(context, scores_at))
    if priors_at is None:
        priors = _made_boxes(style, options, context.size_wh, len(offsets))
    else:
        priors = _given_boxes(outputs[priors_at], options)
    chosen = offsets[sure.rows]
    if (options.order or ("yxhw" if style == "tensorflow" else "xywh")) == "yxhw":
        chosen = chosen[:, [1, 0, 3, 2]]
    boxes = boxes_from_offsets(chosen, priors[sure.rows], variances=options.variances)
    return Candidates.from_arrays(boxes * np.array(context.size_wh * 2, np.float32), sure.confidence, sure.class_id)


def _sure(
    scores: Array, context: DecodeContext, options: SsdOptions, style: Style | None, *, op_type: str
) -> Selection:
    background = 0 if options.background == "first" else -1
    if options.scores == "sigmoid" or (options.scores == "auto" and style == "tensorflow"):
        others = scores[:, 1:] if background == 0 else scores[:, :-1]
        form: ScoreForm = "logits" if options.scores == "sigmoid" else "auto"
        return select_pairs(others, context.confidence, logits=are_logits(others, form=form, op_type=op_type))
    form = "logits" if options.scores == "softmax" else "probabilities" if options.scores == "probabilities" else "auto"
    return select_classes(scores, context.confidence, background=background, form=form, op_type=op_type)


def _places(outputs: Sequence[Array], context: DecodeContext) -> tuple[int, int, int | None]:
    """The places of corrections, scores and default boxes."""
    priors = named(outputs, context, *_PRIORS)
    others = [place for place in range(len(outputs)) if place not in priors[:1]]
    if len(others) != 2:
        raise ModelError(
            "head ssd: corrections (boxes, 4) and scores (boxes, 1 + classes) are needed, perhaps with default boxes "
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
        raise ModelError(f"head ssd: corrections and scores do not fit each other: {shapes_text(outputs)}")
    return offsets[0], scores, priors[0] if priors else None


def _given_boxes(priors: Array, options: SsdOptions) -> Array:
    caffe = priors.ndim == 3 and priors.shape[1] == 2 and priors.shape[2] != 4
    table = (priors[0, 0] if caffe else priors).reshape(-1, 4)
    if options.priors == "cxcywh" and not caffe:
        return table
    return np.concatenate([(table[:, :2] + table[:, 2:]) / 2, table[:, 2:] - table[:, :2]], axis=1)


def _made_boxes(style: Style | None, options: SsdOptions, size_wh: SizeWh, count: int) -> Array:
    layout = None if style is None else _layout(style, options)
    if layout is not None and not layout.consistent:
        raise ModelError(
            "head ssd: head_options need maps, steps and aspect_ratios for each map, and one of scales more; "
            f"there are {len(layout.ratios)} aspect_ratios and {len(layout.scales)} scales"
        )
    boxes = None if layout is None else default_boxes(layout, size_wh)
    if boxes is None or len(boxes) != count:
        known = ", ".join(f"{name} {count_boxes(layout, size_wh)}" for name, layout in LAYOUTS.items())
        made = "" if boxes is None else f", and the options make {len(boxes)}"
        raise ModelError(
            f"head ssd: the model has {count} default boxes{made}; at {size_wh[0]}x{size_wh[1]} the styles have {known}"
            ": set style, or maps, steps, scales and aspect_ratios in head_options"
        )
    return boxes


def _style_of(count: int, size_wh: SizeWh, options: SsdOptions) -> Style | None:
    layouts = {style: _layout(style, options) for style in LAYOUTS}
    fitting = (style for style, made in layouts.items() if made.consistent and count_boxes(made, size_wh) == count)
    return next(fitting, None)


def _layout(style: Style, options: SsdOptions) -> Layout:
    usual = LAYOUTS[style]
    return replace(
        usual,
        maps=options.maps or usual.maps,
        steps=options.steps or usual.steps,
        scales=options.scales or usual.scales,
        ratios=options.aspect_ratios or usual.ratios,
    )


def match_score(signature: Signature) -> MatchScore:
    """Corrections and scores of as many boxes as a style has, or default boxes beside them."""
    shapes = signature.shapes
    if any(len(shape) not in (2, 3) for shape in shapes):
        return MatchScore.NONE
    names = [output.name.lower() for output in signature.outputs]
    if len(shapes) == 3:
        priors = sum(any(part in name for part in _PRIORS) for name in names)
        return MatchScore.CERTAIN if priors == 1 and any(shape[-1] == 4 for shape in shapes) else MatchScore.NONE
    if len(shapes) != 2 or not is_dense_pair(signature):
        return MatchScore.NONE
    count = shapes[0][1]
    known = [count_boxes(layout, signature.size_wh) for layout in LAYOUTS.values()]
    return MatchScore.CERTAIN if count in known else MatchScore.NONE


def is_dense_pair(signature: Signature) -> bool:
    """Whether the outputs are tables (1, boxes, 4) and (1, boxes, more than one) with equally many rows, known ones."""
    shapes = signature.shapes
    if len(shapes) != 2 or any(len(shape) != 3 for shape in shapes) or shapes[0][1] != shapes[1][1]:
        return False
    return shapes[0][1] is not None and 4 in (shapes[0][2], shapes[1][2]) and None not in (shapes[0][2], shapes[1][2])


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The columns of the scores, less the background."""
    others = [shape[-1] for shape in shapes if len(shape) == 3 and shape[-1] != 4]
    return others[0] - 1 if len(shapes) == 2 and len(others) == 1 and others[0] is not None else None


HEAD = Head(
    name="ssd",
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(2, 3),
    usual={"fit": "stretch", "color": "rgb", "mean": (127.0,), "scale": (128.0,)},
    nms=NmsOptions(iou=0.45),
    options=SsdOptions,
)
