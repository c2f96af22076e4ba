"""Nearest vectors by brute force over 8-bit integers: exact but for rounding, whatever filter chooses the rows.

Measured against other ways in decision 88: no graph and no list of cells can promise its recall when a filter leaves
few rows, and this takes half the memory of halves. The products are those of NumKong, which has them in the
instructions of each processor.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import MissingExtra
from sightline_plugins.search.database import quantised
from sightline_plugins.search.motion import DIRECTIONS

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

UNKNOWN_TIME = np.iinfo(np.int64).min
"""The time of day of a track of which it is not known."""
_NUMBERS: dict[str | None, int] = {None: -1, **{name: number for number, name in enumerate(DIRECTIONS)}}
_ROWS = 1 << 16
"""So many rows are compared at once: their products lie in the cache."""
_READ_ROWS = 4096
_FEW = 0.3
"""Where a filter leaves a smaller share of the rows, those are copied together before they are compared."""


@dataclass(frozen=True, slots=True)
class TrackVectors:
    """Tracks in memory, as columns over N tracks: what filters need, and the vectors. Takes D + 41 bytes a track.

    `start_ns`, `end_ns` (N,): time of day, or UNKNOWN_TIME. `stream`, `label` (N,): numbers of `streams` and `labels`.
    `direction` (N,): number in `DIRECTIONS`, -1 where it is not known. `codes` (N, D) int8 times `factors` (N,) are the
    vectors.
    """

    ids: Ids
    start_ns: Ids
    end_ns: Ids
    stream: npt.NDArray[np.int32]
    label: npt.NDArray[np.int32]
    streams: tuple[str, ...]
    labels: tuple[str, ...]
    direction: npt.NDArray[np.int8]
    codes: npt.NDArray[np.int8]
    factors: npt.NDArray[np.float32]

    @classmethod
    def load(
        cls, connection: sqlite3.Connection, *, dimensions: int, where: str = "1", values: Sequence[Any] = ()
    ) -> TrackVectors:
        """Read the tracks that a condition chooses. Raises sqlite3.Error."""
        (count,) = connection.execute(f"SELECT count(*) FROM tracks WHERE {where}", values).fetchone()  # noqa: S608 - ours
        times = np.full((2, count), UNKNOWN_TIME, np.int64)
        ids, numbers = np.zeros(count, np.int64), np.zeros((2, count), np.int32)
        directions = np.zeros(count, np.int8)
        codes, factors = np.zeros((count, dimensions), np.int8), np.zeros(count, np.float32)
        known: tuple[dict[str, int], dict[str, int]] = ({}, {})
        columns = "id, ifnull(start_ns, ?), ifnull(end_ns, ?), stream, label, direction, factor, vector"
        text = f"SELECT {columns} FROM tracks WHERE {where} ORDER BY id LIMIT ?"  # noqa: S608 - ours
        unknown = int(UNKNOWN_TIME)
        cursor, read = connection.execute(text, (unknown, unknown, *values, count)), 0
        while rows := cursor.fetchmany(_READ_ROWS):  # by column, so that little of it is done in Python
            part = slice(read, read + len(rows))
            read = part.stop
            ids[part], times[0, part], times[1, part], *named, heading, factors[part], vectors = zip(*rows, strict=True)
            for column, names in enumerate(known):
                numbers[column, part] = [names.setdefault(name, len(names)) for name in named[column]]
            directions[part] = [_NUMBERS[name] for name in heading]
            codes[part] = np.frombuffer(b"".join(vectors), np.int8).reshape(len(rows), dimensions)
        streams, labels = (tuple(names) for names in known)
        return cls(
            ids[:read], times[0, :read], times[1, :read], numbers[0, :read], numbers[1, :read], streams, labels,
            directions[:read], codes[:read], factors[:read],
        )  # fmt: skip

    def chosen(
        self,
        *,
        streams: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        direction: str | None = None,
    ) -> Mask:
        """Return which tracks (N,) fit all conditions: of a stream, with a label, seen within a time of day, not known
        to head elsewhere.
        """
        mask = np.ones(len(self.ids), np.bool_)
        for names, known, column in ((streams, self.streams, self.stream), (labels, self.labels, self.label)):
            if names is not None:
                mask &= np.isin(column, [known.index(name) for name in names if name in known])
        if direction is not None:
            mask &= (self.direction < 0) | (self.direction == _NUMBERS[direction])
        if since_ns is not None:
            mask &= self.end_ns >= since_ns
        if until_ns is not None:
            mask &= (self.start_ns <= until_ns) & (self.start_ns != UNKNOWN_TIME)
        return mask

    def nearest(
        self, vector: npt.NDArray[np.float32], *, count: int, mask: Mask | None = None
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]:
        """Return the rows of the `count` nearest vectors, the nearest first, and their cosines with `vector` (D,)."""
        rows = None if mask is None else np.flatnonzero(mask)
        if rows is not None and len(rows) > _FEW * len(self.ids):
            scores = self._scores(vector, self.codes, self.factors)
            scores[~np.asarray(mask)] = -np.inf
            count = min(count, len(rows))
            rows = None
        elif rows is not None:
            scores = self._scores(vector, self.codes[rows], self.factors[rows])
        else:
            scores = self._scores(vector, self.codes, self.factors)
        count = min(count, len(scores))
        best = np.argpartition(scores, len(scores) - count)[len(scores) - count :] if count else np.empty(0, np.intp)
        best = best[np.lexsort((best, -scores[best]))]
        return (best if rows is None else rows[best]), scores[best]

    @staticmethod
    def _scores(
        vector: npt.NDArray[np.float32], codes: npt.NDArray[np.int8], factors: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """The cosines (K,) of a vector with K others."""
        try:
            import numkong
        except ImportError as error:
            raise MissingExtra("numkong", extra="search", purpose="search in words") from error
        query, factor = quantised(vector)
        scores = np.empty(len(codes), np.float32)
        for start in range(0, len(codes), _ROWS):
            part = slice(start, start + _ROWS)
            scores[part] = np.asarray(numkong.cdist(query[None], codes[part], "dot")).ravel()
        scores *= factors
        scores *= np.float32(factor)
        return scores
