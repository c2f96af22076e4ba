"""One-to-one assignment of tracks to detections."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline_plugins.native import DOUBLE, POINTER, SIZE, function, pointer

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

_assign_pairs = function("assign_pairs", POINTER, SIZE, SIZE, DOUBLE, POINTER, POINTER, POINTER)


def assign(margin: Floats) -> tuple[Indices, Indices]:
    """Return rows and columns of the one-to-one assignment with the largest sum of positive margins.

    `margin` (N, M) is the similarity of a pair less the similarity it needs; pairs at or below 0 never match. Rows
    ascend. Solved by shortest augmenting paths (R. Jonker and A. Volgenant, 1987).
    """
    return _assigned(margin, alone=0.0)


def assign_all(similarity: Floats) -> tuple[Indices, Indices]:
    """Return rows and columns of the one-to-one assignment of as many pairs as there can be, with the largest sum of
    similarities (N, M), which may be below 0. Pairs of NaN never match.
    """
    if len(similarity) > similarity.shape[1]:
        columns, rows = _assigned(similarity.T, alone=-np.inf)
        return rows, columns
    return _assigned(similarity, alone=-np.inf)


def _assigned(value: Floats, *, alone: float) -> tuple[Indices, Indices]:
    """Return rows, which ascend, and columns of the pairs worth more than `alone` that are assigned to each other."""
    rows, columns = value.shape
    column_of = np.empty(rows, np.int64)
    scratch = np.empty(rows + 5 * columns)
    row_scratch, column_scratch = scratch[:rows], scratch[rows:]
    _assign_pairs(
        pointer(np.ascontiguousarray(value, np.float32)),
        rows,
        columns,
        alone,
        pointer(column_of),
        pointer(row_scratch),
        pointer(column_scratch),
    )
    found = (column_of >= 0).nonzero()[0]
    return found, column_of[found]
