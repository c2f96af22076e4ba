"""The cells of a pyramid of grids over the network's input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline_plugins.infer.heads.head import SizeWh

Floats = npt.NDArray[np.float32]


class Cells(NamedTuple):
    """All cells of a pyramid, the finest grid first, row by row; nobody writes to them.

    corner  float32 (N, 2) column and row
    stride  float32 (N, 1) pixels of the network's input from one cell to the next
    """

    corner: Floats
    stride: Floats


@lru_cache(maxsize=64)
def cells_of(size_wh: SizeWh, strides: tuple[int, ...], *, each: int = 1) -> Cells:
    """The cells of grids with these strides; grids reach beyond an input that they do not divide. `each` repeats every
    cell, for families with several boxes in one.
    """
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
    """How many cells grids of these strides have together."""
    return sum(columns * rows for columns, rows in (_grid(size_wh, stride) for stride in strides))


def check_count(head: str, size_wh: SizeWh, *, expected: int, found: int) -> None:
    """Raises ModelError when a model has another number of boxes than the grids."""
    if expected != found:
        raise ModelError(
            f"head {head}: an input of {size_wh[0]}x{size_wh[1]} has {expected} boxes, the model's outputs have "
            f"{found}: another input size, other head_options or another head is needed"
        )


def boxes_from_distances(points: Floats, distances: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Boxes (N, 4) from points (N, 2) and how far left, top, right and bottom are from them (N, 4), in pixels."""
    return np.concatenate([points - distances[:, :2], points + distances[:, 2:]], axis=1)


def _grid(size_wh: SizeWh, stride: int) -> tuple[int, int]:
    return -(-size_wh[0] // stride), -(-size_wh[1] // stride)
