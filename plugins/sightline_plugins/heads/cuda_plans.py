"""Plan how a head's outputs are decoded on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline_plugins.heads.cuda import ANCHORS, GRID, MOST_ANCHORS, Decoding, OutputView, Step
from sightline_plugins.heads.head import DecodeContext, ScoreForm
from sightline_plugins.heads.thresholding import is_probability_op, logit
from sightline_plugins.heads.yolo.fastest import OBJECT_POWER
from sightline_plugins.heads.yolo.layout import maps_of, values_first
from sightline_plugins.heads.yolo.maps import (
    DEFAULT_ANCHOR_OPTIONS,
    PUBLISHED,
    AnchorOptions,
    DflOptions,
    anchor_levels,
    by_anchor,
    sides_and_scores,
)
from sightline_plugins.heads.yolo.tables import strides_of

Marks: TypeAlias = npt.NDArray[np.uint8]
_Planner: TypeAlias = Callable[["list[Marks]", DecodeContext], "list[Step]"]
"""What plans: from empty outputs (1, ...), whose strides count elements, to launches."""


def plan_decoding(head: str, *, shapes: Sequence[tuple[int, ...]], context: DecodeContext) -> Decoding:
    """Return how outputs of these shapes (of one image, without the batch) are decoded on the device.

    Raises ModelError for a head without a kernel (`DENSE_HEADS` have one), for outputs that are not this head's, and
    where the values would have to tell whether they are probabilities: on the device nobody looks at them first.
    """
    planner = _PLANNERS.get(head)
    if planner is None:
        raise ModelError(f"head {head} has no kernel; {', '.join(DENSE_HEADS)} have one")
    steps = planner([np.empty((1, *shape), np.uint8) for shape in shapes], context)
    return Decoding(tuple(map(tuple, shapes)), sum(step.boxes for step in steps), tuple(steps))


def _plan_yolov5(outputs: list[Marks], context: DecodeContext) -> list[Step]:
    return _plan_table("yolov5", min(outputs, key=np.ndim), outputs, context, has_objectness=True)


def _plan_yolov8(outputs: list[Marks], context: DecodeContext) -> list[Step]:
    return _plan_table("yolov8", outputs[0], outputs, context, has_objectness=False)


def _plan_table(
    head: str, output: Marks, outputs: list[Marks], context: DecodeContext, *, has_objectness: bool
) -> list[Step]:
    values = values_first(output)
    classes = _classes(head, len(values) - 4 - has_objectness)
    arguments = (values.shape[1], classes, has_objectness, np.float32(context.confidence))
    return [Step("decode_table", values.shape[1], (_view(values, outputs),), arguments)]


def _plan_yolox(outputs: list[Marks], context: DecodeContext) -> list[Step]:
    cells: Marks = outputs[0].reshape(outputs[0].shape[-2:])
    classes = _classes("yolox", cells.shape[1] - 5)
    (width, height), view, first = context.size_wh, _view(cells.T, outputs), 0
    steps = []
    for stride in strides_of(context.size_wh, len(cells)):
        count = (width // stride) * (height // stride)
        grid = _grid(width // stride, height // stride, stride, first)
        steps.append(Step("decode_offsets", count, (view,), (grid, classes, np.float32(context.confidence))))
        first += count
    return steps


def _plan_dfl(outputs: list[Marks], context: DecodeContext) -> list[Step]:
    options = context.options_or(DflOptions())
    first, steps = 0, []
    maps = maps_of(outputs, context.size_wh, "yolo_dfl")
    for stride, group in groupby(maps, key=lambda entry: entry.stride):
        sides, scores, place = sides_and_scores(list(group), options, len(context.labels))
        ready = _are_probabilities("yolo_dfl", options.scores, context.op_type(place), option="scores")
        limit = context.confidence if ready else logit(context.confidence)
        (_, rows, columns), views = sides.shape, (_view(sides, outputs), _view(scores, outputs))
        arguments = (_grid(columns, rows, stride, first), len(sides) // 4, len(scores), not ready, np.float32(limit))
        steps.append(Step("decode_distances", rows * columns, views, arguments))
        first += rows * columns
    return steps


def _plan_anchors(outputs: list[Marks], context: DecodeContext) -> list[Step]:
    options = context.options_or(DEFAULT_ANCHOR_OPTIONS)
    first, steps = 0, []
    for entry, sizes, scale in anchor_levels(outputs, context):
        values = by_anchor(entry, len(sizes))
        op_type = context.op_type(entry.place)
        ready = _are_probabilities("yolo_anchors", options.scores, op_type, option="scores")
        record = _anchor_record(options, sizes, scale)
        record["are_scores_logits"] = not ready
        record["are_boxes_logits"] = not _are_probabilities("yolo_anchors", options.boxes, op_type, option="boxes")
        record["step"] = values.strides[0]
        rows, columns = values.shape[2:]
        limit = context.confidence if ready else logit(context.confidence)
        limits = np.float32(limit), np.float32(context.confidence)
        arguments = (_grid(columns, rows, entry.stride, first), record[()], values.shape[1] - 5, *limits)
        steps.append(Step("decode_anchors", len(sizes) * rows * columns, (_view(values[0], outputs),), arguments))
        first += len(sizes) * rows * columns
    return steps


def _anchor_record(options: AnchorOptions, sizes: npt.NDArray[np.float32], scale: float) -> Any:
    if len(sizes) > MOST_ANCHORS:
        raise ModelError(f"head yolo_anchors: {len(sizes)} anchors for a stride, at most {MOST_ANCHORS} on the device")
    assert options.version is not None
    record = np.zeros((), ANCHORS)
    record["sizes"][: sizes.size] = sizes.ravel()
    record["scale"], record["excess"] = scale, (scale - 1) / 2
    record["count"], record["is_squared"] = len(sizes), PUBLISHED[options.version].squared
    return record


def _plan_fastestdet(outputs: list[Marks], context: DecodeContext) -> list[Step]:
    if outputs[0].ndim != 4:
        raise ModelError(f"head fastestdet: a map (1, channels, rows, columns) is needed, not {outputs[0].shape}")
    channels, rows, columns = outputs[0].shape[1:]
    classes, confidence = _classes("fastestdet", channels - 5), context.confidence
    limits = np.float32(confidence ** (1 / OBJECT_POWER)), np.float32(confidence)
    arguments = (_grid(columns, rows, 0, 0), classes, *context.size_wh, *limits)
    return [Step("decode_fastestdet", rows * columns, (_view(outputs[0][0], outputs),), arguments)]


def _are_probabilities(head: str, form: ScoreForm, op_type: str, *, option: str) -> bool:
    known = is_probability_op(op_type) if form == "auto" else form == "probabilities"
    if known is None:
        raise ModelError(
            f"head {head}: the model does not tell whether its {option} are logits, and on the device nobody looks at "
            f"them first: set head_options: {{{option}: logits}} or {{{option}: probabilities}}"
        )
    return known


def _classes(head: str, count: int) -> int:
    if count < 1:
        raise ModelError(f"head {head}: the model's boxes have no class scores: another head is needed")
    return count


def _grid(columns: int, rows: int, stride: int, first: int) -> Any:
    return np.array((columns, rows, stride, first), GRID)[()]


def _view(values: Marks, outputs: Sequence[Marks]) -> OutputView:
    """Return where a view (values, boxes) or (values, rows, columns) of one of the outputs lies in it."""
    address = values.ctypes.data
    place = next(
        place for place, output in enumerate(outputs) if 0 <= address - output.ctypes.data < max(output.nbytes, 1)
    )
    return OutputView(place, address - outputs[place].ctypes.data, values.strides[-1], values.strides[0])


_PLANNERS: Mapping[str, _Planner] = MappingProxyType(
    {
        "fastestdet": _plan_fastestdet,
        "yolo_anchors": _plan_anchors,
        "yolo_dfl": _plan_dfl,
        "yolov5": _plan_yolov5,
        "yolov8": _plan_yolov8,
        "yolox": _plan_yolox,
    }
)
DENSE_HEADS = tuple(_PLANNERS)
"""The heads that can be decoded on the device, by name."""
