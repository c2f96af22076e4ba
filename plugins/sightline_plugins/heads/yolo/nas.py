"""YOLO-NAS (Deci-AI/super-gradients, `training/models/detection_models/yolo_nas`; `documentation/source`:
models_export.md).

`yolo_nas`       without suppression: boxes (1, boxes, 4), x1, y1, x2, y2 in pixels of the network's input, and class
                 probabilities (1, boxes, classes)
`yolo_nas_rows`  its flat format with suppression: rows of image, x1, y1, x2, y2, score, class (the score comes before
                 the class, other than in the rows of seven that `end_to_end` reads)

Its batch format has finished boxes: head `end_to_end`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.head import Array, Candidates, DecodeContext, Head, MatchScore, Shape, Signature
from sightline_plugins.heads.yolo.layout import USUAL, best_classes, box_table, confident_rows
from sightline_plugins.nms import NmsOptions

FLAT = "flat_predictions"
"""Part of the name that the exporter gives the output of the flat format."""


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every box whose best class scores at least `reading.confidence`."""
    tables: list[Array] = [array.reshape(array.shape[-2:]) for array in outputs if array.ndim >= 2]
    place = next((number for number, table in enumerate(tables) if table.shape[1] == 4), None)
    if len(tables) != 2 or place is None or len(tables[0]) != len(tables[1]):
        sizes = ", ".join(str(array.shape) for array in outputs)
        raise ModelError(f"head yolo_nas: boxes (1, n, 4) and scores (1, n, classes) are needed; outputs: {sizes}")
    sure, score, class_id = best_classes(tables[1 - place].T, context.confidence)
    return Candidates.from_arrays(np.asarray(tables[place][sure], np.float32), score, class_id)


def decode_rows(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image with at least that confidence, chosen by the model."""
    rows = outputs[0].reshape(-1, outputs[0].shape[-1])
    if rows.shape[1] != 7:
        raise ModelError(f"head yolo_nas_rows: rows of 7 values are needed; the output is {outputs[0].shape}")
    found = confident_rows(rows[:, 1:], context.confidence)
    return Candidates.from_arrays(found[:, :4], found[:, 4], found[:, 5])


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The last size of the output beside the boxes."""
    tables = _boxes_and_scores(shapes)
    return None if tables is None else tables[1][-1]


def match_score(signature: Signature) -> MatchScore:
    """Two tables of one row for each cell."""
    tables = _boxes_and_scores(signature.shapes)
    if tables is None or tables[0][1] != tables[1][1] or signature.classes not in (None, tables[1][2]):
        return MatchScore.NONE
    boxes, values = tables[0][1], tables[1][2]
    if boxes is None or values is None:
        return MatchScore.POSSIBLE if values is not None else MatchScore.NONE
    table = box_table((1, 1, boxes), signature.size_wh)
    return MatchScore.CERTAIN if table is not None and table.per_cell == 1 else MatchScore.NONE


def match_rows(signature: Signature) -> MatchScore:
    """Rows of seven that are named as the exporter names them."""
    is_flat = len(signature.outputs) == 1 and FLAT in signature.outputs[0].name and signature.shapes[0][-1] == 7
    return MatchScore.CERTAIN if is_flat else MatchScore.NONE


def _boxes_and_scores(shapes: Sequence[Shape]) -> tuple[Shape, Shape] | None:
    if [len(shape) for shape in shapes] != [3, 3]:
        return None
    first, second = shapes
    if first[2] == 4:
        return first, second
    return (second, first) if second[2] == 4 else None


YOLO_NAS = Head(
    name="yolo_nas",
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(2, 3),
    usual=USUAL,
    nms=NmsOptions(iou=0.7),
)
YOLO_NAS_ROWS = Head(
    name="yolo_nas_rows",
    decode=decode_rows,
    match_score=match_rows,
    ranks=(2, 3),
    usual=USUAL,
    nms=NmsOptions(iou=1.0),
)
