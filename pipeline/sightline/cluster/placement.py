"""Where streams go: arrays in, arrays out. No names, no leases, no time.

`place` gives each stream without a worker the one that is the least full after it. `balance` looks for the fewest moves
that bring all workers within a tolerance. Both are greedy: with some tens of streams on a worker, no stream is so large
that an optimal packing would differ by more than the tolerance.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

NOWHERE = -1
_ROUNDING = 1e-9
"""A stream that makes two workers equal may move, although both sums are rounded."""


@dataclass(slots=True)
class Fleet:
    """The W workers, for one decision; `used` and `count` change with each stream that is placed.

    `capacity` and `used` are `(W,)` float64 in frames a second, `count` and `limit` `(W,)` int64 in streams. `eligible`
    is `(C, W)` bool: which workers the streams of each class may run on. `is_open` is `(W,)` bool: those that may be
    given streams now.
    """

    capacity: NDArray[np.float64]
    used: NDArray[np.float64]
    count: NDArray[np.int64]
    limit: NDArray[np.int64]
    eligible: NDArray[np.bool_]
    is_open: NDArray[np.bool_]

    @property
    def utilisation(self) -> NDArray[np.float64]:
        """`(W,)` float64: the share of each capacity that is used; infinite without a capacity."""
        shares = np.full(len(self.capacity), np.inf)
        np.divide(self.used, self.capacity, out=shares, where=self.capacity > 0)
        return shares

    def imbalance(self) -> float:
        """By how much of the mean the fullest open worker is above it; 0 when nothing runs."""
        full = self.utilisation[self.is_open & (self.capacity > 0)]
        mean = float(full.mean()) if len(full) else 0.0
        return float(full.max()) / mean - 1 if mean > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Held:
    """All N streams: `load` `(N,)` float64, and as `(N,)` int32 `kind` (the row of `Fleet.eligible`), `group` (-1:
    alone) and `worker`, where they run or will (-1: nowhere).
    """

    load: NDArray[np.float64]
    kind: NDArray[np.int32]
    group: NDArray[np.int32]
    worker: NDArray[np.int32]

    def group_counts(self, group: int, workers: int) -> NDArray[np.int64]:
        """`(W,)` int64: how many streams of a group each worker has."""
        where = self.worker[(self.group == group) & (self.worker >= 0)]
        return np.bincount(where, minlength=workers)


def place(rows: NDArray[np.intp], *, held: Held, fleet: Fleet, fill: float, spread: float) -> NDArray[np.int32]:
    """Return a worker for each of the given rows `(K,)`, or -1 where none has room; `fleet` counts them in.

    Streams that few workers may run are placed first, larger ones before smaller ones. A worker is used to `fill` of
    its capacity at most, and gets `spread` of a group at most as long as others have room.
    """
    chosen = np.full(len(rows), NOWHERE, np.int32)
    members = np.bincount(held.group[held.group >= 0]) if (held.group >= 0).any() else np.zeros(0, np.int64)
    for block in _blocks(rows, held=held, fleet=fleet):
        first = rows[block[0]]
        kind, group = held.kind[first], held.group[first]
        where = np.flatnonzero(fleet.eligible[kind] & fleet.is_open & (fleet.capacity > 0))
        if not len(where):
            continue
        used, capacity = fleet.used[where], fleet.capacity[where]
        left = fleet.limit[where] - fleet.count[where]
        if group >= 0:
            allowed = max(1, int(np.ceil(spread * members[group])))
            share_left = allowed - held.group_counts(group, len(fleet.used))[where]
        else:
            share_left = np.full(len(where), len(rows))
        too_large = np.inf
        for index in block:
            load = held.load[rows[index]]
            if load >= too_large:
                continue
            after = (used + load) / capacity
            after[left <= 0] = np.inf
            spread_out = np.where(share_left > 0, after, np.inf)
            best = int(spread_out.argmin())
            if spread_out[best] > fill:
                best = int(after.argmin())
                if after[best] > fill:
                    too_large = load
                    continue
            chosen[index] = where[best]
            used[best] += load
            left[best] -= 1
            share_left[best] -= 1
        fleet.used[where] = used
        fleet.count[where] = fleet.limit[where] - left
    return chosen


def _blocks(rows: NDArray[np.intp], *, held: Held, fleet: Fleet) -> Iterator[NDArray[np.intp]]:
    """Indices of rows with one kind and one group at a time, the most constrained kinds first, large loads first."""
    choice = (fleet.eligible & fleet.is_open).sum(axis=1)
    kind, group, load = held.kind[rows], held.group[rows], held.load[rows]
    order = np.lexsort((-load, group, kind, choice[kind]))
    breaks = np.flatnonzero((np.diff(kind[order]) != 0) | (np.diff(group[order]) != 0)) + 1
    yield from (block for block in np.split(order, breaks) if len(block))


def balance(
    movable: NDArray[np.intp],
    *,
    held: Held,
    fleet: Fleet,
    fill: float,
    tolerance: float,
    spread: float,
    most: int,
) -> list[tuple[int, int]]:
    """Return moves (row, worker), at most so many, of the given rows `(K,)`; `fleet` counts them.

    A stream moves from the fullest worker to the emptiest that may run it, when the two differ by more than `tolerance`
    of the mean, and never more than makes them equal. So no move is taken back by the next one.
    """
    usable = fleet.is_open & (fleet.capacity > 0)
    if most <= 0 or not usable.any() or not len(movable):
        return []
    full = fleet.utilisation
    gap = tolerance * float(full[usable].mean())
    order = movable[np.argsort(held.worker[movable], kind="stable")]
    holders = held.worker[order]
    left: dict[int, NDArray[np.intp]] = {
        int(holders[start]): order[start:end] for start, end in _runs(holders) if fleet.capacity[holders[start]] > 0
    }
    heap = [(-float(full[worker]), worker) for worker in left]
    heapq.heapify(heap)
    moves: list[tuple[int, int]] = []
    while heap and len(moves) < most:
        _, donor = heapq.heappop(heap)
        move = _best_move(donor, left[donor], held=held, fleet=fleet, full=full, gap=gap, fill=fill, spread=spread)
        if move is None:
            continue
        row, receiver = move
        load = held.load[row]
        for worker, change in ((donor, -load), (receiver, load)):
            fleet.used[worker] += change
            fleet.count[worker] += int(np.sign(change))
            full[worker] = fleet.used[worker] / fleet.capacity[worker]
        held.worker[row] = receiver
        left[donor] = left[donor][left[donor] != row]
        moves.append(move)
        if len(left[donor]):
            heapq.heappush(heap, (-float(full[donor]), donor))
    return moves


def _runs(values: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Where equal neighbours begin and end."""
    breaks = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    yield from pairwise(breaks)


def _best_move(
    donor: int,
    rows: NDArray[np.intp],
    *,
    held: Held,
    fleet: Fleet,
    full: NDArray[np.float64],
    gap: float,
    fill: float,
    spread: float,
) -> tuple[int, int] | None:
    """The stream of a worker whose move evens most, and to where; None when no move is worth it."""
    best, best_load = None, 0.0
    may_receive = fleet.is_open & (fleet.capacity > 0) & (fleet.count < fleet.limit)
    may_receive[donor] = False
    for kind in np.unique(held.kind[rows]):
        after = np.where(may_receive & fleet.eligible[kind], full, np.inf)
        receiver = int(after.argmin())
        if not full[donor] - after[receiver] > gap:
            continue
        half = (full[donor] - full[receiver]) / (1 / fleet.capacity[donor] + 1 / fleet.capacity[receiver])
        room = fill * fleet.capacity[receiver] - fleet.used[receiver]
        own = rows[held.kind[rows] == kind]
        fitting = own[held.load[own] <= min(half, room) * (1 + _ROUNDING)]
        for row in fitting[np.argsort(-held.load[fitting], kind="stable")]:
            if held.load[row] <= best_load:
                break
            if _keeps_spread(int(row), receiver, held=held, spread=spread, workers=len(full)):
                best, best_load = (int(row), receiver), float(held.load[row])
                break
    return best


def _keeps_spread(row: int, receiver: int, *, held: Held, spread: float, workers: int) -> bool:
    group = held.group[row]
    if group < 0:
        return True
    allowed = max(1, int(np.ceil(spread * np.count_nonzero(held.group == group))))
    return bool(held.group_counts(int(group), workers)[receiver] < allowed)
