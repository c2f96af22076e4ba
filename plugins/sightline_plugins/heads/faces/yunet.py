"""YuNet: faces with five landmarks, from twelve outputs, four for each of the strides 8, 16 and 32.

cls and obj (1, cells, 1), logistic already, whose geometric mean is the score; bbox (1, cells, 4): the centre is (cell
+ value) * stride, the size exp(value) * stride; kps (1, cells, 10): points at (cell + value) * stride
(ShiqiYu/libfacedetection.train, `onnx/yunet_n_dynamic.onnx`; OpenCV, `modules/objdetect/src/face_detect.cpp`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.faces.points import LANDMARKS, with_confidence
from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature
from sightline_plugins.heads.outputs import cells_of, check_count, levels_of, shapes_text
from sightline_plugins.nms import NmsOptions

STRIDES = (8, 16, 32)
_WIDTHS = {1: 2 * len(STRIDES), 4: len(STRIDES), 2 * LANDMARKS: len(STRIDES)}


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every cell that scores at least `reading.confidence`."""
    of_width = {width: [output for output in outputs if output.shape[-1] == width] for width in _WIDTHS}
    if {width: len(found) for width, found in of_width.items()} != _WIDTHS:
        raise ModelError(
            "head yunet: cls, obj, bbox and kps of three levels are needed, (1, cells, 1, 1, 4 and 10); the outputs are"
            f" {shapes_text(outputs)}"
        )
    cells = cells_of(context.size_wh, STRIDES)
    score = _scores(of_width[1])
    check_count("yunet", context.size_wh, expected=len(cells.stride), found=len(score))
    sure = np.flatnonzero(score >= context.confidence)
    corner, stride = cells.corner[sure], cells.stride[sure]
    values = levels_of(of_width[4], 4)[sure]
    with np.errstate(over="ignore"):
        cxcywh = np.concatenate([(corner + values[:, :2]) * stride, np.exp(values[:, 2:]) * stride], axis=1)
    shifts = levels_of(of_width[2 * LANDMARKS], 2 * LANDMARKS)[sure].reshape(-1, LANDMARKS, 2)
    points = (corner[:, None] + shifts) * stride[:, None]
    return Candidates.from_arrays(
        xyxy_from_cxcywh(cxcywh.astype(np.float32)),
        score[sure],
        np.zeros(len(sure)),
        points=with_confidence(points, score[sure]),
    )


def _scores(outputs: Sequence[Array]) -> Array:
    """The roots of both scores of each cell: levels are told apart by their size, and a product has no order."""
    levels = sorted((output.reshape(-1) for output in outputs), key=len, reverse=True)
    if any(len(one) != len(other) for one, other in zip(levels[::2], levels[1::2], strict=True)):
        raise ModelError(f"head yunet: cls and obj differ in size: {shapes_text(outputs)}")
    pairs: list[Array] = [one * other for one, other in zip(levels[::2], levels[1::2], strict=True)]
    roots: Array = np.sqrt(np.clip(np.concatenate(pairs), 0, 1))
    return roots


def match_score(signature: Signature) -> MatchScore:
    """Twelve tables: six columns of scores, three of boxes, three of landmarks."""
    widths = [shape[-1] for shape in signature.shapes]
    fits = len(widths) == sum(_WIDTHS.values()) and all(widths.count(width) == n for width, n in _WIDTHS.items())
    return MatchScore.CERTAIN if fits else MatchScore.NONE


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """One: faces."""
    del shapes
    return 1


HEAD = Head(
    name="yunet",
    labels=("face",),
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    usual={
        "fit": "native",
        "multiple": 32,
        "align": "top_left",
        "color": "bgr",
        "scale": (1.0,),
        "pad": (0,),
    },
    nms=NmsOptions(iou=0.3),
)
