"""The expert's FastestDet head: decoding and suppression compiled by Numba."""

from __future__ import annotations

import math

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

IOU = 0.45


@numba.njit(cache=True, nogil=True)
def detect(cells: Floats, confidence: float, width: int, height: int, columns: int, found: Floats) -> int:
    """Fill `found` (M, 6: x1 y1 x2 y2 score class) from the map (5 + classes, cells); how many rows it has."""
    channels, count = cells.shape
    rows = count // columns
    likely = confidence ** (1 / 0.6)
    total = 0
    for cell in range(count):
        if cells[0, cell] < likely:
            continue
        best, best_class = np.float32(0), 0
        for channel in range(5, channels):
            if cells[channel, cell] > best:
                best, best_class = cells[channel, cell], channel - 5
        score = cells[0, cell] ** 0.6 * best**0.4
        if score < confidence:
            continue
        x = (cell % columns + math.tanh(cells[1, cell])) / columns * width
        y = (cell // columns + math.tanh(cells[2, cell])) / rows * height
        half_w = width / (1 + math.exp(-cells[3, cell])) / 2
        half_h = height / (1 + math.exp(-cells[4, cell])) / 2
        found[total, 0], found[total, 1] = max(x - half_w, 0), max(y - half_h, 0)
        found[total, 2], found[total, 3] = min(x + half_w, width), min(y + half_h, height)
        found[total, 4], found[total, 5] = score, best_class
        total += 1
    kept: int = suppress(found, total)
    return kept


@numba.njit(cache=True, nogil=True)
def suppress(found: Floats, total: int) -> int:
    """Sorts the first `total` rows by falling score and keeps those that overlap none before them, in place."""
    rows = found[:total][np.argsort(-found[:total, 4])]
    kept = 0
    for row in range(total):
        clear = True
        for other in range(kept):
            if overlap(rows[row], found[other]) > IOU:
                clear = False
                break
        if clear:
            found[kept] = rows[row]
            kept += 1
    return kept


@numba.njit(cache=True, nogil=True, inline="always")
def overlap(one: Floats, other: Floats) -> float:
    """Intersection over union of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    areas = (one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1])
    return float(shared / (areas - shared))
