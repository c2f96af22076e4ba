"""Heads of users, for `infer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline_plugins.heads.head import Candidates, DecodeContext, Points, Vector

Array = npt.NDArray[Any]


def means(outputs: Sequence[Array], reading: DecodeContext) -> dict[str, object]:
    """How bright each color is, and the name of the brightest."""
    red, green, blue = outputs[0][0].mean(axis=(1, 2)).tolist()
    return {"redness": red, "brightest": ("red", "green", "blue")[int(np.argmax([red, green, blue]))]}


def red_cells(outputs: Sequence[Array], reading: DecodeContext) -> Candidates:
    """A box for each cell that is red enough."""
    cells = outputs[0][0, 0]
    side = reading.size_wh[0] / cells.shape[1]
    rows, columns = np.nonzero(cells >= max(reading.confidence, 0.1))
    corners = np.stack([columns, rows], axis=1) * side
    boxes = np.concatenate([corners, corners + side], axis=1)
    return Candidates.from_arrays(boxes, cells[rows, columns], np.zeros(len(rows)))


def center(outputs: Sequence[Array], reading: DecodeContext) -> Points:
    """One keypoint in the middle."""
    return Points(np.array([[reading.size_wh[0] / 2, reading.size_wh[1] / 2, 1]], np.float32))


def first_row(outputs: Sequence[Array], reading: DecodeContext) -> Vector:
    """The first row as an embedding."""
    return Vector(outputs[0].reshape(-1)[:4] + np.float32(1))


def option(outputs: Sequence[Array], reading: DecodeContext) -> dict[str, object]:
    """What `head_options` says."""
    return {"threshold": getattr(reading.options, "threshold", None) or 0.0}


def broken(outputs: Sequence[Array], reading: DecodeContext) -> dict[str, object]:
    """Raises."""
    raise KeyError("no such output")


def wrong(outputs: Sequence[Array], reading: DecodeContext) -> list[int]:
    """Returns what nobody understands."""
    return [1, 2]


def nested(outputs: Sequence[Array], reading: DecodeContext) -> dict[str, object]:
    """Returns a value that can be no attribute."""
    return {"cells": [1, 2]}


def reserved(outputs: Sequence[Array], reading: DecodeContext) -> dict[str, object]:
    """Returns an attribute of a name that is taken."""
    return {"confidence": 0.5}


class Fickle:
    """Returns another kind each time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, outputs: Sequence[Array], reading: DecodeContext) -> object:
        self.calls += 1
        return means(outputs, reading) if self.calls % 2 else center(outputs, reading)


fickle = Fickle()


def nothing(outputs: Sequence[Array], reading: DecodeContext) -> dict[str, object]:
    """Says nothing."""
    return {}
