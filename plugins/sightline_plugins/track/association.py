"""One-to-one assignment of tracks to detections, in rounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline_plugins.native import DOUBLE, POINTER, SIZE, function, pointer

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

SIZE_WEIGHT = 4
"""Power of the similarity in size, for boxes that are enlarged by much."""

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


def assign_in_rounds(
    margin: Floats, *, rounds: npt.NDArray[np.integer], row_kind: Indices, column_kind: Indices
) -> tuple[Indices, Indices]:
    """Like `assign`, in rounds: rows and columns that an earlier round matches are left out of later ones.

    The pair of row i and column j belongs to round `rounds[row_kind[i], column_kind[j]]`. Where no pair competes with
    another, all pairs together are the result of the rounds one after the other, and no solver runs.
    """
    rows, columns = (margin > 0).nonzero()
    if len(set(columns.tolist())) == len(columns) and len(set(rows.tolist())) == len(rows):
        return rows, columns
    present = sorted(set(rounds[row_kind[rows], column_kind[columns]].tolist()))
    if len(present) == 1:
        return assign(margin)
    round_of = rounds[row_kind[:, None], column_kind]
    left = margin.copy()
    found = []
    for this in present:
        matched = assign(np.where(round_of == this, left, 0))
        left[matched[0]] = 0
        left[:, matched[1]] = 0
        found.append(matched)
    return np.concatenate([rows for rows, _ in found]), np.concatenate([columns for _, columns in found])


def wide_iou(tracks: Floats, seen: Floats, *, margins: Floats) -> Floats:
    """Return (N, M) the IoU of boxes (N, 4) and (M, 4), both enlarged on each side by the margins (N, 2) of the track,
    times how alike their sizes are: the margins would hide that.
    """
    one, other, margin = tracks[:, None], seen[None], margins[:, None]
    near = np.maximum(one[..., :2], other[..., :2]) - margin
    far = np.minimum(one[..., 2:], other[..., 2:]) + margin
    shared = np.prod(np.maximum(far - near, 0), axis=2)
    sizes = [np.maximum(box[..., 2:] - box[..., :2], 0) for box in (one, other)]
    areas = [np.prod(size + 2 * margin, axis=2) for size in sizes]
    alike = np.prod(np.minimum(*sizes) / np.maximum(np.maximum(*sizes), np.float32(1e-6)), axis=2)
    overlap: Floats = alike**SIZE_WEIGHT * shared / np.maximum(areas[0] + areas[1] - shared, np.float32(1e-6))
    return overlap
