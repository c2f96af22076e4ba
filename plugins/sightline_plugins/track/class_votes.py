"""The class of a track: each detection votes with its confidence, and the latest twenty or so count most."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

CLASS_BITS, ORIGIN_BITS = 20, 12
"""A class number holds the class within its origin, and above that the number of the origin."""
KEPT = np.float32(0.95)
"""What a vote is still worth one detection of the track later."""
LEAST = np.float32(1e-3)
"""What a vote counts at least."""
NEVER_NS = -(1 << 62)
REMEMBERED_NS = 60_000_000_000
"""Votes of a track that is not seen for this long are forgotten."""


class ClassVotes:
    """Votes of one stream, as columns over pairs of a track and a class, sorted by both."""

    def __init__(self) -> None:
        self._pair = np.empty(0, np.int64)
        self._weight = np.empty(0, np.float32)
        self._seen_ns = np.empty(0, np.int64)
        self._agree = True
        """Whether all votes of each track are for one class."""

    def __len__(self) -> int:
        return len(self._pair)

    def vote(self, track_id: Integers, class_id: Integers, confidence: Floats, *, pts_ns: int) -> Integers:
        """Count the votes of detections (N,) on one frame; return the class (N,) that leads for each one's track, among
        the classes of its origin. Ids are different and not -1.
        """
        pair = _pairs(track_id, class_id)
        row = self._pair.searchsorted(pair)
        if not len(self) or (self._pair.take(row, mode="clip") != pair).any():
            self._add(np.setdiff1d(pair, self._pair))
            self._forget(pts_ns)
            row = self._pair.searchsorted(pair)
        self._weight[row if self._agree else np.isin(_voters(self._pair), _voters(pair))] *= KEPT
        self._weight[row] += np.maximum(confidence, LEAST)
        self._seen_ns[row] = pts_ns
        return class_id if self._agree else self.leading(track_id, class_id)

    def leading(self, track_id: Integers, class_id: Integers) -> Integers:
        """Return the class (N,) that leads for each track; where nobody voted, the class given."""
        voter, asked = _voters(self._pair), _voters(_pairs(track_id, class_id))
        first, last = voter.searchsorted(asked), voter.searchsorted(asked, side="right")
        leading = class_id.copy()
        alone = last - first == 1
        leading[alone] = _classes(self._pair[first[alone]])
        for one in (last - first > 1).nonzero()[0].tolist():
            rows = slice(first[one], last[one])
            leading[one] = _classes(self._pair[rows])[int(self._weight[rows].argmax())]
        return leading

    def _add(self, pair: Integers) -> None:
        place = self._pair.searchsorted(pair)
        self._pair = np.insert(self._pair, place, pair)
        self._weight = np.insert(self._weight, place, np.float32(0))
        self._seen_ns = np.insert(self._seen_ns, place, NEVER_NS)

    def _forget(self, pts_ns: int) -> None:
        kept = (self._seen_ns == NEVER_NS) | (abs(pts_ns - self._seen_ns) <= REMEMBERED_NS)
        self._pair, self._weight, self._seen_ns = self._pair[kept], self._weight[kept], self._seen_ns[kept]
        voters = _voters(self._pair)
        self._agree = bool((voters[1:] != voters[:-1]).all())


def _pairs(track_id: Integers, class_id: Integers) -> Integers:
    return track_id << (CLASS_BITS + ORIGIN_BITS) | class_id


def _voters(pair: Integers) -> Integers:
    """Return the track and the origin of pairs."""
    return pair >> CLASS_BITS


def _classes(pair: Integers) -> Integers:
    return pair & ((1 << (CLASS_BITS + ORIGIN_BITS)) - 1)
