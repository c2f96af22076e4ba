"""Which tracks are near each other on the ground, and for how long: positions in metres in, changes out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap

import numpy as np

from sightline.graph.state import Saved
from sightline_plugins.rules.geometry import Floats
from sightline_plugins.rules.track_table import Ids

_LEAVES = 1.2
"""Who is near stays so up to so many times the distance: two at the limit do not come and go."""
_GONE_NS = 2_000_000_000
"""Two of whom one was not seen for longer are not near any more."""

Pair = tuple[int, int]
"""The ids of two tracks, the lower one first."""


@dataclass(frozen=True, slots=True)
class NearChange:
    """Two tracks came near each other, or are not any more; `lasted_ns` is for how long they have been near."""

    pair: Pair
    begins: bool
    metres: float
    lasted_ns: int


@dataclass(slots=True)
class _Meeting:
    since_ns: int
    seen_ns: int
    metres: float
    is_near: bool = False
    apart_ns: int = -1


class Nearness:
    """Keeps the pairs of one stream that are nearer to each other than a distance: near or apart when for some time."""

    def __init__(self) -> None:
        self._meetings: dict[Pair, _Meeting] = {}

    def __len__(self) -> int:
        """Return how many pairs are near."""
        return sum(one.is_near for one in self._meetings.values())

    def is_idle(self) -> bool:
        """Whether no pair is, or may be about to be, near."""
        return not self._meetings

    def update(self, track_id: Ids, places: Floats, *, distance: float, after_ns: int, now_ns: int) -> list[NearChange]:
        """Return what changes with tracks (N,) at places (N, 2) in metres on the next frame."""
        apart = np.hypot(*np.moveaxis(places[:, None] - places, -1, 0))
        rows, columns = np.nonzero(np.triu(apart <= _LEAVES * distance, 1))
        close: dict[Pair, float] = {}
        for one, other, metres in zip(
            track_id[rows].tolist(), track_id[columns].tolist(), apart[rows, columns].tolist(), strict=True
        ):
            pair = (min(one, other), max(one, other))
            close[pair] = metres
            if pair not in self._meetings and metres <= distance:
                self._meetings[pair] = _Meeting(now_ns, now_ns, metres)
        visible = set(track_id.tolist())
        changes: list[NearChange] = []
        for pair, meeting in list(self._meetings.items()):
            if (metres_now := close.get(pair)) is not None and (meeting.is_near or metres_now <= distance):
                meeting.seen_ns, meeting.metres, meeting.apart_ns = now_ns, metres_now, -1
                if not meeting.is_near and now_ns - meeting.since_ns >= after_ns:
                    meeting.is_near = True
                    changes.append(NearChange(pair, True, metres_now, now_ns - meeting.since_ns))
            elif visible.issuperset(pair):
                meeting.apart_ns = now_ns if meeting.apart_ns < 0 else meeting.apart_ns
                if not meeting.is_near or now_ns - meeting.apart_ns >= after_ns:
                    changes += self._end(pair, meeting.apart_ns)
            elif now_ns - meeting.seen_ns >= _GONE_NS:
                changes += self._end(pair, meeting.seen_ns)
        return changes

    def clear(self) -> list[NearChange]:
        """Forget all pairs, and return the ends of those that were near."""
        return [change for pair, one in list(self._meetings.items()) for change in self._end(pair, one.seen_ns)]

    def save(self) -> Saved:
        """Return the pairs."""
        return {
            "meetings": [
                [*pair, one.since_ns, one.seen_ns, one.metres, one.is_near, one.apart_ns]
                for pair, one in self._meetings.items()
            ]
        }

    def restore(self, saved: Saved) -> None:
        """Go on with the pairs of another process."""
        rows = [(int(low), int(high), meeting) for low, high, *meeting in saved["meetings"]]
        meetings = starmap(_Meeting, (meeting for _, _, meeting in rows))
        self._meetings = {(low, high): one for (low, high, _), one in zip(rows, meetings, strict=True)}

    def _end(self, pair: Pair, end_ns: int) -> list[NearChange]:
        meeting = self._meetings.pop(pair)
        if not meeting.is_near:
            return []
        return [NearChange(pair, False, meeting.metres, max(0, end_ns - meeting.since_ns))]
