"""Dense heads over maps of scores: heat map peaks (`centernet`) and coverage (`detectnet_v2`).

`centernet`     three maps at a quarter of the input's size: heat (1, classes, rows, columns), width and height, and
                the centre's offset within its cell, (1, 2, rows, columns) each. A cell is a peak of its class when none
                of its eight neighbours is hotter (xingyizhou/CenterNet, `src/lib/models/decode.py`: ctdet_decode).
                Without offsets, centres lie at the corners of cells
`detectnet_v2`  NVIDIA TAO: a coverage map for each class (1, classes, rows, columns), after the logistic function, and
                (1, 4 * classes, rows, columns) distances from the cell's point to left, top, right and bottom, divided
                by 35. The stride is the input's size over the map's, rounded up; the point of a cell is
                `stride * number + 0.5` (NVIDIA DeepStream, `nvdsinfer_context_impl_output_parsing.cpp`)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.decoding import are_logits, boxes_from_distances, named, select_pairs, shapes_text
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
from sightline_plugins.nms.options import NmsOptions


class CenterNetOptions(HeadOptions):
    """Options of the head `centernet`."""

    units: Literal["cells", "pixels"] = "cells"
    """Unit of width and height: cells of the map, or pixels of the input."""
    scores: ScoreForm = "auto"
    """Whether heat is `probabilities` or `logits`."""


_CENTERNET = CenterNetOptions()


def decode_centernet(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every peak that is at least `context.confidence` hot."""
    options = context.options_or(_CENTERNET)
    heat_at, size_at, offset_at = _places(outputs, context)
    rows, columns = outputs[heat_at].shape[-2:]
    heat = outputs[heat_at].reshape(-1, rows, columns)
    logits = are_logits(heat, form=options.scores, op_type=context.op_type(heat_at))
    kept = select_pairs(np.where(_peaks(heat), heat, -np.inf).reshape(len(heat), -1), context.confidence, logits=logits)
    place = kept.class_id
    cell = np.array(context.size_wh, np.float32) / np.array((columns, rows), np.float32)
    centre = np.stack([place % columns, place // columns], axis=1).astype(np.float32)
    if offset_at is not None:
        centre += _pairs(outputs[offset_at])[place]
    size = _pairs(outputs[size_at])[place] * (cell if options.units == "cells" else 1)
    boxes = xyxy_from_cxcywh(np.concatenate([centre * cell, size], axis=1).astype(np.float32))
    return Candidates.from_arrays(boxes, kept.confidence, kept.rows)


def _peaks(heat: Array) -> Array:
    """Return where each map of `heat` (classes, rows, columns) is as hot as the hottest of the 3 x 3 cells around."""
    from sightline_plugins.opencv import cv2  # heads are imported to recognise models, where OpenCV is not needed

    plain = heat.astype(np.float32, copy=False)
    around = np.ones((3, 3), np.uint8)
    return np.stack([plane >= cv2.dilate(plane, around) for plane in plain])


def _pairs(output: Array) -> Array:
    return output.reshape(2, -1).T


def _places(outputs: Sequence[Array], context: DecodeContext) -> tuple[int, int, int | None]:
    """Return the places of heat, size and offset: by their names where these say it, else in this order."""
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


def match_centernet(signature: Signature) -> MatchScore:
    """Match three maps of one size, two of which have two channels."""
    shapes = signature.shapes
    if len(shapes) != 3 or any(len(shape) != 4 for shape in shapes):
        return MatchScore.NONE
    same = len({shape[2:] for shape in shapes}) == 1
    pairs = sum(shape[1] == 2 for shape in shapes)
    return MatchScore.certain_if(same and pairs >= 2)


def count_centernet_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the channels of the heat map."""
    others = [shape[1] for shape in shapes if len(shape) == 4 and shape[1] != 2]
    return others[0] if len(others) == 1 else None


CENTERNET = Head(
    name="centernet",
    family="CenterNet",
    outputs="heat (1, classes, h, w), size and offset (1, 2, h, w)",
    decode=decode_centernet,
    count_classes=count_centernet_classes,
    match_score=match_centernet,
    ranks=(4,),
    preprocessing={
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


class DetectNetOptions(HeadOptions):
    """Options of the head `detectnet_v2`."""

    box_norm: Annotated[float, Field(gt=0)] = 35.0
    """Distances are in this many pixels of the input."""
    offset: float = 0.5
    """Pixels from a cell's corner to the point that distances start from."""


_DETECTNET = DetectNetOptions()


def decode_detectnet(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every cell and class whose coverage is at least `context.confidence`."""
    options = context.options_or(_DETECTNET)
    coverage, boxes = _coverage_and_boxes(outputs)
    classes, rows, columns = coverage.shape
    kept = select_pairs(coverage.reshape(classes, -1), context.confidence, logits=False)
    class_id, place = kept.rows, kept.class_id
    distances = boxes.reshape(classes, 4, -1)[class_id, :, place] * np.float32(options.box_norm)
    stride = -(-context.size_wh[0] // columns), -(-context.size_wh[1] // rows)
    corner = np.stack([place % columns, place // columns], axis=1).astype(np.float32)
    points = corner * np.array(stride, np.float32) + np.float32(options.offset)
    return Candidates.from_arrays(boxes_from_distances(points, distances), kept.confidence, class_id)


def _coverage_and_boxes(outputs: Sequence[Array]) -> tuple[Array, Array]:
    """Return coverage (classes, rows, columns) and boxes (4 * classes, rows, columns)."""
    if len(outputs) == 2 and all(output.ndim >= 3 for output in outputs):
        first, second = sorted((output.reshape(output.shape[-3:]) for output in outputs), key=len)
        if len(second) == 4 * len(first) and first.shape[1:] == second.shape[1:]:
            return first, second
    raise ModelError(
        "head detectnet_v2: maps of coverage (classes) and of boxes (4 * classes) of one size are needed; the outputs "
        f"are {shapes_text(outputs)}"
    )


def match_detectnet(signature: Signature) -> MatchScore:
    """Match two maps of one size, one with four times the channels of the other."""
    shapes = signature.shapes
    if len(shapes) != 2 or any(len(shape) not in (3, 4) for shape in shapes):
        return MatchScore.NONE
    low, high = sorted(shape[-3] or 0 for shape in shapes)
    if not low or high != 4 * low or shapes[0][-2:] != shapes[1][-2:]:
        return MatchScore.NONE
    return MatchScore.CERTAIN if len(shapes[0]) == 4 else MatchScore.POSSIBLE


def count_detectnet_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the channels of the coverage map."""
    channels = [shape[-3] for shape in shapes if len(shape) >= 3]
    known = [count for count in channels if count is not None]
    return min(known) if len(known) == 2 else None


DETECTNET_V2 = Head(
    name="detectnet_v2",
    family="DetectNet_v2 of NVIDIA TAO",
    outputs="coverage (1, classes, h, w) and boxes (1, 4 * classes, h, w)",
    decode=decode_detectnet,
    count_classes=count_detectnet_classes,
    match_score=match_detectnet,
    ranks=(3, 4),
    preprocessing={"fit": "stretch", "color": "rgb", "scale": (255.0,)},
    nms=NmsOptions(iou=0.5),
    options=DetectNetOptions,
)
