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
    rows, columns = margin.shape
    column_of = np.empty(rows, np.int64)
    scratch = np.empty(rows + 5 * columns)
    row_scratch, column_scratch = scratch[:rows], scratch[rows:]
    _assign_pairs(
        pointer(np.ascontiguousarray(margin, np.float32)),
        rows,
        columns,
        0.0,
        pointer(column_of),
        pointer(row_scratch),
        pointer(column_scratch),
    )
    found = (column_of >= 0).nonzero()[0]
    return found, column_of[found]
