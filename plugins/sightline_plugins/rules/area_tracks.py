"""The memory of rules of motion: a row for each pair of an area and a track that is, or was, in it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved
from sightline_plugins.rules.geometry import Mask
from sightline_plugins.rules.track_table import Column, Ids, Indices

_LEAST_ROWS = 64
_NOWHERE = -1


class AreaTracks:
    """Columns over R rows, one for each pair of an area and a track, in the order in which they came.

    One table serves all areas of a stream, so a step works on all its pairs at once; a pair that never was has no row.
    `new` holds, by name, what a column holds in a new row: its dtype and shape are those of the column's rows. Times
    are integers (nanoseconds), -1 where there is none. A column is a view: it is written to in place, and valid until
    pairs come or are forgotten.

    `area` (R,) are the numbers of the areas, -1 in a row that was forgotten: such rows stay until they are half of all,
    so that forgetting a few pairs costs no copy of the others.
    """

    def __init__(self, new: Mapping[str, npt.ArrayLike]) -> None:
        own = {"area": _NOWHERE, "track_id": -1, "seen_ns": -1}
        self._new = {name: np.asarray(value) for name, value in {**own, **new}.items()}
        self.clear()

    def __len__(self) -> int:
        """Return how many pairs there are."""
        return len(self._rows)

    def __getitem__(self, name: str) -> Column:
        return self._columns[name][: self._count]

    @property
    def area(self) -> Indices:
        """The number of the area of each row (R,), -1 where the row was forgotten."""
        return self._columns["area"][: self._count]

    @property
    def track_id(self) -> Ids:
        """The track of each row (R,)."""
        return self._columns["track_id"][: self._count]

    @property
    def seen_ns(self) -> Ids:
        """When the track was last seen in the area (R,)."""
        return self._columns["seen_ns"][: self._count]

    def clear(self) -> None:
        """Forget all pairs."""
        self._rows: dict[tuple[int, int], int] = {}
        self._count = 0
        self._columns = {name: np.empty((_LEAST_ROWS, *value.shape), value.dtype) for name, value in self._new.items()}

    def rows(self, area: Indices, track_id: Ids, *, now_ns: int) -> tuple[Indices, Mask]:
        """Return the rows (P,) of pairs that are seen now, and which of them are new (P,); those get a row."""
        return self.see(self.known(area, track_id), area, track_id, now_ns=now_ns)

    def known(self, area: Indices, track_id: Ids) -> Indices:
        """Return the rows (P,) of pairs, -1 for those that have none."""
        pairs = zip(area.tolist(), track_id.tolist(), strict=True)
        return np.array(list(map(self._rows.get, pairs, repeat(-1))), np.intp)

    def see(self, rows: Indices, area: Indices, track_id: Ids, *, now_ns: int) -> tuple[Indices, Mask]:
        """Return the rows (P,) of pairs that are seen now, given those that are `known`, and which are new (P,)."""
        is_new: Mask = rows < 0
        if is_new.any():
            rows, known = rows.copy(), len(self._rows)
            for place in np.flatnonzero(is_new).tolist():
                pair = int(area[place]), int(track_id[place])
                rows[place] = self._rows.setdefault(pair, self._count + len(self._rows) - known)
            self._grow(self._count + len(self._rows) - known)
            self.area[rows], self.track_id[rows] = area, track_id
        self.seen_ns[rows] = now_ns
        return rows, is_new

    def rename(self, row: int, track_id: int) -> None:
        """Give the pair in a row another track, which has no row in its area."""
        area, former = int(self.area[row]), int(self.track_id[row])
        del self._rows[area, former]
        self._rows[area, track_id] = row
        self.track_id[row] = track_id

    def forget(self, forgotten: Mask) -> None:
        """Forget the pairs of the mask (R,); row numbers are others after it."""
        rows = np.flatnonzero(forgotten & (self.area != _NOWHERE))
        if not len(rows):
            return
        for pair in zip(self.area[rows].tolist(), self.track_id[rows].tolist(), strict=True):
            del self._rows[pair]
        self.area[rows] = _NOWHERE
        if 2 * len(self) < self._count - _LEAST_ROWS:
            self._pack(self.area != _NOWHERE)

    def renumber(self, moved: Mapping[int, int]) -> None:
        """Give areas other numbers, by the ones that they have; forget the pairs of those that are not among them."""
        numbers = np.full(int(self.area.max(initial=0)) + 2, _NOWHERE)
        for before, number in moved.items():
            if before < len(numbers) - 1:
                numbers[before] = number
        self.area[:] = numbers[self.area]
        self._pack(self.area != _NOWHERE)

    def save(self) -> Saved:
        """Return the pairs as plain values: lists by name of the column."""
        kept = self.area != _NOWHERE
        return {name: self[name][kept].tolist() for name in self._new}

    def restore(self, saved: Saved, moved: Mapping[int, int]) -> None:
        """Take over the saved pairs of the areas of `moved`, which have other numbers here. A table with other columns
        than this one is forgotten.
        """
        self.clear()
        if saved.keys() != self._new.keys():
            return
        self._grow(len(saved["area"]))
        for name, value in self._new.items():
            self[name][:] = np.array(saved[name], value.dtype).reshape(self._count, *value.shape)
        self.renumber(moved)

    def _grow(self, count: int) -> None:
        """Add rows of new pairs, until there are so many."""
        for name, value in self._new.items():
            column = self._columns[name]
            if len(column) < count:
                larger = np.empty((2 * count, *value.shape), value.dtype)
                larger[: self._count] = column[: self._count]
                self._columns[name] = column = larger
            column[self._count : count] = value
        self._count = count

    def _pack(self, kept: Mask) -> None:
        """Drop the rows that are not in the mask (R,)."""
        columns = {name: self[name][kept] for name in self._new}
        self.clear()
        self._grow(int(np.count_nonzero(kept)))
        for name, column in columns.items():
            self[name][:] = column
        pairs = zip(self.area.tolist(), self.track_id.tolist(), strict=True)
        self._rows = {pair: row for row, pair in enumerate(pairs)}
