"""From outputs to tables: one row for each box, whichever way a family lays its outputs out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.infer.heads.findings import Array
from sightline_plugins.infer.heads.head import Reading, Shape


def rows_of(output: Array, width: int) -> Array:
    """One picture's output as (boxes, width).

    (1, boxes, width), (boxes, width) and flat ones are reshaped, (1, width, boxes) is turned; of a map
    (1, k * width, rows, columns) each cell gives k boxes, cell by cell, row by row. Raises ModelError otherwise.
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
    """How many values each row (or cell of a map) has: the last size, of maps (rank 4) the second."""
    return shape[1] if len(shape) == 4 else shape[-1]


def levels_of(outputs: Iterable[Array], width: int) -> Array:
    """Outputs of several levels as one table (boxes, width), the finest level first."""
    tables = sorted((rows_of(output, width) for output in outputs), key=len, reverse=True)
    return tables[0] if len(tables) == 1 else np.concatenate(tables)


def named(outputs: Sequence[Array], reading: Reading, *parts: str) -> list[int]:
    """The places of the outputs whose names hold one of these parts; small and capital letters are alike."""
    if len(reading.outputs) != len(outputs):
        return []
    return [place for place, name in enumerate(reading.outputs) if any(part in name.lower() for part in parts)]


def ending_of(reading: Reading, place: int) -> str:
    """The operator that makes an output, empty when it is not known."""
    return reading.endings[place] if place < len(reading.endings) else ""


def shapes_text(outputs: Sequence[Array]) -> str:
    """The shapes of outputs, for messages."""
    return ", ".join(str(output.shape) for output in outputs)
