"""Which frames are kept: the best of each period, apart from each other, shared evenly by streams and reasons.

Pure: numbers and names in, decisions out. It knows no image and no file. Candidates come in the order of their time;
what is kept may still be replaced by a better one of the same period, so that a quota is filled by the best of a
period and not by its beginning.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

RANDOM = "random"
"""The reason of frames that are chosen at random; their score is a random number."""
BY_CLOCK = ""
"""The timeline of frames whose time of day is known; those of other videos have one of their own."""
_BETTER = 0.02
"""A frame replaces another one if its score is higher by more than this."""


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What a frame shows, for comparing it with others.

    `phash` is its perceptual hash of 64 bits; `xyxy` (N, 4) float32 are the boxes in fractions of the frame, and
    `class_id` (N,) the numbers of their labels; `vectors` (K, D) float32 are embeddings of length 1, and empty without.
    """

    phash: int
    xyxy: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int64]
    vectors: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A frame that may be kept, for its main reason and with the score of all.

    `time_ns` is the time on its timeline: since the epoch (`BY_CLOCK`), or since the beginning of a video.
    """

    stream: str
    timeline: str
    time_ns: int
    reason: str
    score: float

    def beats(self, other: Candidate) -> bool:
        """Whether it is better than another candidate, clearly so where that has a reason as well."""
        is_random, other_is_random = self.reason == RANDOM, other.reason == RANDOM
        if is_random != other_is_random:
            return other_is_random
        return self.score > other.score + (0 if is_random else _BETTER)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A frame that is kept, and the name of its image."""

    image: str
    candidate: Candidate
    content: Content

    @property
    def time_ns(self) -> int:
        """See `Candidate`."""
        return self.candidate.time_ns


Pool: TypeAlias = tuple[bool, int, bool]
"""Frames that share a quota: whether by the clock, the number of the period, and whether chosen at random."""


class Selection:
    """The frames that are kept, and the decision about each new one. Used by one thread.

    `quota` frames are kept of each period of `per_ns`; of these, the share `random` at random. Of a stream, two frames
    are `apart_ns` from each other at least. `limit` is the number of all frames.
    """

    def __init__(self, *, quota: int, per_ns: int, random: float, apart_ns: int, limit: int) -> None:
        at_random = min(quota, max(1, round(quota * random))) if random > 0 else 0
        self._quota = {True: at_random, False: quota - at_random}
        self._per_ns = per_ns
        self._apart_ns = apart_ns
        self._limit = limit
        self._pools: dict[Pool, list[Kept]] = {}
        self._by_time: dict[tuple[str, str], list[Kept]] = {}
        self.count = 0
        """How many are kept."""

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self.count >= self._limit

    def add(self, kept: Kept) -> None:
        """Keep a frame."""
        self._pools.setdefault(self._pool(kept.candidate), []).append(kept)
        line = self._by_time.setdefault((kept.candidate.stream, kept.candidate.timeline), [])
        insort(line, kept, key=attrgetter("time_ns"))
        self.count += 1

    def reserve(self, count: int) -> None:
        """Count so many frames of other timelines towards the limit; a negative number gives them back."""
        self.count += count

    def remove(self, kept: Kept) -> None:
        """Keep a frame no longer."""
        self._pools[self._pool(kept.candidate)].remove(kept)
        self._by_time[kept.candidate.stream, kept.candidate.timeline].remove(kept)
        self.count -= 1

    def rarest(self, candidate: Candidate, reasons: Sequence[str]) -> str:
        """Return which of several reasons the fewest frames of its stream and period are kept for; else the first."""
        pool = self._pools.get(self._pool(candidate), ())
        counts = Counter(one.candidate.reason for one in pool if one.candidate.stream == candidate.stream)
        return min(reasons, key=lambda reason: counts[reason])

    def replaced_by(self, candidate: Candidate, *, like: Collection[Kept] = ()) -> list[Kept] | None:
        """Return the frames that must go for a candidate; None if it is not taken.

        It has to be better than each frame that is near in time, and than those `like` it, and may replace those of its
        own timeline and period only: others are finished.
        """
        pool = self._pool(candidate)
        gone = list({id(one): one for one in (*self._near(candidate), *like)}.values())
        for one in gone:
            is_open = one.candidate.timeline == candidate.timeline and self._pool(one.candidate)[:2] == pool[:2]
            if not is_open or not candidate.beats(one.candidate):
                return None
        left = [one for one in self._pools.get(pool, ()) if one not in gone]
        if len(left) >= self._quota[pool[2]]:
            loser = _loser(left, candidate)
            if loser is None:
                return None
            gone.append(loser)
        return None if self.count - len(gone) >= self._limit else gone

    def _pool(self, candidate: Candidate) -> Pool:
        period = candidate.time_ns // self._per_ns
        return candidate.timeline == BY_CLOCK, period, candidate.reason == RANDOM

    def _near(self, candidate: Candidate) -> list[Kept]:
        """Return the frames of the stream that are not far enough from a candidate."""
        line = self._by_time.get((candidate.stream, candidate.timeline), [])
        time_of = attrgetter("time_ns")
        first = bisect_right(line, candidate.time_ns - self._apart_ns, key=time_of)
        last = bisect_left(line, candidate.time_ns + self._apart_ns, key=time_of)
        same = [one for one in line[last : last + 1] if one.time_ns == candidate.time_ns]
        return line[first:last] + same


def _loser(kept: Collection[Kept], candidate: Candidate) -> Kept | None:
    """Return which of the frames of a full quota makes room for a candidate; None if none does.

    Frames are grouped by stream and main reason. The largest group gives its worst frame to a group that has at least
    two fewer; else the candidate has to be better than the worst of its own group.
    """
    if not kept:
        return None
    own = (candidate.stream, candidate.reason)
    sizes = Counter((one.candidate.stream, one.candidate.reason) for one in kept)
    largest = max(sizes, key=lambda group: (sizes[group], group))
    is_shared = sizes[largest] <= sizes[own] + 1
    group = own if is_shared else largest
    rivals = [one for one in kept if (one.candidate.stream, one.candidate.reason) == group] or kept
    worst = min(rivals, key=lambda one: (one.candidate.score, one.time_ns))
    return worst if not is_shared or candidate.beats(worst.candidate) else None
