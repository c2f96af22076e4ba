"""Heat maps: a grid of cells over the frame, the cells that feet and ways are in, and which tracks have passed them.

Points are in cells: (0, 0) is the upper left corner of the frame, and (columns, rows) the lower right one, whatever the
frame's size. A cell has the number `row * columns + column`. Arrays in, arrays out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes

GRID_WH = (96, 54)
"""Columns and rows, unless others are asked for."""
LONGEST_NS = 1_000_000_000
"""An object that was not seen for longer was not there, and its way is not known."""

Points = npt.NDArray[np.float64]
Cells = npt.NDArray[np.intp]


def feet(xyxy: Boxes, *, size_wh: tuple[int, int], grid_wh: tuple[int, int]) -> Points:
    """Return the feet (N, 2) of boxes (N, 4) in pixels: the middles of their lower edges. Those beyond the edge of the
    frame are on it, and so within the outer cells.
    """
    scale = np.array(grid_wh, np.float64) / np.array(size_wh, np.float64)
    points = np.stack([(xyxy[:, 0].astype(np.float64) + xyxy[:, 2]) / 2, xyxy[:, 3]], axis=1) * scale
    inside: Points = np.clip(np.nan_to_num(points), 0, np.nextafter(np.array(grid_wh, np.float64), 0))
    return inside


def cells_of(points: Points, *, columns: int) -> Cells:
    """Return the cells (N,) that points (N, 2) are in."""
    whole = points.astype(np.intp)
    return whole[:, 1] * columns + whole[:, 0]


def cells_between(first: int, last: int, *, columns: int) -> Iterator[int]:
    """Yield the cells on the straight way from the middle of one cell to that of another, without the first."""
    (row, column), (last_row, last_column) = divmod(first, columns), divmod(last, columns)
    rows, across = last_row - row, last_column - column
    steps = max(abs(rows), abs(across))
    for step in range(1, steps + 1):
        yield (row + round(rows * step / steps)) * columns + column + round(across * step / steps)


def share_ways(start: Points, end: Points, *, columns: int) -> tuple[Cells, Cells, npt.NDArray[np.float64]]:
    """Cut straight ways (N, 2) where they go from one cell to the next.

    Return three columns over the pieces, in the order of the ways and along each: the number of the way, the cell, and
    which share of the way it is. The shares of a way add up to 1; one that stays where it is has one piece.
    """
    if not len(start):
        return np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0)
    way = end - start
    low, high = np.minimum(start, end), np.maximum(start, end)
    first = np.floor(low) + 1
    cuts = [np.zeros((len(start), 1)), np.ones((len(start), 1))]
    for axis in (0, 1):
        most = int(np.max(np.ceil(high[:, axis]) - first[:, axis], initial=0))
        edges = first[:, axis, None] + np.arange(most)
        is_cut = edges < high[:, axis, None]
        ahead = (edges - start[:, axis, None]) / np.where(is_cut, way[:, axis, None], 1)
        cuts.append(np.where(is_cut, np.clip(ahead, 0, 1), 1))
    at = np.sort(np.concatenate(cuts, axis=1), axis=1)
    share = np.diff(at, axis=1)
    owner, place = np.nonzero(share > 0)
    middle = (at[owner, place] + at[owner, place + 1]) / 2
    return owner, cells_of(start[owner] + way[owner] * middle[:, None], columns=columns), share[owner, place]


class Passages:
    """Which cells each track has passed. One that was not seen for `memory_ns` is a new one; with more than `most`
    tracks, the older half is forgotten.
    """

    def __init__(self, *, most: int = 4_096, memory_ns: int | None = None) -> None:
        self._most = most
        self._memory_ns = memory_ns
        self._seen: dict[int, tuple[int, set[int]]] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, track_id: int) -> bool:
        return track_id in self._seen

    def take(self, track_id: int, cells: Iterable[int], *, now_ns: int) -> tuple[bool, list[int]]:
        """Return whether the track is a new one, and which of these cells it passes for the first time, each once."""
        known = self._seen.pop(track_id, None)
        is_new = known is None or (self._memory_ns is not None and abs(now_ns - known[0]) > self._memory_ns)
        passed = set() if known is None or is_new else known[1]
        if len(self._seen) >= self._most:
            for oldest in list(self._seen)[: -(-self._most // 2)]:
                del self._seen[oldest]
        self._seen[track_id] = (now_ns, passed)
        new = [cell for cell in dict.fromkeys(cells) if cell not in passed]
        passed.update(new)
        return is_new, new

    def seen(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yield each track with the time at which it was last seen and its cells in ascending order, the one that was
        seen last at the end.
        """
        return ((track_id, seen_ns, sorted(cells)) for track_id, (seen_ns, cells) in self._seen.items())


def levels_of(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint8]:
    """Return what is drawn of the values (rows, columns) of a heat map: 0 where there is nothing, 255 at the hottest.

    The level grows with the square root, which shows the ways beside the places where somebody stood. The hottest
    hundredth of the cells that are not empty has the same level, so that a parked car does not hide the rest.
    """
    filled = values[values > 0]
    if not len(filled):
        return np.zeros(values.shape, np.uint8)
    hottest = float(np.quantile(filled, 0.99))
    levels: npt.NDArray[np.uint8] = np.rint(np.sqrt(np.clip(values / hottest, 0, 1)) * 255).astype(np.uint8)
    return levels
