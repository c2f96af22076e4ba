"""Layouts of YOLO outputs: which axis holds the values of a box, boxes per cell, strides of raw maps.

Cells are those of grids of strides 8, 16, 32 (and 64). Networks give one box for each cell (three with anchors), or
rows that they selected themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.errors import ModelError
from sightline.media.boxes import xyxy_from_cxcywh
from sightline_plugins.heads.decoding import PYRAMIDS, Index, at_least, count_cells, shapes_text
from sightline_plugins.heads.head import Array, Candidates, Shape, Signature, SizeWh

ANCHORS = 3
PREPROCESSING = {"fit": "letterbox", "align": "center", "color": "rgb", "scale": (255.0,), "pad": (114,)}
"""What Ultralytics, YOLOv6 and YOLOv7 do to an image before the network."""


@dataclass(frozen=True, slots=True)
class BoxTable:
    """An output (1, values, boxes) or (1, boxes, values); None where the shape leaves a size open.

    `per_cell` is the number of boxes of each cell, 0 when their number is not that of the cells or three times that.
    """

    values: int | None
    boxes: int | None
    values_first: bool
    per_cell: int | None


def pyramid_counts(size_wh: SizeWh) -> list[int]:
    """Return the numbers of whole cells of the usual pyramids."""
    return [count_cells(size_wh, strides, partial=False) for strides in PYRAMIDS]


def box_table(shape: Shape, size_wh: SizeWh) -> BoxTable | None:
    """Return the table of an output of three sizes, else None; a table always has more boxes than values of a box."""
    if len(shape) != 3:
        return None
    _, second, third = shape
    if second is None or third is None:
        return None if second is third else BoxTable(second or third, None, third is None, None)
    values, boxes = min(second, third), max(second, third)
    cells = pyramid_counts(size_wh)
    per_cell = next((number for number in (1, ANCHORS) if boxes in [number * count for count in cells]), 0)
    return BoxTable(values, boxes, second == values, per_cell)


def count_table_classes(shapes: Sequence[Shape], extra: int) -> int | None:
    """Return the number of values of a box in the first table, less `extra` values that are no classes."""
    known = [size for size in shapes[0][-2:] if size is not None]
    return min(known) - extra if known else None


def boxes_and_prototypes(shapes: Sequence[Shape]) -> tuple[Shape, Shape] | None:
    """Return the shapes of the box table and the prototypes (1, masks, rows, columns), given in either order.

    None when the outputs are something else.
    """
    if sorted(map(len, shapes)) != [3, 4]:
        return None
    boxes, prototypes = sorted(shapes, key=len)
    return None if prototypes[1] is None else (boxes, prototypes)


def values_first(output: Array) -> Array:
    """Return the output as (values of a box, boxes), whichever way it came."""
    plain: Array = output.reshape(output.shape[-2:])
    return plain if plain.shape[0] <= plain.shape[1] else plain.T


def table_and_prototypes(outputs: Sequence[Array], head: str) -> tuple[Array, Array]:
    """Return the table of boxes and the prototypes (masks, rows, columns) of two outputs, in either order."""
    if len(outputs) != 2 or min(map(np.ndim, outputs)) < 2 or max(map(np.ndim, outputs)) < 3:
        raise ModelError(
            f"head {head}: boxes and prototypes (1, masks, rows, columns) are needed; outputs: {shapes_text(outputs)}"
        )
    table, prototypes = sorted(outputs, key=np.ndim)
    return table, prototypes.reshape(prototypes.shape[-3:])


def xyxy_of(values: Array) -> Array:
    """Return corners (n, 4) of boxes that are given as centre and size, values first: (4, n)."""
    return xyxy_from_cxcywh(np.asarray(values.T, np.float32))


def best_classes(scores: Array, confidence: float) -> tuple[Index, Array, Index]:
    """Return the places (n,) of boxes whose best class has at least that confidence, its confidence and the class.

    `scores` is (classes, boxes), in either memory order.
    """
    if not len(scores):
        raise ModelError("the model's boxes have no class scores: another head or other head_options are needed")
    if scores.strides[0] >= scores.strides[-1]:
        places = np.flatnonzero(scores.max(axis=0) >= confidence)
    else:
        by_box = scores.T
        likely = np.zeros(len(by_box), np.bool_)
        likely[np.flatnonzero(by_box >= confidence) // len(scores)] = True
        places = np.flatnonzero(likely)
    found = scores[:, places]
    return places, found.max(axis=0), found.argmax(axis=0)


def confident_rows(output: Array, confidence: float) -> Array:
    """Return the rows (n, values) with at least that confidence, which is their fifth value; padding has 0 there."""
    rows = output.reshape(-1, output.shape[-1])
    return rows[at_least(rows[:, 4], confidence)].astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A view of an output: `values` (..., rows, columns), and how many pixels of the input a cell is large.

    `place` is that of the output among all outputs.
    """

    values: Array
    stride: int
    place: int


def stride_of(rows: int | None, columns: int | None, size_wh: SizeWh) -> int | None:
    """Return the stride in pixels; None when the grid does not divide the input evenly."""
    if not rows or not columns:
        return None
    width, height = size_wh
    stride = width // columns
    return stride if stride > 1 and (width, height) == (columns * stride, rows * stride) else None


def grid_axis(shape: Shape, size_wh: SizeWh) -> tuple[int, int] | None:
    """Return the axis of the rows (columns come next) and the stride; None for an output that is not a map.

    Maps are (1, channels, rows, columns), (1, rows, columns, channels), (1, anchors, rows, columns, values) or
    (1, rows, columns, anchors, values).
    """
    if len(shape) not in (4, 5):
        return None
    found = ((axis, stride_of(shape[axis], shape[axis + 1], size_wh)) for axis in (2, 1))
    return next(((axis, stride) for axis, stride in found if stride is not None), None)


def channels_by_stride(signature: Signature) -> dict[int, tuple[int | None, ...]] | None:
    """Return the channels of the maps of each stride, in order; None unless all outputs are maps of rank 4."""
    channels: dict[int, tuple[int | None, ...]] = {}
    for shape in signature.shapes:
        grid = grid_axis(shape, signature.size_wh) if len(shape) == 4 else None
        if grid is None:
            return None
        axis, stride = grid
        channels[stride] = (*channels.get(stride, ()), shape[1 if axis == 2 else 3])
    return channels


def joined_levels(levels: Iterable[tuple[Array, Array, Array]]) -> Candidates:
    """Return the boxes, scores and classes of all levels as candidates."""
    return Candidates.from_arrays(*(np.concatenate(column) for column in zip(*levels, strict=True)))


def maps_of(outputs: Sequence[Array], size_wh: SizeWh, head: str) -> list[Map]:
    """Return views (channels, rows, columns) or (anchors, values, rows, columns), the finest stride first.

    Maps of one stride keep their order. Raises ModelError for an output that is not a map.
    """
    maps = (_map_of(output, place, size_wh, head) for place, output in enumerate(outputs))
    return sorted(maps, key=lambda entry: entry.stride)


def _map_of(output: Array, place: int, size_wh: SizeWh, head: str) -> Map:
    found = grid_axis(output.shape, size_wh)
    if found is None:
        raise ModelError(
            f"head {head}: an output of {output.shape} is no map of an input of {size_wh[0]}x{size_wh[1]}: "
            "(1, channels, rows, columns) whose cells divide the input evenly is needed"
        )
    axis, stride = found
    plain = output[0]
    rest = [number for number in range(plain.ndim) if number not in (axis - 1, axis)]
    return Map(plain.transpose(*rest, axis - 1, axis), stride, place)
