"""The memory of rules of motion: some columns for each track of a stream, bounded, and as plain values for a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved

Column = npt.NDArray[Any]
Indices = npt.NDArray[np.intp]
Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class TrackTable:
    """Columns over R tracks, one row a track, in the order in which they came.

    `new` holds, by name, what a column holds for a new track: its dtype and shape are those of the column's rows. Times
    are integers (nanoseconds), -1 where there is none. A column belongs to the table: it is written to in place, and is
    another array after rows were added or dropped.
    """

    def __init__(self, new: Mapping[str, npt.ArrayLike]) -> None:
        self._new = {name: np.asarray(value) for name, value in new.items()}
        self.clear()

    def __len__(self) -> int:
        return len(self.track_id)

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def clear(self) -> None:
        """Forget all tracks."""
        self.track_id: Ids = np.zeros(0, np.int64)
        self.seen_ns: Ids = np.zeros(0, np.int64)
        self._columns = {name: np.zeros((0, *value.shape), value.dtype) for name, value in self._new.items()}
        self._rows: dict[int, int] = {}

    def rows(self, track_id: Ids, *, now_ns: int) -> tuple[Indices, Mask]:
        """Return the rows (N,) of tracks that are seen now, and which of them are new (N,); those get a row."""
        numbers = track_id.tolist()
        found = [self._rows.get(number, -1) for number in numbers]
        is_new = np.array(found, np.intp) < 0
        if is_new.any():
            first = len(self)
            for number in numbers:
                self._rows.setdefault(number, len(self._rows))
            added = len(self._rows) - first
            self.track_id = np.concatenate([self.track_id, np.array(list(self._rows)[first:], np.int64)])
            self.seen_ns = np.concatenate([self.seen_ns, np.full(added, now_ns)])
            for name, value in self._new.items():
                more = np.broadcast_to(value, (added, *value.shape))
                self._columns[name] = np.concatenate([self._columns[name], more])
            found = [self._rows[number] for number in numbers]
        rows = np.array(found, np.intp)
        self.seen_ns[rows] = now_ns
        return rows, is_new

    def keep(self, kept: Mask) -> None:
        """Forget the tracks whose rows are not in the mask (R,)."""
        if kept.all():
            return
        self.track_id, self.seen_ns = self.track_id[kept], self.seen_ns[kept]
        self._columns = {name: column[kept] for name, column in self._columns.items()}
        self._rows = {number: row for row, number in enumerate(self.track_id.tolist())}

    def save(self) -> Saved:
        """Return the table as plain values: lists by name of the column."""
        return {
            "track_id": self.track_id.tolist(),
            "seen_ns": self.seen_ns.tolist(),
            **{name: column.tolist() for name, column in self._columns.items()},
        }

    def restore(self, saved: Saved) -> None:
        """Take over a saved table. One with other columns than this one is forgotten."""
        self.clear()
        if saved.keys() != {"track_id", "seen_ns", *self._new}:
            return
        track_id = np.array(saved["track_id"], np.int64)
        self.track_id, self.seen_ns = track_id, np.array(saved["seen_ns"], np.int64)
        self._columns = {
            name: np.array(saved[name], value.dtype).reshape(len(track_id), *value.shape)
            for name, value in self._new.items()
        }
        self._rows = {number: row for row, number in enumerate(track_id.tolist())}
