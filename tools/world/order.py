"""Which thing hides which: the order in which to paint things that stand on the ground."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from tools.world.arrays import Floats
from tools.world.camera import Camera
from tools.world.sprite import Footprint


def painting_order(footprints: list[Footprint], *, camera: Camera) -> list[int]:
    """Indices from what is painted first to what is painted last.

    Two footprints that a plane along a world axis separates are ordered by the side on which the camera is;
    others by their depth. Where that runs in a circle, the deepest is painted first.
    """
    count = len(footprints)
    if not count:
        return []
    low = np.array([(f.x0, f.y0) for f in footprints])
    high = np.array([(f.x1, f.y1) for f in footprints])
    middle = np.concatenate([(low + high) / 2, np.zeros((count, 1))], axis=1)
    depth = (middle - camera.position) @ camera.world_to_camera[2]
    hides = depth[:, None] < depth[None, :]
    for axis in (0, 1):
        before = high[:, None, axis] <= low[None, :, axis]
        eye = camera.position[axis]
        first_hides = before & (eye < low[None, :, axis])
        second_hides = before.T & (eye > high[None, :, axis])
        separated = before | before.T
        hides = np.where(separated, first_hides | second_hides, hides)
    return _sorted_by_hiding(hides, depth=depth)


def _sorted_by_hiding(hides: npt.NDArray[np.bool_], *, depth: Floats) -> list[int]:
    np.fill_diagonal(hides, val=False)
    waits_for = hides.sum(axis=1)
    left = np.ones(len(depth), dtype=bool)
    order = []
    while left.any():
        free = left & (waits_for == 0)
        candidates = np.flatnonzero(free if free.any() else left)
        chosen = int(candidates[np.argmax(depth[candidates])])
        order.append(chosen)
        left[chosen] = False
        waits_for = waits_for - hides[:, chosen]
    return order
