"""Decode the outputs of heads on a CUDA device: a kernel for each layout, launched for a whole batch.

`plan_decoding` runs the layout code of the heads themselves once, on empty outputs of the model's shapes, to find where
each value lies. `Decoding.launch` is then a few launches for each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline.errors import ModelError
from sightline_plugins.cuda.records import DeviceData
from sightline_plugins.heads.decoding import is_probability_op, logit
from sightline_plugins.heads.head import DecodeContext, ScoreForm
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
from sightline_plugins.nms.cuda import COUNTS, DetectionBuffers

SOURCE = Path(__file__).with_suffix(".cu")
MOST_ANCHORS = 8
_THREADS = 256
_LAYOUT = np.dtype(
    [("first", "<i8"), ("image_step", "<i8"), ("box_step", "<i8"), ("value_step", "<i8"), ("is_half", "<i4")],
    align=True,
)
GRID = np.dtype([("columns", "<i4"), ("rows", "<i4"), ("stride", "<i4"), ("first", "<i4")])
ANCHORS = np.dtype(
    [
        ("sizes", "<f4", (2 * MOST_ANCHORS,)),
        ("scale", "<f4"),
        ("excess", "<f4"),
        ("count", "<i4"),
        ("is_squared", "<i4"),
        ("are_scores_logits", "<i4"),
        ("are_boxes_logits", "<i4"),
        ("step", "<i8"),
    ],
    align=True,
)
_FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


@dataclass(frozen=True, slots=True)
class OutputView:
    """Where boxes lie in the output at `place`, in elements of one image."""

    place: int
    first: int
    box_step: int
    value_step: int

    def arguments(self, output: DeviceData) -> tuple[DeviceData, Any]:
        """Return the arguments of a kernel: the output, and `struct Layout`."""
        item = output.dtype.itemsize
        layout = (self.first, output.strides[0] // item, self.box_step, self.value_step, item == 2)
        return output, np.array(layout, _LAYOUT)[()]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One launch of a kernel for `boxes` boxes, which it reads from the `views`; `arguments` follow them."""

    kernel: str
    boxes: int
    views: tuple[OutputView, ...]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Decoding:
    """How the outputs of one model are decoded; made once by `plan_decoding`.

    `shapes` are the shapes of its outputs for one image, without the batch. `boxes` is the number of boxes in them,
    which is the capacity of `DetectionBuffers` that loses none.
    """

    shapes: tuple[tuple[int, ...], ...]
    boxes: int
    steps: tuple[Step, ...]

    def launch(
        self, kernels: Kernels, outputs: Sequence[DeviceData], *, finds: DetectionBuffers, stream: object = None
    ) -> None:
        """Decode the dense outputs (images, ...) of a batch, float32 or float16, into `finds`, which is cleared first.

        Raises ValueError for outputs of other shapes, element types or strides.
        """
        self._check(outputs, finds)
        counts = finds.images * COUNTS
        grid = blocks_for(counts, block=_THREADS)
        kernels["forget"](finds.counts, counts, grid=grid, block=_THREADS, stream=stream)
        images = outputs[0].shape[0]
        for step in self.steps:
            views = (argument for view in step.views for argument in view.arguments(outputs[view.place]))
            grid_xy = blocks_for(step.boxes, block=_THREADS), images
            kernels[step.kernel](
                *views, *step.arguments, *finds.arguments(), grid=grid_xy, block=_THREADS, stream=stream
            )

    def _check(self, outputs: Sequence[DeviceData], finds: DetectionBuffers) -> None:
        shapes = tuple(output.shape[1:] for output in outputs)
        images = {output.shape[0] for output in outputs}
        if shapes != self.shapes or len(images) != 1 or min(images) > finds.images:
            raise ValueError(
                f"outputs of {self.shapes} for each image, of {finds.images} images at most, are decoded; "
                f"these are {tuple(output.shape for output in outputs)}"
            )
        for output in outputs:
            dense: npt.NDArray[Any] = np.empty((1, *output.shape[1:]), output.dtype)
            if output.dtype not in _FLOATS or output.strides[1:] != dense.strides[1:]:
                raise ValueError(
                    f"outputs are dense float32 or float16, not {output.dtype} of strides {output.strides}"
                )


Marks: TypeAlias = npt.NDArray[np.uint8]
_Planner: TypeAlias = Callable[["list[Marks]", DecodeContext], "list[Step]"]
"""Makes the launches from empty outputs (1, ...) of bytes, so that their strides count elements."""


def plan_decoding(head: str, *, shapes: Sequence[tuple[int, ...]], context: DecodeContext) -> Decoding:
    """Return how outputs of these shapes (of one image, without the batch) are decoded on the device.

    Raises ModelError for a head without a kernel (`DENSE_HEADS` have one), for outputs that are not this head's, and
    where only the values tell whether they are probabilities: the device does not inspect them first.
    """
    planner = _PLANNERS.get(head)
    if planner is None:
        raise ModelError(f"head {head} has no kernel; {', '.join(DENSE_HEADS)} have one")
    steps = planner([np.empty((1, *shape), np.uint8) for shape in shapes], context)
    return Decoding(tuple(map(tuple, shapes)), sum(step.boxes for step in steps), tuple(steps))


def _plan_table(outputs: list[Marks], context: DecodeContext, *, head: str, has_objectness: bool) -> list[Step]:
    values = values_first(min(outputs, key=np.ndim) if has_objectness else outputs[0])
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
        "yolov5": partial(_plan_table, head="yolov5", has_objectness=True),
        "yolov8": partial(_plan_table, head="yolov8", has_objectness=False),
        "yolox": _plan_yolox,
    }
)
DENSE_HEADS = tuple(_PLANNERS)
"""The heads that can be decoded on the device, by name."""
