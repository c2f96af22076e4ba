"""Suppression between boxes that were found apart: on different parts of one image."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline_plugins.nms.greedy import Index
from sightline_plugins.nms.overlap import Floats, Overlap

_SAME = 0.35
"""Overlap above which boxes of two parts can be the same thing, where suppression itself allows more."""


def keep_across(
    shapes: Floats,
    classes: npt.NDArray[np.int32],
    part: Index,
    *,
    order: Index,
    overlap: Overlap,
    limit: float,
) -> npt.NDArray[np.bool_]:
    """Which boxes (N,) stay when each thing is wanted once: boxes of one part are different things already.

    In `order`, each box that stays drops those of other parts and its class that overlap it by more than `limit`, and
    besides, of each other part, the one that overlaps it most, if by more than 0.35. So two things that overlap much,
    which a model without suppression tells apart, are still two when several parts have seen them.
    """
    kept = np.zeros(len(shapes), np.bool_)
    rest = order
    most = np.zeros(int(part.max(initial=0)) + 1)
    while len(rest):
        best, rest = rest[0], rest[1:]
        kept[best] = True
        others = np.flatnonzero((part[rest] != part[best]) & (classes[rest] == classes[best]))
        shared = overlap(shapes[best], shapes[rest[others]])
        owner = part[rest[others]]
        most[:] = 0
        np.maximum.at(most, owner, shared)
        same = (shared > limit) | ((shared > _SAME) & (shared == most[owner]))
        rest = np.delete(rest, others[same])
    return kept
