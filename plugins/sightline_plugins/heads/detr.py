"""The DETR family before its post-processing: a fixed set of boxes, each with a score for every class.

Boxes (1, queries, 4) are centre, width and height as fractions of the input; scores are (1, queries, classes). The two
outputs may come in either order.

`detr`     softmax over the classes and, last, "no object" (facebookresearch/detr, `models/detr.py`: PostProcess)
`rt_detr`  a logistic score for each class (lyuwenyu/RT-DETR, `src/zoo/rtdetr/rtdetr_postprocessor.py`); also
           Deformable DETR, DEIM and D-FINE
`rf_detr`  like `rt_detr` with RF-DETR's pre-processing; its outputs are called dets and labels, and its COCO models
           number 91 classes, as COCO does (roboflow/rf-detr)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.anchor_based.retinanet import match_retinanet
from sightline_plugins.heads.anchor_based.ssd import match_ssd
from sightline_plugins.heads.decoding import (
    PYRAMIDS,
    Selection,
    are_logits,
    count_cells,
    is_dense_pair,
    named,
    select_classes,
    select_pairs,
    shapes_text,
)
from sightline_plugins.heads.head import (
    IMAGENET,
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

_MOST_QUERIES = 1000
_FIRST_QUERIES = 100
_COCO_COLUMNS = 92
"""COCO numbers 91 classes; "no object" is one more."""


class SetOptions(HeadOptions):
    """Options of the heads `detr`, `rt_detr` and `rf_detr`."""

    scores: ScoreForm = "auto"
    """Whether scores are `probabilities` or `logits`."""


_DEFAULTS = SetOptions()


def decode_exclusive(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every query whose best class scores at least `context.confidence`."""
    boxes, scores, op_type = _tables(outputs, context)
    form = context.options_or(_DEFAULTS).scores
    kept = select_classes(scores, context.confidence, background=-1, form=form, op_type=op_type)
    best_of_rows = np.zeros(len(scores), np.float32)
    np.maximum.at(best_of_rows, kept.rows, kept.confidence)
    best = kept.confidence == best_of_rows[kept.rows]
    return _candidates(boxes, Selection(kept.rows[best], kept.class_id[best], kept.confidence[best]), context)


def decode_independent(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every query and class that scores at least `context.confidence`."""
    boxes, scores, op_type = _tables(outputs, context)
    logits = are_logits(scores, form=context.options_or(_DEFAULTS).scores, op_type=op_type)
    return _candidates(boxes, select_pairs(scores, context.confidence, logits=logits), context)


def _tables(outputs: Sequence[Array], context: DecodeContext) -> tuple[Array, Array, str]:
    """Return boxes (queries, 4), scores (queries, columns), and the operator that produces the scores."""
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
    return boxes, scores, context.op_type(other)


def _candidates(boxes: Array, kept: Selection, context: DecodeContext) -> Candidates:
    found = xyxy_from_cxcywh(np.asarray(boxes[kept.rows], np.float32)) * np.array(context.size_wh * 2, np.float32)
    return Candidates.from_arrays(found, kept.confidence, kept.class_id)


def _columns(signature: Signature) -> int | None:
    """Return the columns of the scores if the outputs can be a fixed set: few rows, not those of a grid or anchors."""
    if not is_dense_pair(signature) or _is_rf_detr(signature):
        return None
    rows = signature.shapes[0][1] or 0
    grids = [count_cells(signature.size_wh, strides) for strides in PYRAMIDS]
    others = (match_retinanet(signature), match_ssd(signature))
    if rows > _MOST_QUERIES or rows in grids or MatchScore.CERTAIN in others:
        return None
    widths = [shape[2] for shape in signature.shapes]
    return widths[0] if widths[1] == 4 else widths[1]


def _is_rf_detr(signature: Signature) -> bool:
    return {output.name for output in signature.outputs} == {"dets", "labels"}


def match_exclusive(signature: Signature) -> MatchScore:
    """Match one column more than labels; without labels 100 queries, or columns for COCO's 91 and "no object"."""
    columns = _columns(signature)
    if columns is None or signature.classes is not None:
        return MatchScore.certain_if(columns is not None and columns - 1 == signature.classes)
    if columns == _COCO_COLUMNS:
        return MatchScore.CERTAIN
    return MatchScore.POSSIBLE if signature.shapes[0][1] == _FIRST_QUERIES else MatchScore.NONE


def match_independent(signature: Signature) -> MatchScore:
    """Match as many columns as labels; without labels other than 100 queries."""
    columns = _columns(signature)
    if columns is None or signature.classes is not None:
        return MatchScore.certain_if(columns is not None and columns == signature.classes)
    if columns == _COCO_COLUMNS:
        return MatchScore.NONE
    return MatchScore.POSSIBLE if signature.shapes[0][1] == _FIRST_QUERIES else MatchScore.CERTAIN


def match_rf_detr(signature: Signature) -> MatchScore:
    """Match outputs called dets and labels."""
    return MatchScore.certain_if(_is_rf_detr(signature) and is_dense_pair(signature))


def _count(shapes: Sequence[Shape], *, besides: int) -> int | None:
    others = [shape[-1] for shape in shapes if shape[-1] != 4]
    return others[0] - besides if len(others) == 1 and others[0] is not None else None


DETR = Head(
    name="detr",
    family="DETR",
    outputs="(1, queries, classes + 1) and (1, queries, 4): softmax, 'no object' last",
    decode=decode_exclusive,
    count_classes=lambda shapes: _count(shapes, besides=1),
    match_score=match_exclusive,
    ranks=(2, 3),
    preprocessing={"fit": "stretch", "color": "rgb", **IMAGENET},
    nms=NmsOptions(iou=1.0),
    options=SetOptions,
)
RT_DETR = replace(
    DETR,
    name="rt_detr",
    family="RT-DETR, Deformable DETR, DEIM, D-FINE",
    outputs="(1, queries, classes) and (1, queries, 4): logistic scores; centre, size as fractions",
    decode=decode_independent,
    count_classes=lambda shapes: _count(shapes, besides=0),
    match_score=match_independent,
    preprocessing={"fit": "stretch", "color": "rgb", "scale": (255.0,)},
)
RF_DETR = replace(
    RT_DETR,
    name="rf_detr",
    family="RF-DETR",
    outputs="(1, queries, classes) and (1, queries, 4), called labels and dets",
    match_score=match_rf_detr,
    preprocessing=DETR.preprocessing,
)
