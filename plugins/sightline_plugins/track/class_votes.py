"""The class of a track: each detection votes with its confidence, and the latest twenty or so count most.

A vote counts 0.95 of what it did at each further detection of its track, and at least 0.001 when it is given. The class
with most weight leads; of equal ones the lowest number. Votes for classes of different origins are kept apart. Those of
a track that is not seen for 60 seconds are forgotten. `class_votes.c` computes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sightline_plugins.native import POINTER, SIZE, function, pointer, values
from sightline_plugins.track.frames_together import call_for_frames

Integers = npt.NDArray[np.int64]

CLASS_BITS = 20
"""A class number holds the class within its origin, and above that the number of the origin."""
REMEMBERED_NS = 60_000_000_000
"""Votes of a track that is not seen for this long are forgotten."""
VOTE = np.dtype([*((name, np.int64) for name in ("track_id", "class_id", "seen_ns")), ("weight", np.float64)])
"""A row for each track and class that its detections voted for."""
_LEAST_ROOM = 64
_SHORT = 1000
"""Votes in a call, above which it releases the GIL."""
_vote_frames = {
    is_long: function("vote_frames", POINTER, SIZE, SIZE, *[POINTER] * 4, result=SIZE, long=is_long)
    for is_long in (False, True)
}
_lead_tracks = function("lead_tracks", POINTER, SIZE, *[POINTER] * 3)


class _Votes(ctypes.Structure):
    """`Votes` of `class_votes.c`."""

    _fields_ = (("vote", POINTER), ("count", ctypes.c_int64), ("room", ctypes.c_int64))


class ClassVotes:
    """Votes of one stream."""

    def __init__(self) -> None:
        self._state = _Votes()
        self.address = ctypes.addressof(self._state)
        """Of the state, for C."""
        self._rows = np.empty(0, VOTE)
        self.make_room(_LEAST_ROOM)

    def __len__(self) -> int:
        return int(self._state.count)

    def leading(self, track_id: Integers, class_id: Integers) -> Integers:
        """Return the class (N,) that leads for each track; where nobody voted, the class given."""
        leading = np.empty(len(track_id), np.int64)
        given = values(track_id, np.int64), values(class_id, np.int64)
        _lead_tracks(self.address, len(leading), *given, pointer(leading))
        return leading

    def make_room(self, votes: int) -> None:
        """Make room for so many votes beside those there are, and for as many again."""
        rows = np.empty(2 * (len(self) + votes), VOTE)
        rows[: len(self)] = self._rows[: len(self)]
        self._rows, self._state.vote, self._state.room = rows, rows.ctypes.data, len(rows)


def vote_together(
    votes: Sequence[ClassVotes],
    track_id: Integers,
    class_id: Integers,
    confidence: npt.NDArray[np.float32],
    *,
    ends: Sequence[int],
    pts_ns: Sequence[int],
) -> Integers:
    """Count the votes of the detections (N,) on frames; return the class (N,) that leads for each one's track then.

    Frame number i is of the stream with `votes[i]`, at the time `pts_ns[i]`, and the row behind its last detection is
    `ends[i]`. Ids on a frame are different, or -1 for detections without a track, which keep their class. Raises
    ValueError on wrong shapes.
    """
    count = len(track_id)
    if not class_id.shape == confidence.shape == (count,) or (ends and ends[-1] != count):
        raise ValueError(f"votes: {count} ids need as many classes and confidences, and rows up to there, not {ends}")
    given = values(track_id, np.int64), values(class_id, np.int64), values(confidence, np.float32)
    leading = np.empty(count, np.int64)
    call_for_frames(_vote_frames[count > _SHORT], votes, *given, pointer(leading), ends=ends, pts_ns=pts_ns)
    return leading
