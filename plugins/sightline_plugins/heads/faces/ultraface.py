"""UltraFace: faces with decoded boxes, to be thinned out.

Scores (1, n, 2) of background and face, soft-maxed, and boxes (1, n, 4) x1, y1, x2, y2 as shares of the input, in
either order (Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB, `run_video_face_detect_onnx.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature
from sightline_plugins.heads.outputs import count_cells, op_type_of, shapes_text
from sightline_plugins.heads.thresholding import select_classes
from sightline_plugins.nms import NmsOptions

_BOXES_A_CELL = {8: 3, 16: 2, 32: 2, 64: 3}
"""By stride (`vision/ssd/config/fd_config.py`: min_boxes)."""


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every box that scores at least `reading.confidence`."""
    by_width = {output.shape[-1]: place for place, output in enumerate(outputs)}
    if len(outputs) != 2 or set(by_width) != {2, 4}:
        raise ModelError(
            f"head ultraface: scores (n, 2) and boxes (n, 4) are needed; the outputs are {shapes_text(outputs)}"
        )
    scores, boxes = outputs[by_width[2]].reshape(-1, 2), outputs[by_width[4]].reshape(-1, 4)
    if len(scores) != len(boxes):
        raise ModelError(f"head ultraface: scores and boxes do not fit each other: {shapes_text(outputs)}")
    op_type = op_type_of(context, by_width[2])
    rows, class_id, confidence = select_classes(scores, context.confidence, background=0, form="auto", op_type=op_type)
    return Candidates.from_arrays(boxes[rows] * np.array(context.size_wh * 2, np.float32), confidence, class_id)


def match_score(signature: Signature) -> MatchScore:
    """Tables of 2 and 4 columns with as many rows as the family has boxes; or by the names scores and boxes."""
    shapes = signature.shapes
    if len(shapes) != 2 or {shape[-1] for shape in shapes} != {2, 4} or any(len(shape) != 3 for shape in shapes):
        return MatchScore.NONE
    size_wh = signature.size_wh
    expected = sum(count_cells(size_wh, (stride,)) * boxes for stride, boxes in _BOXES_A_CELL.items())
    if expected and shapes[0][1] == shapes[1][1] == expected:
        return MatchScore.CERTAIN
    names = {output.name for output in signature.outputs}
    return MatchScore.POSSIBLE if names == {"scores", "boxes"} else MatchScore.NONE


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """One: faces."""
    del shapes
    return 1


HEAD = Head(
    name="ultraface",
    labels=("face",),
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(3,),
    usual={"fit": "stretch", "color": "rgb", "mean": (127.0,), "scale": (128.0,)},
    nms=NmsOptions(iou=0.5),
)
