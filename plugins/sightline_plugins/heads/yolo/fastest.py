"""FastestDet and Yolo-FastestV2 (dog-qiuqiu).

`fastestdet`      one map (1, 5 + classes, rows, columns): objectness, tanh offsets of the centre, logistic width and
                  height as fractions of the image, class probabilities. The score is objectness^0.6 * class^0.4
                  (`utils/tool.py`: handle_preds). The network reacts to single levels of its input, so its
                  pre-processing follows the published one exactly: convert the whole image, then resize by area
`yolo_fastestv2`  three anchors a cell, which share one choice of class, at strides 16 and 32. The published export
                  gives two decoded maps (1, rows, columns, 12 + 3 + classes), or both as one table with a row for each
                  cell, stride 16 first; the network itself gives six maps of
                  logits: boxes (1, 12, rows, columns), objectness (1, 3, rows, columns) and classes (1, classes, rows,
                  columns) of each stride. Centre = (2 * x - 0.5 + cell) * stride, size = (2 * w)^2 * anchor, score =
                  objectness * class (`utils/utils.py`: handel_preds, `model/detector.py`)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.decoding import Floats, are_logits, count_cells, logit, sigmoid, softmax
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
    SizeWh,
)
from sightline_plugins.heads.yolo.layout import ANCHORS, Map, channels_by_stride, joined_levels, maps_of
from sightline_plugins.heads.yolo.maps import Anchors
from sightline_plugins.native import FLOAT, POINTER, SIZE, function, pointer
from sightline_plugins.nms.options import NmsOptions

OBJECT_POWER = 0.6
_SMALLEST_MAP = 16
_decode_fastestdet = function(
    "decode_fastestdet",
    *(POINTER, SIZE, SIZE, SIZE, FLOAT, FLOAT, FLOAT, FLOAT),
    *(POINTER, POINTER, POINTER),
    result=SIZE,
)


def decode_fastestdet(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every cell whose best class scores at least `context.confidence`."""
    cells = np.ascontiguousarray(outputs[0], np.float32)
    _, channels, rows, columns = cells.shape
    xyxy = np.empty((rows * columns, 4), np.float32)
    score = np.empty(rows * columns, np.float32)
    class_id = np.empty(rows * columns, np.int32)
    count = _decode_fastestdet(
        pointer(cells),
        channels - 5,
        rows,
        columns,
        context.confidence ** (1 / OBJECT_POWER),
        context.confidence,
        *context.size_wh,
        pointer(xyxy),
        pointer(score),
        pointer(class_id),
    )
    return Candidates(xyxy[:count], score[:count], class_id[:count])


def match_fastestdet(signature: Signature) -> MatchScore:
    """Match one map of 6 channels or more whose cells divide the input evenly."""
    if len(signature.outputs) != 1 or len(signature.shapes[0]) != 4:
        return MatchScore.NONE
    _, channels, rows, columns = signature.shapes[0]
    if channels is None or channels <= 5 or not rows or not columns or rows * columns < _SMALLEST_MAP:
        return MatchScore.NONE
    fits = signature.size_wh[0] % columns == 0 and signature.size_wh[1] % rows == 0
    return MatchScore.certain_if(fits)


FASTESTDET = Head(
    name="fastestdet",
    family="FastestDet",
    outputs="(1, 5 + classes, rows, columns)",
    decode=decode_fastestdet,
    count_classes=lambda shapes: None if shapes[0][1] is None else shapes[0][1] - 5,
    match_score=match_fastestdet,
    ranks=(4,),
    preprocessing={"fit": "stretch", "resize": "area", "convert": "image", "color": "bgr", "scale": (255.0,)},
    nms=NmsOptions(iou=0.45, class_agnostic=True),
)


_BOX_CHANNELS = 5 * ANCHORS
_STRIDES = (16, 32)


class FastestV2Options(HeadOptions):
    """Options of `yolo_fastestv2`."""

    anchors: Anchors = ((12.64, 19.39, 37.88, 51.48, 55.71, 138.31), (126.91, 78.23, 131.57, 214.55, 279.92, 258.87))
    """Alternating widths and heights in pixels of the network's input, three for each stride, the finest first."""
    scores: ScoreForm = "auto"
    """Whether all values are logits, or went through the logistic function and the choice of class already."""


def decode_fastestv2(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return every box whose class times objectness is at least `context.confidence`."""
    options = context.options_or(FastestV2Options())
    maps = maps_of(_as_maps(outputs, context.size_wh), context.size_wh, "yolo_fastestv2")
    count = len(options.anchors)
    if len(maps) not in (count, 3 * count) or any(len(sizes) != 2 * ANCHORS for sizes in options.anchors):
        raise ModelError(
            f"head yolo_fastestv2: one map or three (boxes, objectness, classes) for each of {count} lists of three "
            f"anchors are needed; the model gives {len(maps)}"
        )
    each = len(maps) // count
    anchors = (np.array(sizes, np.float32).reshape(-1, 2) for sizes in options.anchors)
    levels = ((maps[number * each : (number + 1) * each], own) for number, own in enumerate(anchors))
    return joined_levels(_decode_stride(*level, options, context) for level in levels)


def _as_maps(outputs: Sequence[Array], size_wh: SizeWh) -> Sequence[Array]:
    """Return the maps (1, rows, columns, channels) that one table (cells, channels) holds one after the other."""
    if not _is_table([output.shape for output in outputs], size_wh):
        return outputs
    cells = outputs[0].reshape(outputs[0].shape[-2:])
    grids = [(size_wh[1] // stride, size_wh[0] // stride) for stride in _STRIDES]
    ends = np.cumsum([rows * columns for rows, columns in grids])[:-1]
    return [part.reshape(1, *grid, -1) for part, grid in zip(np.split(cells, ends), grids, strict=True)]


def _is_table(shapes: Sequence[Shape], size_wh: SizeWh) -> bool:
    """Whether the only output has a row for each cell of both strides: (cells, channels) or (1, cells, channels)."""
    if len(shapes) != 1 or len(shapes[0]) not in (2, 3) or (len(shapes[0]) == 3 and shapes[0][0] != 1):
        return False
    return shapes[0][-2] == count_cells(size_wh, _STRIDES, partial=False)


def _decode_stride(
    maps: Sequence[Map], anchors: Floats, options: FastestV2Options, context: DecodeContext
) -> tuple[Floats, Floats, Array]:
    """Return boxes, scores and classes of the maps of one stride."""
    sides, objectness, choices = _parts(maps)
    logits = are_logits(objectness, form=options.scores, op_type=context.op_type(maps[0].place))
    limit = logit(context.confidence) if logits else context.confidence
    anchor, row, column = np.nonzero(objectness >= limit)
    chance = objectness[anchor, row, column].astype(np.float32)
    choice = choices[:, row, column].T.astype(np.float32)
    if logits and len(row):
        chance, choice = sigmoid(chance), softmax(choice)
    score = chance * choice.max(axis=1, initial=0)
    kept = score >= context.confidence
    anchor, cell = anchor[kept], np.stack([column[kept], row[kept]], axis=1)
    offsets = sides[anchor, :, row[kept], column[kept]].astype(np.float32)
    if logits and len(offsets):
        offsets = sigmoid(offsets)
    centre = (2 * offsets[:, :2] - 0.5 + cell) * maps[0].stride
    cxcywh = np.concatenate([centre, np.square(2 * offsets[:, 2:]) * anchors[anchor]], axis=1)
    return xyxy_from_cxcywh(cxcywh.astype(np.float32)), score[kept], choice[kept].argmax(axis=1)


def _parts(maps: Sequence[Map]) -> tuple[Array, Array, Array]:
    """Return boxes (3, 4, rows, columns), objectness (3, rows, columns) and classes (classes, rows, columns)."""
    parts = [entry.values for entry in maps]
    if len(parts) == 1:
        sizes = (4 * ANCHORS, _BOX_CHANNELS)
        parts = [parts[0][: sizes[0]], parts[0][sizes[0] : sizes[1]], parts[0][sizes[1] :]]
    if any(part.ndim != 3 for part in parts) or [len(part) for part in parts[:2]] != [4 * ANCHORS, ANCHORS]:
        raise ModelError(
            "head yolo_fastestv2: 12 channels of boxes, 3 of objectness and the classes are needed at stride "
            f"{maps[0].stride}, the maps have {', '.join(str(entry.values.shape) for entry in maps)}"
        )
    return parts[0].reshape(ANCHORS, 4, *parts[0].shape[1:]), parts[1], parts[2]


def match_fastestv2(signature: Signature) -> MatchScore:
    """Match two strides, each with one map of boxes, objectness and classes, or with a map of each; or the table."""
    if _is_table(signature.shapes, signature.size_wh):
        return _matches_joined(signature.shapes[0][-1], signature)
    channels = channels_by_stride(signature)
    if channels is None or len(channels) != 2 or len(set(channels.values())) != 1:
        return MatchScore.NONE
    sizes = next(iter(channels.values()))
    if len(sizes) == 3 and sizes[:2] == (4 * ANCHORS, ANCHORS):
        return MatchScore.certain_if(signature.classes in (None, sizes[2]))
    return MatchScore.NONE if len(sizes) != 1 else _matches_joined(sizes[0], signature)


def _matches_joined(channels: int | None, signature: Signature) -> MatchScore:
    """Match channels that hold boxes, objectness and classes."""
    classes = (channels or 0) - _BOX_CHANNELS
    if classes < 1 or signature.classes not in (None, classes):
        return MatchScore.NONE
    return MatchScore.POSSIBLE if signature.classes is None else MatchScore.CERTAIN


def count_fastestv2_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the number of classes where a table, or maps of their own (the third), tell it."""
    if len(shapes) == 1:
        return None if shapes[0][-1] is None else shapes[0][-1] - _BOX_CHANNELS
    return shapes[2][1] if len(shapes) == 6 and len(shapes[2]) == 4 else None


YOLO_FASTESTV2 = Head(
    name="yolo_fastestv2",
    family="Yolo-FastestV2",
    outputs="(1, rows, columns, 15 + classes) at strides 16 and 32, or six raw maps",
    decode=decode_fastestv2,
    count_classes=count_fastestv2_classes,
    match_score=match_fastestv2,
    ranks=(2, 3, 4),
    preprocessing={"fit": "stretch", "color": "bgr", "scale": (255.0,)},
    nms=NmsOptions(iou=0.4),
    options=FastestV2Options,
)
