"""The class of a track: each detection votes with its confidence, and the latest twenty or so count most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import NO_TRACK

Integers = npt.NDArray[np.int64]

CLASS_BITS, ORIGIN_BITS = 20, 12
"""A class number holds the class within its origin, and above that the number of the origin."""
KEPT = 0.95
"""What a vote is still worth one detection of the track later."""
LEAST = 1e-3
"""What a vote counts at least."""
REMEMBERED_NS = 60_000_000_000
"""Votes of a track that is not seen for this long are forgotten."""


@dataclass(slots=True, eq=False)
class _TrackVotes:
    """The votes that detections of one origin gave a track: their weight by class, and when the last one came."""

    seen_ns: int
    weights: dict[int, float] = field(default_factory=dict)

    def vote(self, class_id: int, weight: float) -> int:
        """Count a vote; return the class that leads then."""
        weights = self.weights
        for voted in weights:
            weights[voted] *= KEPT
        weights[class_id] = weights.get(class_id, 0.0) + max(weight, LEAST)
        return self.leader()

    def leader(self) -> int:
        """Return the class with most weight; of equal ones the lowest number."""
        if len(self.weights) == 1:
            return next(iter(self.weights))
        return max(self.weights, key=lambda class_id: (self.weights[class_id], -class_id))


class ClassVotes:
    """Votes of one stream. Plain numbers, not arrays: a frame has few tracks, and nearly all of them one class."""

    def __init__(self) -> None:
        self._votes: dict[tuple[int, int], _TrackVotes] = {}
        """By track id and origin."""

    def __len__(self) -> int:
        return len(self._votes)

    def vote(
        self, track_id: Sequence[int], class_id: Sequence[int], confidence: Sequence[float], *, pts_ns: int
    ) -> list[int]:
        """Count the votes of the detections on one frame; return the class that leads for each one's track, among the
        classes of its origin. Ids are different, or -1 for detections without a track, which keep their class.
        """
        leading = list(class_id)
        for row, (track, own_class, weight) in enumerate(zip(track_id, class_id, confidence, strict=True)):
            if track == NO_TRACK:
                continue
            pair = (track, own_class >> CLASS_BITS)
            own = self._votes.get(pair)
            if own is None:
                self._forget(pts_ns)
                own = self._votes[pair] = _TrackVotes(pts_ns)
            own.seen_ns = pts_ns
            leading[row] = own.vote(own_class, weight)
        return leading

    def leading(self, track_id: Integers, class_id: Integers) -> Integers:
        """Return the class (N,) that leads for each track; where nobody voted, the class given."""
        pairs = zip(track_id.tolist(), class_id.tolist(), strict=True)
        votes = ((self._votes.get((track, own_class >> CLASS_BITS)), own_class) for track, own_class in pairs)
        return np.array([own_class if own is None else own.leader() for own, own_class in votes], np.int64)

    def _forget(self, pts_ns: int) -> None:
        """Drop the votes of tracks that were not seen for long."""
        gone = [pair for pair, own in self._votes.items() if abs(pts_ns - own.seen_ns) > REMEMBERED_NS]
        for pair in gone:
            del self._votes[pair]
