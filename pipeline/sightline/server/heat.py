"""Heat maps: where objects stood and went on the frames of each stream, by hour and label.

A grid of 96x54 cells lies over the frame, whatever its size. Objects are looked at five times a second of their stream:
a cell of the grid `feet` gets the time for which an object's feet (the middle of its box's lower edge) were in it, a
cell of `paths` counts the tracks that passed it, each once. The pipeline's threads only add to small tables; once a
minute, these go to the history, where the grids of each hour are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from threading import Lock
from typing import Literal

import numpy as np
import numpy.typing as npt

from sightline.graph import Clock
from sightline.media import Batch, Stream
from sightline.media.heat import GRID_WH, LONGEST_NS, Passages, cells_between, cells_of, feet
from sightline.server.history_series import TooMuch
from sightline.server.history_store import GridRow, HistoryStore

Kind = Literal["feet", "paths"]
Grid = npt.NDArray[np.uint32]
"""(54, 96): milliseconds for `feet`, tracks for `paths`; row 0 is the top of the frame."""
HOUR_MS = 3_600_000
MOST_GRIDS = 6_000
"""Grids that are read for one answer at most: a month of eight labels."""
_EVERY_NS = 200_000_000
_FLUSH_MS = 60_000
_MOST_STREAMS = 1_000
_MOST_LABELS = 64
_WIDTH, _HEIGHT = GRID_WH


@dataclass(slots=True, eq=False)
class _Cells:
    """Cells that are not 0: `row * 96 + column`."""

    feet: dict[int, int] = field(default_factory=dict)
    paths: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Track:
    """Where a track was last."""

    cell: int
    seen_ns: int


@dataclass(slots=True, eq=False)
class _StreamHeat:
    """One stream: when it was looked at, and what was found since the last minute, by label."""

    stream: Stream
    looked_ns: int
    labels: dict[str, _Cells] = field(default_factory=dict)
    tracks: dict[int, _Track] = field(default_factory=dict)
    passages: Passages = field(default_factory=Passages)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The sum of grids: `values` (54, 96) are seconds (`feet`) or tracks (`paths`). `labels` are all that there are in
    the span of time, also those that were not asked for.
    """

    labels: list[str]
    values: npt.NDArray[np.float64]


class HeatMaps:
    """Gathers grids from batches (`take`, from the pipeline's threads), keeps them (`tick`, once a second), and answers
    questions (`map`, from any thread).
    """

    def __init__(self, store: HistoryStore, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._streams: dict[str, _StreamHeat] = {}
        self._flushed_ms = 0

    def take(self, batch: Batch) -> None:
        """Add the objects of a batch that has passed all steps, as `Pipeline.on_batches` gives them."""
        with self._lock:
            due = [
                (row, ms) for row, frame in enumerate(batch.frames) if (ms := self._due_ms(frame.stream, frame.pts_ns))
            ]
            if due and len(batch.objects):
                self._look(batch, due)

    def tick(self, now_ms: int, *, is_last: bool = False) -> None:
        """Keep what was gathered, once a minute and when an hour is over."""
        if (
            not is_last
            and now_ms // HOUR_MS == self._flushed_ms // HOUR_MS
            and 0 <= now_ms - self._flushed_ms < _FLUSH_MS
        ):
            return
        self.flush(self._flushed_ms or now_ms)
        self._flushed_ms = now_ms

    def flush(self, now_ms: int) -> None:
        """Keep what was gathered, as that of the hour in which `now_ms` is."""
        with self._lock:
            gathered = [(name, one.labels) for name, one in self._streams.items() if one.labels]
            for one in self._streams.values():
                one.labels = {}
        rows = [row for name, labels in gathered for row in _rows(name, labels, hour_ms=now_ms // HOUR_MS * HOUR_MS)]
        if rows:
            self._store.add_grids(rows, merge=_merged)

    def map(
        self, stream: str, kind: Kind, *, labels: Sequence[str] = (), start_seconds: float, end_seconds: float
    ) -> HeatMap:
        """The heat map of a stream, of the labels that match one of the globs (all when there is none), of the hours
        that begin in a span of time, and of the one in which it begins.

        Raises TooMuch when there is more to read than for one answer.
        """
        self.flush(self._clock.epoch_ns() // 1_000_000)
        start_ms = int(start_seconds * 1_000) // HOUR_MS * HOUR_MS
        found = self._store.grids(stream, start_ms=start_ms, end_ms=int(end_seconds * 1_000), limit=MOST_GRIDS + 1)
        if len(found) > MOST_GRIDS:
            raise TooMuch(f"more than {MOST_GRIDS} grids would have to be read: ask for a shorter time")
        total = np.zeros((_HEIGHT, _WIDTH), np.float64)
        for label, stood, paths in found:
            if not labels or any(label == glob or fnmatchcase(label, glob) for glob in labels):
                total += _decoded(stood if kind == "feet" else paths)
        return HeatMap(sorted({label for label, _, _ in found}), total / 1_000 if kind == "feet" else total)

    def _due_ms(self, stream: Stream, pts_ns: int) -> int:
        """For how long the objects of a frame count, in milliseconds; 0 when it is not looked at."""
        known = self._streams.get(stream.name)
        if known is None or known.stream is not stream:
            labels = {} if known is None else known.labels
            known = self._streams[stream.name] = _StreamHeat(stream, pts_ns - _EVERY_NS, labels)
            if len(self._streams) > _MOST_STREAMS:
                del self._streams[next(iter(self._streams))]
        passed_ns = pts_ns - known.looked_ns
        if 0 <= passed_ns < _EVERY_NS:
            return 0
        known.looked_ns = pts_ns
        return (min(passed_ns, LONGEST_NS) if passed_ns > 0 else _EVERY_NS) // 1_000_000

    def _look(self, batch: Batch, due: Sequence[tuple[int, int]]) -> None:
        objects, labels = batch.objects, batch.objects.labels()
        bounds = np.searchsorted(objects.frame, [[row, row + 1] for row, _ in due]).tolist()
        for (row, ms), (first, last) in zip(due, bounds, strict=True):
            if first == last:
                continue
            frame = batch.frames[row]
            heat = self._streams[frame.stream.name]
            points = feet(objects.xyxy[first:last], size_wh=frame.size_wh, grid_wh=GRID_WH)
            cells = cells_of(points, columns=_WIDTH)
            tracks = objects.track_id[first:last].tolist()
            for cell, label, track_id in zip(cells.tolist(), labels[first:last], tracks, strict=True):
                own = heat.labels.get(label)
                if own is None:
                    if len(heat.labels) >= _MOST_LABELS:
                        continue
                    own = heat.labels[label] = _Cells()
                own.feet[cell] = own.feet.get(cell, 0) + ms
                if track_id >= 0:
                    for passed in _passed(heat, track_id, cell, now_ns=frame.pts_ns):
                        own.paths[passed] = own.paths.get(passed, 0) + 1


def _passed(heat: _StreamHeat, track_id: int, cell: int, *, now_ns: int) -> Iterable[int]:
    """The cells that a track passes for the first time, on its way from where it was last."""
    track = heat.tracks.get(track_id)
    is_known = track is not None and 0 <= now_ns - track.seen_ns <= LONGEST_NS
    way = cells_between(track.cell, cell, columns=_WIDTH) if track is not None and is_known else (cell,)
    heat.tracks[track_id] = _Track(cell, now_ns)
    _, new = heat.passages.take(track_id, way, now_ns=now_ns)
    if len(heat.tracks) > 2 * len(heat.passages):
        heat.tracks = {one: last for one, last in heat.tracks.items() if one in heat.passages}
    return new


def _rows(stream: str, labels: dict[str, _Cells], *, hour_ms: int) -> Iterator[GridRow]:
    for label, cells in labels.items():
        yield stream, hour_ms, label, _encoded(_filled(cells.feet)), _encoded(_filled(cells.paths))


def _filled(cells: dict[int, int]) -> Grid:
    grid = np.zeros(_WIDTH * _HEIGHT, np.uint32)
    if cells:
        grid[list(cells)] = list(cells.values())
    return grid.reshape(_HEIGHT, _WIDTH)


def _encoded(grid: Grid) -> bytes:
    return zlib.compress(grid.astype("<u4").tobytes(), 1)


def _decoded(body: bytes) -> Grid:
    return np.frombuffer(zlib.decompress(body), "<u4").reshape(_HEIGHT, _WIDTH)


def _merged(one: bytes, other: bytes) -> bytes:
    return _encoded(_decoded(one) + _decoded(other))
