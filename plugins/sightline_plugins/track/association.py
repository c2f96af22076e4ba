"""One-to-one assignment of tracks to detections, in rounds."""

from __future__ import annotations

import lap
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

SIZE_WEIGHT = 4
"""Power of the similarity in size, for boxes that are enlarged by much."""


def assign(margin: Floats) -> tuple[Indices, Indices]:
    """Return rows and columns of the one-to-one assignment with the largest sum of positive margins.

    `margin` (N, M) is the similarity of a pair less the similarity it needs; pairs at or below 0 never match. Solved
    by shortest augmenting paths (R. Jonker and A. Volgenant, 1987; the `lapx` package).
    """
    if not margin.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    cost = np.where(margin > 0, -margin, 0).astype(np.float64)
    pairs = lap.lapjvxa(cost, extend_cost=True, return_cost=False)
    rows, columns = pairs[cost[pairs[:, 0], pairs[:, 1]] < 0].astype(np.int64).T
    return rows, columns


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
