"""What one heat map of one stream has added up: seconds and tracks by cell, and their state as text."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from math import log
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved
from sightline.media.heat import Cells, Passages
from sightline_plugins.rules.geometry import Floats

Measure = Literal["feet", "dwell", "paths"]
_MOST_TRACKS = 1_024
_MEMORY_NS = 60_000_000_000
"""A track that was not seen for longer passes its cells anew."""
_LOOK_NS = 1_000_000_000


def _passages() -> Passages:
    return Passages(most=_MOST_TRACKS, memory_ns=_MEMORY_NS)


@dataclass(slots=True, eq=False)
class HeatTally:
    """The sums of one map: `time` and `passed` are (rows * columns,), what is older counts less with `half_life_ns`.

    `seconds` and `tracks` are those of the whole run, and never fall.
    """

    grid_wh: tuple[int, int]
    half_life_ns: int | None = None
    seconds: float = 0.0
    tracks: int = 0
    time: Floats = field(init=False)
    passed: Floats = field(init=False)
    as_of_ns: int | None = None
    """When the sums were worth what they are."""
    passages: Passages = field(default_factory=_passages)
    _there: npt.NDArray[np.int64] = field(init=False, repr=False)
    """Tracks and cells of the frame before, in one number each."""
    _looked_ns: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what is in the cells; the sums of the run stay."""
        cells = self.grid_wh[0] * self.grid_wh[1]
        self.time, self.passed = np.zeros(cells), np.zeros(cells)
        self._forget_passages()

    def forget_tracks(self) -> None:
        """Forget who passed where, and the time of the stream: it has ended."""
        self.as_of_ns = None
        self._forget_passages()

    def add_time(self, cells: Cells, seconds: Floats, *, now_ns: int) -> None:
        """Add the seconds (M,) until now to cells (M,)."""
        self.fade(now_ns)
        np.add.at(self.time, cells, self._faded(seconds))
        self.seconds += float(seconds.sum())

    def add_passages(self, track_id: npt.NDArray[np.int64], cells: Cells, *, now_ns: int) -> None:
        """Count the tracks (M,) in the cells (M,) that each passes for the first time; those of a track in a row.

        Who is in the cells of the frame before is looked at once a second only.
        """
        self.fade(now_ns)
        keys = track_id * len(self.time) + cells
        if 0 <= now_ns - self._looked_ns < _LOOK_NS:
            is_there = np.isin(keys, self._there)
        else:
            is_there, self._looked_ns = np.zeros(len(keys), np.bool_), now_ns
        self._there = keys
        moved = np.flatnonzero(~is_there)
        pairs_of = zip(track_id[moved].tolist(), cells[moved].tolist(), strict=True)
        for own_id, pairs in groupby(pairs_of, key=itemgetter(0)):
            is_new, new = self.passages.take(own_id, (cell for _, cell in pairs), now_ns=now_ns)
            self.tracks += is_new
            self.passed[new] += 1

    def fade(self, now_ns: int) -> None:
        """Let the sums be worth what they are now."""
        if self.half_life_ns is not None and self.as_of_ns is not None and now_ns > self.as_of_ns:
            share = 0.5 ** ((now_ns - self.as_of_ns) / self.half_life_ns)
            self.time *= share
            self.passed *= share
        self.as_of_ns = now_ns

    def values(self, measure: Measure) -> Floats:
        """Return the map (rows, columns): seconds, seconds for each track, or tracks."""
        if measure == "paths":
            values = self.passed.copy()
        else:
            values = self.time / np.maximum(self.passed, 1) if measure == "dwell" else self.time.copy()
        return values.reshape(self.grid_wh[::-1])

    def save(self) -> Saved:
        """Return the sums, for another process; the cells are packed."""
        tracks = list(self.passages.seen())
        return {
            "grid": list(self.grid_wh),
            "seconds": self.seconds,
            "tracks": self.tracks,
            "as_of_ns": self.as_of_ns,
            "time": packed(self.time),
            "passed": packed(self.passed),
            "passages": {
                "ids": [track_id for track_id, _, _ in tracks],
                "seen_ns": [seen_ns for _, seen_ns, _ in tracks],
                "counts": [len(cells) for _, _, cells in tracks],
                "cells": packed(np.array([cell for _, _, cells in tracks for cell in cells], np.int32)),
            },
        }

    def restore(self, saved: Saved) -> None:
        """Take over the sums of the run, and the cells where the grid is still the same."""
        seconds, tracks = float(saved["seconds"]), int(saved["tracks"])
        as_of_ns = None if saved["as_of_ns"] is None else int(saved["as_of_ns"])
        if list(self.grid_wh) == saved["grid"]:
            cells = self.grid_wh[0] * self.grid_wh[1]
            time, passed = unpacked(saved["time"], count=cells), unpacked(saved["passed"], count=cells)
            passages = _passages()
            for track_id, seen_ns, own in _rows_of(saved["passages"]):
                passages.take(track_id, own, now_ns=seen_ns)
            self.time, self.passed, self.passages = time, passed, passages
        self.seconds, self.tracks, self.as_of_ns = seconds, tracks, as_of_ns

    def _forget_passages(self) -> None:
        self.passages, self._there = _passages(), np.zeros(0, np.int64)

    def _faded(self, seconds: Floats) -> Floats:
        """Return what seconds until now are worth when the first of them are older than the last."""
        if self.half_life_ns is None:
            return seconds
        half_life = self.half_life_ns / 1e9
        worth: Floats = half_life / log(2) * -np.expm1(-log(2) * seconds / half_life)
        return worth


def packed(values: npt.NDArray[np.float64] | npt.NDArray[np.int32]) -> str:
    """Return numbers as text that `unpacked` reads, exactly."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return b64encode(zlib.compress(little.tobytes(), 1)).decode("ascii")


def unpacked(text: str, *, count: int, dtype: str = "<f8") -> npt.NDArray[Any]:
    """Return `count` numbers of a text. Raises ValueError when they are others, or so many that they are a trap."""
    size = np.dtype(dtype).itemsize
    try:
        body = zlib.decompressobj().decompress(b64decode(text, validate=True), size * count + 1)
    except zlib.error as error:
        raise ValueError(f"the cells of a heat map cannot be read: {error}") from error
    if len(body) != size * count:
        raise ValueError(f"a heat map has {len(body) // size} numbers instead of {count}")
    return np.frombuffer(body, dtype).astype(np.dtype(dtype).newbyteorder("="))


def _rows_of(saved: Saved) -> Iterator[tuple[int, int, list[int]]]:
    counts: list[Any] = saved["counts"]
    cells: list[int] = unpacked(saved["cells"], count=sum(counts), dtype="<i4").tolist()
    first = 0
    for track_id, seen_ns, count in zip(saved["ids"], saved["seen_ns"], counts, strict=True):
        yield int(track_id), int(seen_ns), cells[first : first + count]
        first += count
