"""Raw maps: outputs as the last convolutions give them, one set for each stride."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline_plugins.infer.heads.findings import Array
from sightline_plugins.infer.heads.head import Shape, SizeWh

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A view of an output: `values` (..., rows, columns), and how many pixels of the input a cell is large.

    `place` is that of the output among all outputs.
    """

    values: Array
    stride: int
    place: int


def stride_of(rows: int | None, columns: int | None, size_wh: SizeWh) -> int | None:
    """Pixels from one cell to the next, None when the grid does not divide the input evenly."""
    if not rows or not columns:
        return None
    width, height = size_wh
    stride = width // columns
    return stride if stride > 1 and (width, height) == (columns * stride, rows * stride) else None


def grid_axis(shape: Shape, size_wh: SizeWh) -> tuple[int, int] | None:
    """Which size is that of the rows (columns come next), and the stride; None for an output that is no map.

    Maps are (1, channels, rows, columns), (1, rows, columns, channels), (1, anchors, rows, columns, values) or
    (1, rows, columns, anchors, values).
    """
    if len(shape) not in (4, 5):
        return None
    found = ((axis, stride_of(shape[axis], shape[axis + 1], size_wh)) for axis in (2, 1))
    return next(((axis, stride) for axis, stride in found if stride is not None), None)


def maps_of(outputs: Sequence[Array], size_wh: SizeWh, head: str) -> list[Map]:
    """Views (channels, rows, columns), or (anchors, values, rows, columns) of outputs that have these sizes, the finest
    first; maps of one stride keep their order.
    """
    return sorted((_map_of(output, place, size_wh, head) for place, output in enumerate(outputs)), key=_stride)


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


def _stride(entry: Map) -> int:
    return entry.stride
