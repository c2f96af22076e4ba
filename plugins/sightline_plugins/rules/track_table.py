"""The memory of rules: some columns for each track of a stream, bounded, and as plain values for a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved
from sightline_plugins.native import POINTER, SIZE, function, pointer

MEMORY_NS = 60_000_000_000
"""A track that was not seen for longer is a new one when it comes back."""
_FEW = 16
_NEVER = np.iinfo(np.int64).min
_see_tracks = function("see_tracks", SIZE, POINTER, POINTER, SIZE, POINTER, POINTER)

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
        self._most = _FEW
        self._found = self.track_id, np.zeros(0, np.intp)
        """The tracks that were looked up last, and their rows: often those of the next frame, too."""

    def rows(self, track_id: Ids, *, now_ns: int) -> tuple[Indices, Mask]:
        """Return the rows (N,) of tracks that are seen now, and which of them are new (N,); those get a row. The rows
        belong to the table: they are not written to.
        """
        rows, is_new = self._find(track_id)
        self.seen_ns[rows] = now_ns
        return rows, is_new

    def see(self, track_id: Ids, pts_ns: Ids) -> tuple[Indices, Mask]:
        """Return the rows (N,) of tracks on successive frames, with the times of those (N,) in ascending order, and
        which are `fresh` (N,): seen for the first time, or after `MEMORY_NS`. The rows belong to the table.

        The columns of a fresh track hold anything. Tracks that were not seen for `MEMORY_NS` are forgotten by and by.
        """
        if len(self) > self._most:
            self.keep(np.abs(self.seen_ns - pts_ns[-1]) <= MEMORY_NS)
            self._most = max(_FEW, 2 * len(self))
        rows, fresh = self._find(track_id)
        times = np.ascontiguousarray(pts_ns, np.int64)
        _see_tracks(len(rows), pointer(rows), pointer(times), MEMORY_NS, pointer(self.seen_ns), pointer(fresh))
        return rows, fresh

    def replace(self, name: str, column: Column) -> None:
        """Replace a column by one with rows of another shape, in which a new track has zeros."""
        if len(column) != len(self):
            raise ValueError(f"{name} needs {len(self)} rows, not {len(column)}")
        self._new[name] = np.zeros(column.shape[1:], column.dtype)
        self._columns[name] = np.ascontiguousarray(column)

    def _find(self, track_id: Ids) -> tuple[Indices, Mask]:
        """Return the rows of tracks (N,), and which had none (N,); those get one, and have never been seen."""
        if np.array_equal(track_id, self._found[0]):
            return self._found[1], np.zeros(len(track_id), np.bool_)
        numbers = track_id.tolist()
        found = list(map(self._rows.get, numbers, repeat(-1)))
        is_new = np.array(found, np.intp) < 0
        if is_new.any():
            first = len(self)
            for number in numbers:
                self._rows.setdefault(number, len(self._rows))
            added = len(self._rows) - first
            self.track_id = np.concatenate([self.track_id, np.array(list(self._rows)[first:], np.int64)])
            self.seen_ns = np.concatenate([self.seen_ns, np.full(added, _NEVER)])
            for name, value in self._new.items():
                more = np.broadcast_to(value, (added, *value.shape))
                self._columns[name] = np.ascontiguousarray(np.concatenate([self._columns[name], more]))
            found = [self._rows[number] for number in numbers]
        self._found = track_id, np.array(found, np.intp)
        return self._found[1], is_new

    def keep(self, kept: Mask) -> None:
        """Forget the tracks whose rows are not in the mask (R,)."""
        if kept.all():
            return
        self.track_id, self.seen_ns = self.track_id[kept], self.seen_ns[kept]
        self._columns = {name: column[kept] for name, column in self._columns.items()}
        self._rows = {number: row for row, number in enumerate(self.track_id.tolist())}
        self._found = self.track_id[:0], np.zeros(0, np.intp)

    def save(self) -> Saved:
        """Return the table as plain values: lists by name of the column.

        Rows of masks and signs (int8) are texts of `+`, `-` and `0`: a table of many shapes is ten times as short.
        """
        return {
            "track_id": self.track_id.tolist(),
            "seen_ns": self.seen_ns.tolist(),
            **{name: _written(column) for name, column in self._columns.items()},
        }

    def restore(self, saved: Saved) -> None:
        """Take over a saved table. One with other columns than this one is forgotten."""
        self.clear()
        if saved.keys() != {"track_id", "seen_ns", *self._new}:
            return
        track_id = np.array(saved["track_id"], np.int64)
        self.track_id, self.seen_ns = track_id, np.array(saved["seen_ns"], np.int64)
        self._columns = {
            name: _read(saved[name], value.dtype, dimensions=1 + value.ndim).reshape(len(track_id), *value.shape)
            for name, value in self._new.items()
        }
        self._rows = {number: row for row, number in enumerate(track_id.tolist())}


_SIGNS = b"0+-"


def _are_signs(dtype: np.dtype[Any], dimensions: int) -> bool:
    return dimensions == 2 and dtype in (np.bool_, np.int8)


def _written(column: Column) -> list[Any]:
    if not _are_signs(column.dtype, column.ndim):
        return list(column.tolist())
    return [row.tobytes().decode() for row in np.frombuffer(_SIGNS, np.uint8)[column.astype(np.int8)]]


def _read(rows: Sequence[Any], dtype: np.dtype[Any], *, dimensions: int) -> Column:
    """Return what was `_written`, all rows in one. Raises ValueError for a text that is none."""
    if not _are_signs(dtype, dimensions):
        return np.array(rows, dtype)
    values = [_SIGNS.index(sign) for sign in "".join(rows).encode()]
    return np.array([0, 1, -1])[np.array(values, np.intp)].astype(dtype)
