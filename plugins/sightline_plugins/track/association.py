"""Who is who: one-to-one assignment of tracks to detections, in rounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


def assign(margin: Floats) -> tuple[Indices, Indices]:
    """Rows and columns of the one-to-one assignment with the largest sum of positive margins.

    `margin` (N, M) says how far a pair's similarity is above what it needs; pairs at or below 0 never match.
    Hungarian assignment (scipy's Jonker-Volgenant variant).
    """
    weights = np.maximum(margin, 0)
    rows, columns = linear_sum_assignment(weights, maximize=True)
    chosen = weights[rows, columns] > 0
    return rows[chosen], columns[chosen]


def assign_in_rounds(
    margin: Floats, *, rounds: npt.NDArray[np.integer], row_kind: Indices, column_kind: Indices
) -> tuple[Indices, Indices]:
    """Like `assign`, in rounds: what an earlier round matches is not there for a later one.

    The pair of row i and column j belongs to round `rounds[row_kind[i], column_kind[j]]`. Where no pair competes with
    another, all pairs together are the result of the rounds one after the other, and no solver runs.
    """
    rows, columns = (margin > 0).nonzero()
    if _are_distinct(rows, columns):
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


def _are_distinct(rows: Indices, columns: Indices) -> bool:
    """Whether no row and no column comes twice."""
    return len(set(columns.tolist())) == len(columns) and len(set(rows.tolist())) == len(rows)
