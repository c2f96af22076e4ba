"""Workers and streams of a controller as columns, so that a decision about all of them is arithmetic on arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from sightline.cluster.model import StreamSpec
from sightline.cluster.placement import NOWHERE, Held
from sightline.cluster.store import Saved, SavedStream, SavedWorker
from sightline.runtime.processes.restarts import Backoff

_PENALTY_SECONDS = 2.0
"""A worker that comes back after it was lost gets no streams for so long, and twice that each further time."""
_STEADY_SECONDS = 600.0
_COLUMNS_BEGIN = 64


class _Rows:
    """Names and their rows; rows of names that are gone are used again."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.names)

    def _row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            self.names.append(name)
        self.row_of[name] = row
        return row

    def remove(self, row: int) -> None:
        """Forget a name."""
        del self.row_of[self.names[row]]
        self.names[row] = ""
        self._free.append(row)


class Workers(_Rows):
    """One row a worker; columns have at least as many rows as there are names.

    `seen_ns` is the monotonic time of the last heartbeat, `sent_ns` the worker's time of day then, `lapses` how often
    its lease was over, `generation` that of its assignment, `confirmed` what it has put into effect. `is_present` says
    that its lease may be in force, `is_known` that it has reported to this controller, `is_configured` that it has a
    pipeline, `is_unable` that this is not the one that it should have. It is given streams from `back_ns` on;
    `penalty_ns` after it has come back.
    """

    def __init__(self, classes: Classes) -> None:
        super().__init__()
        self._classes = classes
        self.incarnation: list[str] = []
        self.labels: list[Mapping[str, str]] = []
        self.backoff: list[Backoff] = []
        self.capacity = np.zeros(_COLUMNS_BEGIN)
        self.limit = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.seen_ns = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.sent_ns = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.joined_ns = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.back_ns = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.penalty_ns = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.generation = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.confirmed = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.number = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.lapses = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.is_present = np.zeros(_COLUMNS_BEGIN, np.bool_)
        self.is_known = np.zeros(_COLUMNS_BEGIN, np.bool_)
        self.is_configured = np.zeros(_COLUMNS_BEGIN, np.bool_)
        self.is_unable = np.zeros(_COLUMNS_BEGIN, np.bool_)
        self.is_draining = np.zeros(_COLUMNS_BEGIN, np.bool_)
        self.is_drained = np.zeros(_COLUMNS_BEGIN, np.bool_)

    def add(self, name: str, *, incarnation: str) -> int:
        """Add a worker that has not reported yet."""
        row = self._row(name)
        _grow(self, row)
        for column in _columns(self).values():
            column[row] = 0
        if row == len(self.incarnation):
            self.incarnation.append("")
            self.labels.append({})
            self.backoff.append(Backoff())
        self.incarnation[row], self.labels[row] = incarnation, {}
        self.backoff[row] = Backoff(_PENALTY_SECONDS, _STEADY_SECONDS)
        self._classes.match(row, {})
        return row

    def label(self, row: int, labels: Mapping[str, str]) -> None:
        """Set the labels of a worker."""
        if labels != self.labels[row]:
            self.labels[row] = dict(labels)
            self._classes.match(row, labels)


class Classes:
    """What streams require of workers: a row for each different set of labels, a column for each worker."""

    def __init__(self) -> None:
        self._row_of: dict[frozenset[tuple[str, str]], int] = {}
        self.matches = np.zeros((0, _COLUMNS_BEGIN), np.bool_)

    def row(self, requires: Mapping[str, str], *, labels: list[Mapping[str, str]]) -> int:
        """Return the row of a set of labels; `labels` are those of all workers."""
        key = frozenset(requires.items())
        row = self._row_of.get(key)
        if row is None:
            row = self._row_of[key] = len(self._row_of)
            new = np.zeros((1, self.matches.shape[1]), np.bool_)
            new[0, : len(labels)] = [key <= own.items() for own in labels]
            self.matches = np.concatenate([self.matches, new])
        return row

    def match(self, worker: int, labels: Mapping[str, str]) -> None:
        """Note the labels of a worker."""
        if worker >= self.matches.shape[1]:
            self.matches = np.pad(self.matches, ((0, 0), (0, self.matches.shape[1])))
        for key, row in self._row_of.items():
            self.matches[row, worker] = key <= labels.items()

    def text(self, row: int) -> str:
        """What the row requires, for a person."""
        key = next(key for key, one in self._row_of.items() if one == row)
        return ", ".join(f"{name}: {value}" for name, value in sorted(key))


class Streams(_Rows):
    """One row a stream; columns have at least as many rows as there are names.

    `holder` is the worker that has the stream, `target` the one it goes to when `is_leaving`. Both hold since the
    revision `since`. Frames are missing since the time of day `blind_ns`, because of `cause`. A stream that `is_gone`
    is not wanted any more. `given` is the fingerprint of the source that its holder got, `wanted` that of the present
    one; it `is_changed` when they differ.
    """

    def __init__(self) -> None:
        super().__init__()
        self.specs: list[StreamSpec | None] = []
        self.cause: list[str] = []
        self.wanted: list[str] = []
        self.given: list[str] = []
        self._group_of: dict[str, int] = {}
        self.load = np.zeros(_COLUMNS_BEGIN)
        self.kind = np.zeros(_COLUMNS_BEGIN, np.int32)
        self.group = np.zeros(_COLUMNS_BEGIN, np.int32)
        self.holder = np.zeros(_COLUMNS_BEGIN, np.int32)
        self.target = np.zeros(_COLUMNS_BEGIN, np.int32)
        self.epoch = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.since = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.blind_ns = np.zeros(_COLUMNS_BEGIN, np.int64)
        self.is_there = np.zeros(_COLUMNS_BEGIN, np.bool_)
        self.is_leaving = np.zeros(_COLUMNS_BEGIN, np.bool_)
        self.is_gone = np.zeros(_COLUMNS_BEGIN, np.bool_)
        self.is_changed = np.zeros(_COLUMNS_BEGIN, np.bool_)

    def add(self, name: str) -> int:
        """Add a stream that nobody has, and that is gone until it is described."""
        row = self._row(name)
        _grow(self, row)
        for column in _columns(self).values():
            column[row] = 0
        self.holder[row] = self.target[row] = self.group[row] = NOWHERE
        self.is_there[row] = self.is_gone[row] = True
        if row == len(self.specs):
            self.specs.append(None)
            self.cause.append("")
            self.wanted.append("")
            self.given.append("")
        self.specs[row], self.cause[row], self.wanted[row], self.given[row] = None, "", "", ""
        return row

    def describe(self, row: int, spec: StreamSpec, *, kind: int) -> None:
        """Want a stream, as it is described now."""
        self.wanted[row] = spec.fingerprint
        self.is_changed[row] = self.holder[row] >= 0 and self.given[row] != self.wanted[row]
        self.specs[row], self.load[row], self.kind[row] = spec, spec.load, kind
        self.group[row] = self._group_of.setdefault(spec.group, len(self._group_of)) if spec.group else NOWHERE
        self.is_gone[row] = False

    def remove(self, row: int) -> None:
        """Forget a stream that nobody has."""
        super().remove(row)
        self.is_there[row], self.specs[row], self.load[row] = False, None, 0
        self.holder[row] = self.target[row] = self.group[row] = NOWHERE

    def held(self) -> Held:
        """All streams, each where it runs or will; the columns are copies."""
        count = len(self)
        worker = np.where(self.target[:count] >= 0, self.target[:count], self.holder[:count])
        return Held(self.load[:count], self.kind[:count], self.group[:count], worker)

    def usage(self, workers: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """`(W,)` frames a second and numbers of streams of each worker; a stream that moves counts at both ends."""
        load, count = np.zeros(workers), np.zeros(workers, np.int64)
        for where in (self.holder[: len(self)], self.target[: len(self)]):
            rows = np.flatnonzero(where >= 0)
            load += np.bincount(where[rows], self.load[rows], minlength=workers)
            count += np.bincount(where[rows], minlength=workers)
        return load, count

    def rows(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The rows of present streams that a mask `(N,)` selects."""
        return np.flatnonzero(mask & self.is_there[: len(self)])


class Tables:
    """Workers, streams, and what these require of those."""

    def __init__(self) -> None:
        self.classes = Classes()
        self.workers = Workers(self.classes)
        self.streams = Streams()

    def restore(self, saved: Saved, *, now_ns: int) -> None:
        """Take up what was kept. A worker that was present may have a lease that began just before `now_ns`."""
        workers, streams = self.workers, self.streams
        for name, worker in saved.workers.items():
            if worker is not None:
                row = workers.add(name, incarnation=worker.incarnation)
                workers.generation[row], workers.is_draining[row] = worker.generation, worker.is_draining
                workers.sent_ns[row], workers.lapses[row] = worker.sent_ns, worker.lapses
                workers.is_present[row] = worker.is_present
                workers.seen_ns[row] = workers.joined_ns[row] = now_ns
        for name, stream in saved.streams.items():
            if stream is not None:
                row = streams.add(name)
                streams.epoch[row], streams.since[row] = stream.epoch, stream.since
                streams.is_leaving[row], streams.blind_ns[row] = stream.is_leaving, stream.blind_ns
                streams.cause[row], streams.given[row] = stream.cause, stream.source
                if stream.worker is not None:
                    streams.holder[row] = workers.row_of[stream.worker]

    def saved(
        self, workers: Iterable[int], streams: Iterable[int]
    ) -> tuple[Mapping[str, SavedWorker], Mapping[str, SavedStream]]:
        """What is to be kept of some rows."""
        own, table = self.workers, self.streams
        return {
            own.names[row]: SavedWorker(
                own.incarnation[row],
                int(own.generation[row]),
                bool(own.is_draining[row]),
                bool(own.is_present[row]),
                int(own.sent_ns[row]),
                int(own.lapses[row]),
            )
            for row in workers
        }, {
            table.names[row]: SavedStream(
                own.names[table.holder[row]] if table.holder[row] >= 0 else None,
                int(table.epoch[row]),
                int(table.since[row]),
                bool(table.is_leaving[row]),
                int(table.blind_ns[row]),
                table.cause[row],
                table.given[row],
            )
            for row in streams
        }


def _columns(table: _Rows) -> Mapping[str, NDArray[np.generic]]:
    return {name: one for name, one in vars(table).items() if isinstance(one, np.ndarray)}


def _grow(table: _Rows, row: int) -> None:
    for name, column in _columns(table).items():
        if row >= len(column):
            setattr(table, name, np.concatenate([column, np.zeros_like(column)]))
