"""CenterNet: things are peaks of a heat map.

Three maps over the input at a quarter of its size: (1, classes, rows, columns) heat, (1, 2, rows, columns) width and
height, (1, 2, rows, columns) offset of the centre within its cell. A cell is a peak of its class when none of its eight
neighbours is hotter (xingyizhou/CenterNet, `src/lib/models/decode.py`: ctdet_decode). The offset may be missing; then
centres lie at the corners of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import cv2
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
    ScoreForm,
    Shape,
    Signature,
    options_of,
)
from sightline_plugins.heads.outputs import named, op_type_of, shapes_text
from sightline_plugins.heads.thresholding import are_logits, select_pairs
from sightline_plugins.nms import NmsOptions


class CenterNetOptions(HeadOptions):
    """Settings of the head `centernet`."""

    units: Literal["cells", "pixels"] = "cells"
    """What width and height are measured in: cells of the map, or pixels of the input."""
    scores: ScoreForm = "auto"
    """Whether heat is `probabilities` or `logits`."""


_OPTIONS = CenterNetOptions()


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every peak that is at least `reading.confidence` hot."""
    options = options_of(context, _OPTIONS)
    heat_at, size_at, offset_at = _places(outputs, context)
    rows, columns = outputs[heat_at].shape[-2:]
    heat = outputs[heat_at].reshape(-1, rows, columns)
    logits = are_logits(heat, form=options.scores, op_type=op_type_of(context, heat_at))
    sure = select_pairs(np.where(_peaks(heat), heat, -np.inf).reshape(len(heat), -1), context.confidence, logits=logits)
    place = sure.class_id
    cell = np.array(context.size_wh, np.float32) / np.array((columns, rows), np.float32)
    centre = np.stack([place % columns, place // columns], axis=1).astype(np.float32)
    if offset_at is not None:
        centre += _pairs(outputs[offset_at])[place]
    size = _pairs(outputs[size_at])[place] * (cell if options.units == "cells" else 1)
    boxes = xyxy_from_cxcywh(np.concatenate([centre * cell, size], axis=1).astype(np.float32))
    return Candidates.from_arrays(boxes, sure.confidence, sure.rows)


def _peaks(heat: Array) -> Array:
    """Where each map (rows, columns) of `heat` is as hot as the hottest of the 3 x 3 cells around."""
    plain = heat.astype(np.float32, copy=False)
    around = np.ones((3, 3), np.uint8)
    return np.stack([plane >= cv2.dilate(plane, around) for plane in plain])


def _pairs(output: Array) -> Array:
    return output.reshape(2, -1).T


def _places(outputs: Sequence[Array], context: DecodeContext) -> tuple[int, int, int | None]:
    """The places of heat, size and offset: by their names where these say it, else in this order."""
    heat = named(outputs, context, "heat", "hm")
    size = [place for place in named(outputs, context, "wh", "size", "dim") if place not in heat]
    offset = [place for place in named(outputs, context, "reg", "off") if place not in heat + size]
    if len(heat) == len(size) == 1 and len(offset) <= 1 and len(outputs) == 2 + len(offset):
        return heat[0], size[0], offset[0] if offset else None
    if len(outputs) not in (2, 3) or any(output.ndim != 4 or output.shape[1] != 2 for output in outputs[1:]):
        raise ModelError(
            "head centernet: maps of heat, of width and height, and of offsets are needed; the outputs are "
            f"{shapes_text(outputs)}"
        )
    return 0, 1, 2 if len(outputs) == 3 else None


def match_score(signature: Signature) -> MatchScore:
    """Three maps of one size, two of which have two channels."""
    shapes = signature.shapes
    if len(shapes) != 3 or any(len(shape) != 4 for shape in shapes):
        return MatchScore.NONE
    same = len({shape[2:] for shape in shapes}) == 1
    pairs = sum(shape[1] == 2 for shape in shapes)
    return MatchScore.CERTAIN if same and pairs >= 2 else MatchScore.NONE


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The channels of the heat map."""
    others = [shape[1] for shape in shapes if len(shape) == 4 and shape[1] != 2]
    return others[0] if len(others) == 1 else None


HEAD = Head(
    name="centernet",
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(4,),
    usual={
        "fit": "letterbox",
        "align": "center",
        "color": "bgr",
        "mean": (104.04, 113.985, 119.85),
        "scale": (73.695, 69.87, 70.89),
        "pad": (0,),
    },
    nms=NmsOptions(iou=1.0),
    options=CenterNetOptions,
)
