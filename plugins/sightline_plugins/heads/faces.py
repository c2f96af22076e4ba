"""Face detectors, most of them with five landmarks.

`yunet`       twelve outputs, four for each of the strides 8, 16 and 32: cls and obj (1, cells, 1), after the logistic
              function, whose geometric mean is the score; bbox (1, cells, 4): the centre is (cell + value) * stride,
              the size exp(value) * stride; kps (1, cells, 10): points at (cell + value) * stride
              (ShiqiYu/libfacedetection.train, `onnx/yunet_n_dynamic.onnx`; OpenCV, `objdetect/src/face_detect.cpp`)
`scrfd`       for each of three levels (strides 8, 16, 32; two faces a cell) or five (to 128; one face a cell) scores
              (n, 1), after the logistic function, distances to left, top, right and bottom (n, 4), and perhaps
              landmarks (n, 10), from the cell's upper left corner in strides, in any order (deepinsight/insightface,
              `detection/scrfd/tools/scrfd.py`)
`ultraface`   scores (1, n, 2) of background and face, after softmax, and boxes (1, n, 4) as fractions of the input, in
              either order (Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB, `run_video_face_detect_onnx.py`)
`retinaface`  three tables with a row for each square prior of three levels (strides 8, 16, 32): offsets (1, n, 4),
              landmarks (1, n, 10), both divided by variances 0.1 and 0.2, and scores (1, n, 2) of background and face,
              raw or after softmax (biubug6/Pytorch_Retinaface, `layers/functions/prior_box.py`, `utils/box_utils.py`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from pydantic import model_validator

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.decoding import (
    Floats,
    anchor_boxes,
    are_logits,
    boxes_from_distances,
    boxes_from_offsets,
    cells_of,
    check_count,
    count_cells,
    levels_of,
    select_classes,
    select_pairs,
    shapes_text,
)
from sightline_plugins.heads.head import (
    TOP_LEFT,
    Array,
    Candidates,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    ScoreForm,
    Signature,
    SizeWh,
)
from sightline_plugins.nms.options import NmsOptions

LANDMARKS = 5
"""Right eye, left eye, nose, right and left corner of the mouth, each side as the person has it: the order of all heads
here and of `sightline.media.shapes.FACE_5`. Training code calls them left and right as they stand in the image."""


def _with_confidence(points: Array, confidence: Array) -> Floats:
    """Return points (N, K, 2) as (N, K, 3): each has the confidence of its face (N,)."""
    column = np.broadcast_to(confidence[:, None, None], (*points.shape[:2], 1))
    return np.concatenate([points, column], axis=2).astype(np.float32)


_LEVELS = {3: ((8, 16, 32), 2), 5: ((8, 16, 32, 64, 128), 1)}


def decode_scrfd(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every face that scores at least `context.confidence`."""
    scores = [output for output in outputs if output.shape[-1] == 1]
    sides = [output for output in outputs if output.shape[-1] == 4]
    marks = [output for output in outputs if output.shape[-1] == 2 * LANDMARKS]
    if len(scores) not in _LEVELS or len(sides) != len(scores) or len(marks) not in (0, len(scores)):
        raise ModelError(
            "head scrfd: scores (n, 1), distances (n, 4) and perhaps landmarks (n, 10) of three or five levels are "
            f"needed; the outputs are {shapes_text(outputs)}"
        )
    strides, each = _LEVELS[len(scores)]
    cells = cells_of(context.size_wh, strides, each=each)
    every = levels_of(scores, 1)
    check_count("scrfd", context.size_wh, expected=len(cells.stride), found=len(every))
    rows, class_id, confidence = select_pairs(every, context.confidence, logits=are_logits(every, form="auto"))
    stride = cells.stride[rows]
    origin = cells.corner[rows] * stride
    boxes = boxes_from_distances(origin, levels_of(sides, 4)[rows] * stride)
    points = None
    if marks:
        shifts = levels_of(marks, 2 * LANDMARKS)[rows].reshape(-1, LANDMARKS, 2)
        points = _with_confidence(origin[:, None] + shifts * stride[:, None], confidence)
    return Candidates.from_arrays(boxes, confidence, class_id, points=points)


def match_scrfd(signature: Signature) -> MatchScore:
    """Match tables of one and four columns, and perhaps of ten, each on three or five levels."""
    widths = [shape[-1] for shape in signature.shapes if len(shape) in (2, 3)]
    levels = widths.count(1)
    if levels not in _LEVELS or widths.count(4) != levels or widths.count(10) not in (0, levels):
        return MatchScore.NONE
    return MatchScore.certain_if(len(signature.shapes) == 2 * levels + widths.count(10))


SCRFD = Head(
    name="scrfd",
    family="SCRFD: faces, five landmarks",
    outputs="scores, distances and landmarks of three levels",
    labels=("face",),
    decode=decode_scrfd,
    count_classes=lambda _: 1,
    match_score=match_scrfd,
    ranks=(2, 3),
    preprocessing={"color": "rgb", "mean": (127.5,), "scale": (128.0,), "pad": (0,), **TOP_LEFT},
    nms=NmsOptions(iou=0.4),
)


_YUNET_STRIDES = (8, 16, 32)
_YUNET_WIDTHS = {1: 2 * len(_YUNET_STRIDES), 4: len(_YUNET_STRIDES), 2 * LANDMARKS: len(_YUNET_STRIDES)}


def decode_yunet(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every cell that scores at least `context.confidence`."""
    of_width = {width: [output for output in outputs if output.shape[-1] == width] for width in _YUNET_WIDTHS}
    if {width: len(found) for width, found in of_width.items()} != _YUNET_WIDTHS:
        raise ModelError(
            "head yunet: cls, obj, bbox and kps of three levels are needed, (1, cells, 1, 1, 4 and 10); the outputs are"
            f" {shapes_text(outputs)}"
        )
    cells = cells_of(context.size_wh, _YUNET_STRIDES)
    score = _yunet_scores(of_width[1])
    check_count("yunet", context.size_wh, expected=len(cells.stride), found=len(score))
    kept = np.flatnonzero(score >= context.confidence)
    corner, stride = cells.corner[kept], cells.stride[kept]
    values = levels_of(of_width[4], 4)[kept]
    with np.errstate(over="ignore"):
        cxcywh = np.concatenate([(corner + values[:, :2]) * stride, np.exp(values[:, 2:]) * stride], axis=1)
    shifts = levels_of(of_width[2 * LANDMARKS], 2 * LANDMARKS)[kept].reshape(-1, LANDMARKS, 2)
    points = (corner[:, None] + shifts) * stride[:, None]
    return Candidates.from_arrays(
        xyxy_from_cxcywh(cxcywh.astype(np.float32)),
        score[kept],
        np.zeros(len(kept)),
        points=_with_confidence(points, score[kept]),
    )


def _yunet_scores(outputs: Sequence[Array]) -> Array:
    """Return the square root of the product of both scores of each cell; their size tells the levels apart."""
    levels = sorted((output.reshape(-1) for output in outputs), key=len, reverse=True)
    pairs = list(zip(levels[::2], levels[1::2], strict=True))
    if any(len(one) != len(other) for one, other in pairs):
        raise ModelError(f"head yunet: cls and obj differ in size: {shapes_text(outputs)}")
    roots: Array = np.sqrt(np.clip(np.concatenate([one * other for one, other in pairs]), 0, 1))
    return roots


def match_yunet(signature: Signature) -> MatchScore:
    """Match twelve tables: six columns of scores, three of boxes, three of landmarks."""
    return MatchScore.certain_if(Counter(shape[-1] for shape in signature.shapes) == _YUNET_WIDTHS)


YUNET = Head(
    name="yunet",
    family="YuNet: faces, five landmarks",
    outputs="twelve: cls, obj, bbox, kps of three levels",
    labels=("face",),
    decode=decode_yunet,
    count_classes=lambda _: 1,
    match_score=match_yunet,
    preprocessing={
        "fit": "native",
        "multiple": 32,
        "align": "top_left",
        "color": "bgr",
        "scale": (1.0,),
        "pad": (0,),
    },
    nms=NmsOptions(iou=0.3),
)


_BOXES_A_CELL = {8: 3, 16: 2, 32: 2, 64: 3}
"""By stride (`vision/ssd/config/fd_config.py`: min_boxes)."""


def decode_ultraface(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every box that scores at least `context.confidence`."""
    by_width = {output.shape[-1]: place for place, output in enumerate(outputs)}
    if len(outputs) != 2 or set(by_width) != {2, 4}:
        raise ModelError(
            f"head ultraface: scores (n, 2) and boxes (n, 4) are needed; the outputs are {shapes_text(outputs)}"
        )
    scores, boxes = outputs[by_width[2]].reshape(-1, 2), outputs[by_width[4]].reshape(-1, 4)
    if len(scores) != len(boxes):
        raise ModelError(f"head ultraface: scores and boxes do not fit each other: {shapes_text(outputs)}")
    op_type = context.op_type(by_width[2])
    rows, class_id, confidence = select_classes(scores, context.confidence, background=0, form="auto", op_type=op_type)
    return Candidates.from_arrays(boxes[rows] * np.array(context.size_wh * 2, np.float32), confidence, class_id)


def match_ultraface(signature: Signature) -> MatchScore:
    """Match tables of 2 and 4 columns with as many rows as the family has boxes; or by the names scores and boxes."""
    shapes = signature.shapes
    if len(shapes) != 2 or {shape[-1] for shape in shapes} != {2, 4} or any(len(shape) != 3 for shape in shapes):
        return MatchScore.NONE
    size_wh = signature.size_wh
    expected = sum(count_cells(size_wh, (stride,)) * boxes for stride, boxes in _BOXES_A_CELL.items())
    if expected and shapes[0][1] == shapes[1][1] == expected:
        return MatchScore.CERTAIN
    names = {output.name for output in signature.outputs}
    return MatchScore.POSSIBLE if names == {"scores", "boxes"} else MatchScore.NONE


ULTRAFACE = Head(
    name="ultraface",
    family="UltraFace: faces",
    outputs="(1, n, 2) and (1, n, 4), decoded",
    labels=("face",),
    decode=decode_ultraface,
    count_classes=lambda _: 1,
    match_score=match_ultraface,
    ranks=(3,),
    preprocessing={"fit": "stretch", "color": "rgb", "mean": (127.0,), "scale": (128.0,)},
    nms=NmsOptions(iou=0.5),
)


Sides = tuple[tuple[float, ...], ...]


class RetinaFaceOptions(HeadOptions):
    """Options of the head `retinaface`."""

    strides: tuple[int, ...] = (8, 16, 32)
    """Stride in pixels of the input, for each level."""
    sides: Sides = ((16, 32), (64, 128), (256, 512))
    """Sides of the priors in each cell, in pixels of the input, for each level."""
    variances: tuple[float, float] = (0.1, 0.2)
    """Factors of the offsets of the centre (and of landmarks), and of the size."""
    scores: ScoreForm = "auto"
    """Whether scores are `probabilities` or `logits` (before the softmax)."""

    @model_validator(mode="after")
    def _check_levels(self) -> RetinaFaceOptions:
        if len(self.sides) != len(self.strides):
            raise ValueError(f"sides for each of {len(self.strides)} strides are needed")
        return self


_RETINAFACE = RetinaFaceOptions()


def decode_retinaface(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every prior that scores at least `context.confidence`."""
    options = context.options_or(_RETINAFACE)
    by_width = {output.shape[-1]: place for place, output in enumerate(outputs)}
    if len(outputs) != 3 or set(by_width) != {2, 4, 2 * LANDMARKS}:
        raise ModelError(
            "head retinaface: offsets (n, 4), scores (n, 2) and landmarks (n, 10) are needed; the outputs are "
            f"{shapes_text(outputs)}"
        )
    scores = outputs[by_width[2]].reshape(-1, 2)
    priors = _retinaface_priors(options, context.size_wh)
    check_count("retinaface", context.size_wh, expected=len(priors), found=len(scores))
    rows, class_id, confidence = select_classes(
        scores, context.confidence, background=0, form=options.scores, op_type=context.op_type(by_width[2])
    )
    around = priors[rows]
    boxes = boxes_from_offsets(outputs[by_width[4]].reshape(-1, 4)[rows], around, variances=options.variances)
    shifts = outputs[by_width[10]].reshape(-1, LANDMARKS, 2)[rows] * options.variances[0]
    points = shifts * around[:, None, 2:] + around[:, None, :2]
    return Candidates.from_arrays(boxes, confidence, class_id, points=_with_confidence(points, confidence))


@lru_cache(maxsize=16)
def _retinaface_priors(options: RetinaFaceOptions, size_wh: SizeWh) -> Floats:
    squares = (np.array([(side, side) for side in sides], np.float64) for sides in options.sides)
    return anchor_boxes(size_wh, options.strides, squares, offset=0.5)


def match_retinaface(signature: Signature) -> MatchScore:
    """Match three tables of 4, 2 and 10 columns; with a known size also of as many rows as there are priors."""
    shapes = signature.shapes
    if len(shapes) != 3 or {shape[-1] for shape in shapes} != {2, 4, 2 * LANDMARKS}:
        return MatchScore.NONE
    rows = shapes[0][-2] if len(shapes[0]) > 1 else None
    expected = sum(
        count_cells(signature.size_wh, (stride,)) * len(sides)
        for stride, sides in zip(_RETINAFACE.strides, _RETINAFACE.sides, strict=True)
    )
    return MatchScore.CERTAIN if rows is None or not expected or rows == expected else MatchScore.POSSIBLE


RETINAFACE = Head(
    name="retinaface",
    family="RetinaFace: faces, five landmarks",
    outputs="(1, n, 4), (1, n, 2), (1, n, 10)",
    labels=("face",),
    decode=decode_retinaface,
    count_classes=lambda _: 1,
    match_score=match_retinaface,
    ranks=(2, 3),
    preprocessing={"color": "bgr", "mean": (104.0, 117.0, 123.0), "scale": (1.0,), "pad": (104, 117, 123), **TOP_LEFT},
    nms=NmsOptions(iou=0.4),
    options=RetinaFaceOptions,
)
