"""Since when objects have kept within a small part of the image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sightline.media.boxes import Boxes
from sightline_plugins.native import POINTER, SIZE, function, pointer
from sightline_plugins.rules.geometry import Floats
from sightline_plugins.rules.track_table import Ids

_MOST_EXTREMES = 20
_HEADER, _OF_EXTREMES = 2, 2 + 3 * _MOST_EXTREMES
_COLUMNS = _HEADER + 4 * _OF_EXTREMES
"""`Standing` of native.c: `since` and `last`; of the lowest and highest x and y the first place, the number, and time,
value and time of the next position for each."""
_NEW = np.iinfo(np.int64).min
_stand = function("stand", SIZE, SIZE, *[POINTER] * 9)


class Standings:
    """Since when the path of each of some objects has fitted into an upright square, whose side each has of its own.

    Only the path of the last span is judged: an object that creeps on by less than a side in that time stands, however
    far it comes. The answer is the same at every frame rate, within a frame and a 16th of the side: positions are
    rounded to that, so that extremes of a path, in order of time, are 17 at most for each edge of the square.
    """

    def __init__(self) -> None:
        self._table: Ids = np.zeros((0, _COLUMNS), np.int64)
        self._sides: Floats = np.zeros(0)
        self._free: list[int] = []

    def begin(self, side: float) -> int:
        """Return a row for an object that has to keep within `side` pixels; it belongs to the caller until `end`."""
        if not self._free:
            count = len(self._table)
            self._free = list(range(2 * count + 15, count - 1, -1))
            self._table = np.concatenate([self._table, np.zeros((count + 16, _COLUMNS), np.int64)])
            self._sides = np.concatenate([self._sides, np.zeros(count + 16)])
        row = self._free.pop()
        self._table[row], self._table[row, 0], self._sides[row] = 0, _NEW, side
        return row

    def end(self, row: int) -> None:
        """Forget an object."""
        self._free.append(row)

    def update(
        self,
        rows: Ids,
        *,
        boxes: Ids,
        areas: Ids,
        xyxy: Boxes,
        fractions: Floats,
        spans_ns: Ids,
        now_ns: int,
    ) -> Ids:
        """Return since when (M,) the objects in these rows (M,) have stood, with a frame on which they are seen.

        Each has the number of its box (M,) in `xyxy` (N, 4), and that of its area (M,), whose anchor is at `fractions`
        (Z, 2) of a box and whose span is one of `spans_ns` (Z,).
        """
        since = np.empty(len(rows), np.int64)
        if len(rows):
            corners = np.ascontiguousarray(xyxy, np.float32)
            _stand(
                len(rows),
                now_ns,
                pointer(rows),
                pointer(boxes),
                pointer(areas),
                pointer(corners),
                pointer(fractions),
                pointer(self._sides),
                pointer(spans_ns),
                pointer(self._table),
                pointer(since),
            )
        return since

    def save(self, row: int) -> dict[str, Any]:
        """Return what is known of an object as plain values."""
        own = self._table[row]
        extremes = []
        for number in range(4):
            first, count, *entries = own[_HEADER + number * _OF_EXTREMES :][:_OF_EXTREMES].tolist()
            places = [3 * ((first + place) % _MOST_EXTREMES) for place in range(count)]
            extremes.append([entries[place : place + 3] for place in places])
        since_ns, last_ns = own[:_HEADER].tolist()
        return {"side": float(self._sides[row]), "since_ns": since_ns, "last_ns": last_ns, "extremes": extremes}

    def restore(self, saved: Mapping[str, Any]) -> int:
        """Return a row with what was saved. Raises ValueError when there are more extremes than can be."""
        row = self.begin(float(saved["side"]))
        own = self._table[row]
        own[:_HEADER] = int(saved["since_ns"]), int(saved["last_ns"])
        for number, extremes in enumerate(saved["extremes"]):
            if number >= 4 or len(extremes) > _MOST_EXTREMES:
                raise ValueError("a path has more extremes than can be")
            place = _HEADER + number * _OF_EXTREMES
            entries = [int(value) for time_ns, value, next_ns in extremes for value in (time_ns, value, next_ns)]
            own[place + 1] = len(extremes)
            own[place + 2 : place + 2 + len(entries)] = entries
        return row
