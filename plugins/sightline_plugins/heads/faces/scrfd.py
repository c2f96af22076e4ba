"""SCRFD: faces from points on three levels (strides 8, 16, 32), two faces a cell; with landmarks or without.

For each level scores (n, 1), logistic already, distances to left, top, right and bottom (n, 4) and landmarks (n, 10),
all from the cell's upper left corner and in strides; with or without a batch in front, in any order. Models with five
levels (to stride 128) have one face a cell (deepinsight/insightface, `detection/scrfd/tools/scrfd.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sightline.errors import ModelError
from sightline_plugins.heads.faces.points import LANDMARKS, with_confidence
from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature
from sightline_plugins.heads.outputs import boxes_from_distances, cells_of, check_count, levels_of, shapes_text
from sightline_plugins.heads.thresholding import are_logits, select_pairs
from sightline_plugins.nms import NmsOptions

_LEVELS = {3: ((8, 16, 32), 2), 5: ((8, 16, 32, 64, 128), 1)}


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every face that scores at least `reading.confidence`."""
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
        points = with_confidence(origin[:, None] + shifts * stride[:, None], confidence)
    return Candidates.from_arrays(boxes, confidence, class_id, points=points)


def match_score(signature: Signature) -> MatchScore:
    """Tables of one and four columns, and perhaps of ten, each on three or five levels."""
    widths = [shape[-1] for shape in signature.shapes if len(shape) in (2, 3)]
    levels = widths.count(1)
    if levels not in _LEVELS or widths.count(4) != levels or widths.count(10) not in (0, levels):
        return MatchScore.NONE
    return MatchScore.CERTAIN if len(signature.shapes) == 2 * levels + widths.count(10) else MatchScore.NONE


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """One: faces."""
    del shapes
    return 1


HEAD = Head(
    name="scrfd",
    labels=("face",),
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(2, 3),
    usual={
        "fit": "letterbox",
        "align": "top_left",
        "color": "rgb",
        "mean": (127.5,),
        "scale": (128.0,),
        "pad": (0,),
    },
    nms=NmsOptions(iou=0.4),
)
