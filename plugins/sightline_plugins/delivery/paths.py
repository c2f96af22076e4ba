"""Paths with fewer points: Ramer-Douglas-Peucker (Douglas and Peucker 1973). Arrays in, arrays out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

_WIDER = 1.5
_LEAST_WIDER = 0.1


def simplify(points: Floats, *, tolerance: float) -> Indices:
    """Return the indices of the points (N, 2) that are kept, ascending: the first, the last, and as many as it takes
    for every point to lie within `tolerance` (in the unit of the points) of the line between the kept ones around it.
    """
    count = len(points)
    kept = np.zeros(count, np.bool_)
    kept[:1] = kept[-1:] = True
    parts = [(0, count - 1)]
    while parts:
        first, last = parts.pop()
        if last - first < 2:
            continue
        distances = distances_to_segment(points[first + 1 : last], start=points[first], end=points[last])
        farthest = int(distances.argmax())
        if distances[farthest] > tolerance:
            middle = first + 1 + farthest
            kept[middle] = True
            parts += [(first, middle), (middle, last)]
    return np.flatnonzero(kept)


def simplify_to(points: Floats, *, tolerance: float, most: int) -> tuple[Indices, float]:
    """Return the indices of at most `most` points (at least 2), and the tolerance that it took: the one given, or a
    larger one.
    """
    kept = simplify(points, tolerance=tolerance)
    while len(kept) > most:
        tolerance = max(tolerance * _WIDER, _LEAST_WIDER)
        kept = simplify(points, tolerance=tolerance)
    return kept, tolerance


def distances_to_segment(points: Floats, *, start: Floats, end: Floats) -> Floats:
    """Return the distances of points (N, 2) from the segment between two points (2,) -> (N,)."""
    along = end - start
    length = float(np.hypot(along[0], along[1]))
    if length == 0:
        away = points - start
    else:
        unit = along / length
        offset = points - start
        away = offset - np.clip(offset @ unit, 0, length)[:, None] * unit
    distances: Floats = np.hypot(away[:, 0], away[:, 1])
    return distances
