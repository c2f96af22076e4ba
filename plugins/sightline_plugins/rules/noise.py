"""Measure how much the boxes of tracks tremble, so that a shape's edge can be as wide as that."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.graph.rule import TrackedObjects
from sightline.graph.state import Saved

Floats = npt.NDArray[np.float64]

_MEMORY_NS = 60_000_000_000
_WEIGHT = 0.2
_LARGEST_STEP, _FIRST_STEP = 3.0, 0.1
"""What a turn adds is bounded: by so many times the present mean, and so many pixels."""
_PER_DEVIATION = 1.954
"""Mean size of the second difference of positions with noise of deviation 1: sqrt(6) * sqrt(2 / pi)."""
_UNEVEN = 1.2
_COLUMNS = 11
"""Of a track: its last box, its last step, the duration of that, the mean second difference, and when it was seen."""


class BoxNoise:
    """Keeps the noise of each track of one stream: the standard deviation of its box's edges, in pixels.

    It is measured by the second difference of the edges, which steady motion does not change; turns count little.
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._table: Floats = np.zeros((0, _COLUMNS))

    def update(self, tracks: TrackedObjects) -> Floats:
        """Take the boxes of the next frames; return the noise of each of them (N,)."""
        noise = np.zeros(len(tracks.track_id))
        for now_ns, own in zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True):
            ids = tracks.track_id[own]
            if len(ids):
                noise[own] = self._step(ids.tolist(), tracks.xyxy[own].astype(np.float64), now_ns)
        return noise

    def save(self) -> Saved:
        """Return what is known of each track."""
        return {"tracks": [[one, self._table[row].tolist()] for one, row in self._rows.items()]}

    def restore(self, saved: Saved) -> None:
        """Go on with what was known in another process."""
        columns = [(int(one), [float(value) for value in row]) for one, row in saved["tracks"]]
        self._rows = {one: row for row, (one, _) in enumerate(columns)}
        self._table = np.array([row for _, row in columns], np.float64).reshape(-1, _COLUMNS)

    def _step(self, ids: list[int], xyxy: Floats, now_ns: int) -> Floats:
        known = np.array([one in self._rows for one in ids])
        rows = np.array([self._row(one, now_ns) for one in ids], np.intp)
        before = self._table[rows]
        step, seconds = xyxy - before[:, :4], (now_ns - before[:, 10]) / 1e9
        even = known & (before[:, 8] > 0) & (seconds < _UNEVEN * before[:, 8]) & (seconds * _UNEVEN > before[:, 8])
        size = np.abs(step - before[:, 4:8]).mean(axis=1)
        bounded = np.minimum(size, _LARGEST_STEP * before[:, 9] + _FIRST_STEP)
        mean = np.where(even, before[:, 9] + _WEIGHT * (bounded - before[:, 9]), before[:, 9])
        now = np.concatenate(
            [xyxy, step, np.where(known, seconds, 0)[:, None], mean[:, None], np.full((len(ids), 1), now_ns)], axis=1
        )
        self._table[rows] = now
        deviation: Floats = mean / _PER_DEVIATION
        return deviation

    def _row(self, track_id: int, now_ns: int) -> int:
        row = self._rows.get(track_id)
        if row is None:
            if len(self._rows) == len(self._table):
                self._make_room(now_ns)
            taken = set(self._rows.values())
            row = self._rows[track_id] = next(number for number in range(len(self._table)) if number not in taken)
            self._table[row] = 0
        return row

    def _make_room(self, now_ns: int) -> None:
        """Forget tracks that were not seen for long; else double the table."""
        self._rows = {one: row for one, row in self._rows.items() if now_ns - self._table[row, 10] <= _MEMORY_NS}
        if 2 * len(self._rows) > len(self._table) or not len(self._table):
            self._table = np.concatenate([self._table, np.zeros((max(16, len(self._table)), _COLUMNS))])
