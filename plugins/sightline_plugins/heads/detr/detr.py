"""The DETR family before its post-processing: a set of boxes, and scores of every class for each.

Boxes (1, queries, 4) are centre, width and height as shares of the input; scores are (1, queries, classes); in either
order.

`detr`     the classes and, last, "no object" exclude each other: a softmax (facebookresearch/detr, `models/detr.py`:
           PostProcess)
`rt_detr`  every class by itself: the logistic function (lyuwenyu/RT-DETR, `src/zoo/rtdetr/rtdetr_postprocessor.py`);
           also Deformable DETR, DEIM, D-FINE
`rf_detr`  the same with the pre-processing of RF-DETR, whose outputs are called dets and labels (roboflow/rf-detr); of
           COCO it numbers 91 classes, as COCO does
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.anchor_based.retinanet import match_score as match_retinanet
from sightline_plugins.heads.anchor_based.ssd import is_dense_pair
from sightline_plugins.heads.anchor_based.ssd import match_score as match_ssd
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
from sightline_plugins.heads.outputs import count_cells, named, op_type_of, shapes_text
from sightline_plugins.heads.thresholding import Selection, are_logits, select_classes, select_pairs
from sightline_plugins.heads.yolo.layout import PYRAMIDS
from sightline_plugins.nms import NmsOptions

_MOST_QUERIES = 1000
_FIRST_QUERIES = 100


class SetOptions(HeadOptions):
    """Settings of the heads `detr`, `rt_detr` and `rf_detr`."""

    scores: ScoreForm = "auto"
    """Whether scores are `probabilities` or `logits`."""


_OPTIONS = SetOptions()


def decode_exclusive(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every query whose best class scores at least `reading.confidence`."""
    boxes, scores, op_type = _tables(outputs, context)
    form = options_of(context, _OPTIONS).scores
    sure = select_classes(scores, context.confidence, background=-1, form=form, op_type=op_type)
    best = sure.confidence == _best_of_rows(sure, len(scores))[sure.rows]
    return _candidates(boxes, Selection(sure.rows[best], sure.class_id[best], sure.confidence[best]), context)


def decode_independent(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every query and class that scores at least `reading.confidence`."""
    boxes, scores, op_type = _tables(outputs, context)
    logits = are_logits(scores, form=options_of(context, _OPTIONS).scores, op_type=op_type)
    return _candidates(boxes, select_pairs(scores, context.confidence, logits=logits), context)


def _tables(outputs: Sequence[Array], context: DecodeContext) -> tuple[Array, Array, str]:
    """Boxes (queries, 4), scores (queries, columns), and what made the scores."""
    fours = [place for place, output in enumerate(outputs) if output.shape[-1] == 4]
    if len(fours) > 1:
        fours = named(outputs, context, "box", "dets") or fours[1:]
    if len(outputs) != 2 or len(fours) != 1:
        raise ModelError(
            f"head detr: boxes (queries, 4) and scores (queries, classes) are needed; the outputs are "
            f"{shapes_text(outputs)}"
        )
    other = 1 - fours[0]
    boxes, scores = outputs[fours[0]].reshape(-1, 4), outputs[other].reshape(-1, outputs[other].shape[-1])
    if len(boxes) != len(scores):
        raise ModelError(f"head detr: boxes and scores do not fit each other: {shapes_text(outputs)}")
    return boxes, scores, op_type_of(context, other)


def _best_of_rows(sure: Selection, rows: int) -> Array:
    best = np.zeros(rows, np.float32)
    np.maximum.at(best, sure.rows, sure.confidence)
    return best


def _candidates(boxes: Array, sure: Selection, context: DecodeContext) -> Candidates:
    found = xyxy_from_cxcywh(np.asarray(boxes[sure.rows], np.float32)) * np.array(context.size_wh * 2, np.float32)
    return Candidates.from_arrays(found, sure.confidence, sure.class_id)


def _columns(signature: Signature) -> int | None:
    """The columns of the scores, when the outputs can be a set's: not too many rows, and no grid's or prior's."""
    if not is_dense_pair(signature):
        return None
    rows = signature.shapes[0][1] or 0
    grids = [count_cells(signature.size_wh, strides) for strides in PYRAMIDS]
    others = (match_retinanet(signature), match_ssd(signature))
    if rows > _MOST_QUERIES or rows in grids or MatchScore.CERTAIN in others:
        return None
    widths = [shape[2] or 0 for shape in signature.shapes]
    return widths[0] if widths[1] == 4 else widths[1]


def _is_rf_detr(signature: Signature) -> bool:
    return {output.name for output in signature.outputs} == {"dets", "labels"}


def match_exclusive(signature: Signature) -> MatchScore:
    """One column more than labels; without labels 100 queries, or columns for COCO's 91 and "no object"."""
    columns = _columns(signature)
    if columns is None or _is_rf_detr(signature):
        return MatchScore.NONE
    if signature.classes is not None:
        return MatchScore.CERTAIN if columns == signature.classes + 1 else MatchScore.NONE
    if columns == 92:
        return MatchScore.CERTAIN
    return MatchScore.POSSIBLE if signature.shapes[0][1] == _FIRST_QUERIES else MatchScore.NONE


def match_independent(signature: Signature) -> MatchScore:
    """As many columns as labels; without labels other than 100 queries."""
    columns = _columns(signature)
    if columns is None or _is_rf_detr(signature):
        return MatchScore.NONE
    if signature.classes is not None:
        return MatchScore.CERTAIN if columns == signature.classes else MatchScore.NONE
    if columns == 92:
        return MatchScore.NONE
    return MatchScore.POSSIBLE if signature.shapes[0][1] == _FIRST_QUERIES else MatchScore.CERTAIN


def match_rf_detr(signature: Signature) -> MatchScore:
    """Outputs called dets and labels."""
    return MatchScore.CERTAIN if _is_rf_detr(signature) and is_dense_pair(signature) else MatchScore.NONE


def _count(shapes: Sequence[Shape], *, besides: int) -> int | None:
    others = [shape[-1] for shape in shapes if shape[-1] != 4]
    return others[0] - besides if len(others) == 1 and others[0] is not None else None


_IMAGENET = {"mean": (123.675, 116.28, 103.53), "scale": (58.395, 57.12, 57.375)}

DETR = Head(
    name="detr",
    decode=decode_exclusive,
    count_classes=lambda shapes: _count(shapes, besides=1),
    match_score=match_exclusive,
    ranks=(2, 3),
    usual={"fit": "stretch", "color": "rgb", **_IMAGENET},
    nms=NmsOptions(iou=1.0),
    options=SetOptions,
)
RT_DETR = Head(
    name="rt_detr",
    decode=decode_independent,
    count_classes=lambda shapes: _count(shapes, besides=0),
    match_score=match_independent,
    ranks=(2, 3),
    usual={"fit": "stretch", "color": "rgb", "scale": (255.0,)},
    nms=NmsOptions(iou=1.0),
    options=SetOptions,
)
RF_DETR = Head(
    name="rf_detr",
    decode=decode_independent,
    count_classes=lambda shapes: _count(shapes, besides=0),
    match_score=match_rf_detr,
    ranks=(2, 3),
    usual={"fit": "stretch", "color": "rgb", **_IMAGENET},
    nms=NmsOptions(iou=1.0),
    options=SetOptions,
)
