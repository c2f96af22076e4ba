"""The expert's tracker: ByteTrack's two rounds and a constant-velocity Kalman filter, compiled by Numba.

The four edges share their noise, so one 2 x 2 covariance (three numbers) serves a track. Pairs are matched greedily,
the best overlap first.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.pipelines.expert_head import overlap

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

CAPACITY = 256
HIGH, NEW = 0.6, 0.7
FLOOR, FLOOR_LOW = 0.2, 0.5
MIN_HITS, MAX_LOST = 2, 30
ID, HITS, LOST = 0, 1, 2


class Tracker:
    """The tracks of one stream."""

    def __init__(self) -> None:
        self._mean = np.zeros((CAPACITY, 8), np.float32)
        self._spread = np.zeros((CAPACITY, 3), np.float32)
        self._facts = np.zeros((CAPACITY, 3), np.int64)
        self._counts = np.array([0, 1])

    def update(self, found: Floats, identity: Integers) -> None:
        """Write the track of each detection (N, 6) into `identity` (N,), -1 for none."""
        step(self._mean, self._spread, self._facts, self._counts, found, identity)


@numba.njit(cache=True, nogil=True)
def step(mean: Floats, spread: Floats, facts: Integers, counts: Integers, found: Floats, identity: Integers) -> None:
    """One frame: predict, match, correct, give up, begin."""
    count = counts[0]
    for track in range(count):
        mean[track, :4] += mean[track, 4:]
        size = (mean[track, 2] - mean[track, 0]) * (mean[track, 3] - mean[track, 1])
        spread[track, 0] += 2 * spread[track, 1] + spread[track, 2] + 0.0025 * size
        spread[track, 1] += spread[track, 2]
        spread[track, 2] += 0.00005 * size
        facts[track, LOST] += 1
    identity[:] = -1
    taken = np.zeros(len(found), np.bool_)
    match(mean, spread, facts, count, found, identity, taken, HIGH, 2.0, MAX_LOST + 1, FLOOR)
    match(mean, spread, facts, count, found, identity, taken, 0.0, HIGH, 1, FLOOR_LOW)
    counts[0] = drop_lost(mean, spread, facts, count)
    begin(mean, spread, facts, counts, found, taken)


@numba.njit(cache=True, nogil=True)
def match(
    mean: Floats,
    spread: Floats,
    facts: Integers,
    count: int,
    found: Floats,
    identity: Integers,
    taken: npt.NDArray[np.bool_],
    low: float,
    high: float,
    longest: int,
    floor: float,
) -> None:
    """Matches detections with `low <= score < high` to tracks that were missed for `longest` frames at most."""
    shared = np.zeros((count, len(found)), np.float32)
    for track in range(count):
        if 1 <= facts[track, LOST] <= longest:
            for row in range(len(found)):
                if not taken[row] and low <= found[row, 4] < high:
                    shared[track, row] = overlap(mean[track], found[row])
    while count and len(found):
        best = int(np.argmax(shared))
        track, row = best // len(found), best % len(found)
        if shared[track, row] < floor:
            return
        shared[track, :] = 0
        shared[:, row] = 0
        taken[row] = True
        correct(mean[track], spread[track], found[row])
        facts[track, HITS] += 1
        facts[track, LOST] = 0
        if facts[track, HITS] >= MIN_HITS:
            identity[row] = facts[track, ID]


@numba.njit(cache=True, nogil=True)
def correct(mean: Floats, spread: Floats, seen: Floats) -> None:
    """The Kalman filter's correction of one track."""
    noise = 0.01 * (seen[2] - seen[0]) * (seen[3] - seen[1])
    total = spread[0] + noise
    gain, gain_velocity = spread[0] / total, spread[1] / total
    for edge in range(4):
        missed = seen[edge] - mean[edge]
        mean[edge] += gain * missed
        mean[edge + 4] += gain_velocity * missed
    spread[2] -= gain_velocity * spread[1]
    spread[1] -= gain * spread[1]
    spread[0] -= gain * spread[0]


@numba.njit(cache=True, nogil=True)
def drop_lost(mean: Floats, spread: Floats, facts: Integers, count: int) -> int:
    """Move the tracks that go on to the front; how many they are."""
    kept = 0
    for track in range(count):
        if facts[track, LOST] > (MAX_LOST if facts[track, HITS] >= MIN_HITS else 0):
            continue
        if kept < track:
            mean[kept], spread[kept], facts[kept] = mean[track], spread[track], facts[track]
        kept += 1
    return kept


@numba.njit(cache=True, nogil=True)
def begin(
    mean: Floats, spread: Floats, facts: Integers, counts: Integers, found: Floats, taken: npt.NDArray[np.bool_]
) -> None:
    """Starts a track at each sure detection that matched nothing."""
    for row in range(len(found)):
        track = counts[0]
        if taken[row] or found[row, 4] < NEW or track == CAPACITY:
            continue
        size = (found[row, 2] - found[row, 0]) * (found[row, 3] - found[row, 1])
        mean[track, :4], mean[track, 4:] = found[row, :4], 0
        spread[track, 0], spread[track, 1], spread[track, 2] = 0.01 * size, 0, 0.01 * size
        facts[track, ID], facts[track, HITS], facts[track, LOST] = counts[1], 1, 0
        counts[0] += 1
        counts[1] += 1
