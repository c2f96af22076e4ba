"""Arrange raw outputs as tables with a row for each box, and enumerate the cells of feature pyramids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline_plugins.heads.head import Array, DecodeContext, Shape, SizeWh


def rows_of(output: Array, width: int) -> Array:
    """Return the output of one image as (boxes, width).

    (1, boxes, width), (boxes, width) and flat outputs are reshaped, (1, width, boxes) is transposed; a map
    (1, k * width, rows, columns) gives k boxes a cell, cell by cell, row by row. Raises ModelError otherwise.
    """
    if output.ndim == 4 and output.shape[1] % width == 0:
        _, channels, rows, columns = output.shape
        cells = output.reshape(channels // width, width, rows, columns)
        return cells.transpose(2, 3, 0, 1).reshape(-1, width)
    if output.ndim == 3 and output.shape[2] != width and output.shape[1] == width:
        return output.reshape(output.shape[1:]).T
    if output.size % width:
        raise ModelError(f"an output of shape {output.shape} does not hold {width} values for each box")
    return output.reshape(-1, width)


def width_of(shape: Shape | Sequence[int]) -> int | None:
    """Return the number of values of a row, or of a cell of a map (rank 4); None when the size is open."""
    return shape[1] if len(shape) == 4 else shape[-1]


def levels_of(outputs: Iterable[Array], width: int) -> Array:
    """Return outputs of several levels as one table (boxes, width), the finest level first."""
    tables = sorted((rows_of(output, width) for output in outputs), key=len, reverse=True)
    return tables[0] if len(tables) == 1 else np.concatenate(tables)


def named(outputs: Sequence[Array], context: DecodeContext, *parts: str) -> list[int]:
    """Return the places of the outputs whose names contain one of these parts, ignoring case."""
    if len(context.outputs) != len(outputs):
        return []
    return [place for place, name in enumerate(context.outputs) if any(part in name.lower() for part in parts)]


def shapes_text(outputs: Sequence[Array]) -> str:
    """Return the shapes of outputs for error messages."""
    return ", ".join(str(output.shape) for output in outputs)


Floats = npt.NDArray[np.float32]


class Cells(NamedTuple):
    """All cells of a feature pyramid, the finest grid first, row by row; read-only arrays.

    corner  float32 (N, 2) column and row
    stride  float32 (N, 1) pixels of the network's input from one cell to the next
    """

    corner: Floats
    stride: Floats


@lru_cache(maxsize=64)
def cells_of(size_wh: SizeWh, strides: tuple[int, ...], *, each: int = 1) -> Cells:
    """Return the cells of grids with these strides, rounded up to cover the input; `each` repeats every cell."""
    corners, sizes = [], []
    for stride in strides:
        columns, rows = _grid(size_wh, stride)
        x, y = np.meshgrid(np.arange(columns), np.arange(rows))
        corners.append(np.stack([x.ravel(), y.ravel()], axis=1))
        sizes.append(np.full((columns * rows, 1), stride))
    corner = np.repeat(np.concatenate(corners), each, axis=0).astype(np.float32)
    stride_of = np.repeat(np.concatenate(sizes), each, axis=0).astype(np.float32)
    corner.flags.writeable = stride_of.flags.writeable = False
    return Cells(corner, stride_of)


def count_cells(size_wh: SizeWh, strides: Sequence[int]) -> int:
    """Return the number of cells of grids with these strides."""
    return sum(columns * rows for columns, rows in (_grid(size_wh, stride) for stride in strides))


def check_count(head: str, size_wh: SizeWh, *, expected: int, found: int) -> None:
    """Raise ModelError when the number of boxes in the outputs is not that of the grids."""
    if expected != found:
        raise ModelError(
            f"head {head}: an input of {size_wh[0]}x{size_wh[1]} has {expected} boxes, the model's outputs have "
            f"{found}: another input size, other head_options or another head is needed"
        )


def boxes_from_distances(points: Floats, distances: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return boxes (N, 4) from points (N, 2) and distances to left, top, right and bottom (N, 4), all in pixels."""
    return np.concatenate([points - distances[:, :2], points + distances[:, 2:]], axis=1)


def _grid(size_wh: SizeWh, stride: int) -> tuple[int, int]:
    return -(-size_wh[0] // stride), -(-size_wh[1] // stride)
