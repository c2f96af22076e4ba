"""FastestDet: one map of (1, 5 + classes, rows, columns).

The channels are objectness, tanh offsets of the centre, logistic width and height as shares of the image, then class
probabilities; the score is objectness^0.6 * class^0.4 (dog-qiuqiu/FastestDet, `utils/tool.py`: handle_preds). The
network reacts to single levels of its input, so its pre-processing follows the published one exactly: the whole image
is converted first and resized by area.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature
from sightline_plugins.nms import NmsOptions

OBJECT_POWER = 0.6
_CLASS_POWER = 0.4
_SMALLEST_MAP = 16


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every cell whose best class scores at least `reading.confidence`."""
    confidence = context.confidence
    _, channels, rows, columns = outputs[0].shape
    cells = outputs[0].reshape(channels, rows * columns)
    likely = np.flatnonzero(cells[0] >= confidence ** (1 / OBJECT_POWER))
    found = cells[:, likely].astype(np.float64)
    class_id = found[5:].argmax(axis=0)
    score = (found[0] ** OBJECT_POWER * found[5:].max(axis=0, initial=0) ** _CLASS_POWER).astype(np.float32)
    sure = score >= confidence
    found, place = found[:, sure], likely[sure]
    grid = np.array([[columns], [rows]], np.float32)
    corner = np.stack([place % columns, place // columns])
    centre = (corner + np.tanh(found[1:3])) / grid
    with np.errstate(over="ignore"):
        size = 1 / (1 + np.exp(-found[3:5]))
    cxcywh = np.concatenate([centre, size]).T * np.array(context.size_wh * 2, np.float32)
    return Candidates.from_arrays(xyxy_from_cxcywh(cxcywh.astype(np.float32)), score[sure], class_id[sure])


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The number of classes that the shape of the output tells."""
    return None if shapes[0][1] is None else shapes[0][1] - 5


def match_score(signature: Signature) -> MatchScore:
    """One map of 6 channels or more whose cells divide the input evenly."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) != 4:
        return MatchScore.NONE
    _, channels, rows, columns = signature.shapes[0]
    if channels is None or channels <= 5 or not rows or not columns or rows * columns < _SMALLEST_MAP:
        return MatchScore.NONE
    fits = signature.size_wh[0] % columns == 0 and signature.size_wh[1] % rows == 0
    return MatchScore.CERTAIN if fits else MatchScore.NONE


HEAD = Head(
    name="fastestdet",
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(4,),
    usual={"fit": "stretch", "resize": "area", "convert": "image", "color": "bgr", "scale": (255.0,)},
    nms=NmsOptions(iou=0.45, class_agnostic=True),
)
