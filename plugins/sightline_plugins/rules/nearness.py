"""Which tracks of an area are near each other on the ground, and for how long: positions in metres in, changes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.graph.state import Saved
from sightline_plugins.native import POINTER, SIZE, function, pointer
from sightline_plugins.rules.geometry import Floats
from sightline_plugins.rules.track_table import Ids, Indices

_LEAVES = 1.2
"""Who is near stays so up to so many times the distance: two at the limit do not come and go."""
_SHORT_PAIRS = 10_000
"""So many pairs take about 50 microseconds: for more the GIL is released."""
_pairs_of = {
    is_long: function("close_pairs", SIZE, *[POINTER] * 7, result=SIZE, long=is_long) for is_long in (False, True)
}
_GONE_NS = 2_000_000_000
"""Two of whom one was not seen for longer are not near any more."""

Pair = tuple[int, int]
"""The ids of two tracks, the lower one first."""
_Key = tuple[int, int, int]
"""An area, and such a pair in it."""


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
    """Keeps the pairs of one stream that are nearer to each other than a distance, in each of Z areas: near or apart
    when for some time.
    """

    def __init__(self) -> None:
        self._meetings: dict[_Key, _Meeting] = {}

    def is_idle(self) -> bool:
        """Whether no pair is, or may be about to be, near."""
        return not self._meetings

    def counted(self) -> Counter[int]:
        """Return how many pairs are near, by area."""
        return Counter([area for (area, _, _), one in self._meetings.items() if one.is_near])

    def update(
        self, area: Indices, track_id: Ids, places: Floats, *, distance: Floats, after_ns: Ids, now_ns: int
    ) -> list[tuple[int, NearChange]]:
        """Return what changes, with the area, with tracks (N,) in areas (N,), at places (N, 2) in metres on the next
        frame. `distance` (Z,) in metres and `after_ns` (Z,) are those of the areas.
        """
        close = _close_pairs(area, track_id, places, reach=_LEAVES * distance)
        nearest, long_ns = distance.tolist(), after_ns.tolist()
        for key in [key for key in close if key not in self._meetings]:
            if close[key] <= nearest[key[0]]:
                self._meetings[key] = _Meeting(now_ns, now_ns, close[key])
        if not self._meetings:
            return []
        visible: set[tuple[int, int]] | None = None
        changes: list[tuple[int, NearChange]] = []
        for key, meeting in list(self._meetings.items()):
            metres_now = close.get(key)
            if metres_now is not None and (meeting.is_near or metres_now <= nearest[key[0]]):
                meeting.seen_ns, meeting.metres, meeting.apart_ns = now_ns, metres_now, -1
                if not meeting.is_near and now_ns - meeting.since_ns >= long_ns[key[0]]:
                    meeting.is_near = True
                    lasted_ns = now_ns - meeting.since_ns
                    changes.append((key[0], NearChange(key[1:], True, metres_now, lasted_ns)))
                continue
            if visible is None:
                visible = set(zip(area.tolist(), track_id.tolist(), strict=True))
            number, low, high = key
            if (number, low) in visible and (number, high) in visible:
                meeting.apart_ns = now_ns if meeting.apart_ns < 0 else meeting.apart_ns
                if not meeting.is_near or now_ns - meeting.apart_ns >= long_ns[number]:
                    changes += self._end(key, meeting.apart_ns)
            elif now_ns - meeting.seen_ns >= _GONE_NS:
                changes += self._end(key, meeting.seen_ns)
        return changes

    def clear(self, areas: Set[int]) -> list[tuple[int, NearChange]]:
        """Forget all pairs in areas, and return the ends of those that were near."""
        ended = [(key, one.seen_ns) for key, one in self._meetings.items() if key[0] in areas]
        return [change for key, end_ns in ended for change in self._end(key, end_ns)]

    def renumber(self, moved: Mapping[int, int]) -> None:
        """Give areas other numbers, by the ones that they have; forget the pairs of those that are not among them."""
        self._meetings = {
            (moved[area], low, high): one for (area, low, high), one in self._meetings.items() if area in moved
        }

    def save(self) -> Saved:
        """Return the pairs, by area."""
        saved: dict[str, list[list[Any]]] = {}
        for (area, low, high), one in self._meetings.items():
            meeting = [low, high, one.since_ns, one.seen_ns, one.metres, one.is_near, one.apart_ns]
            saved.setdefault(str(area), []).append(meeting)
        return saved

    def restore(self, saved: Saved, moved: Mapping[int, int]) -> None:
        """Go on with the pairs of another process in the areas of `moved`, which have other numbers here."""
        self._meetings = {
            (number, int(low), int(high)): _Meeting(*meeting)
            for before, number in moved.items()
            for low, high, *meeting in saved.get(str(before), ())
        }

    def _end(self, key: _Key, end_ns: int) -> list[tuple[int, NearChange]]:
        meeting = self._meetings.pop(key)
        if not meeting.is_near:
            return []
        return [(key[0], NearChange(key[1:], False, meeting.metres, max(0, end_ns - meeting.since_ns)))]


def _close_pairs(area: Indices, track_id: Ids, places: Floats, *, reach: Floats) -> dict[_Key, float]:
    """Return how far apart those are who (N,) are in the same area (N,), with places (N, 2) not farther apart than the
    `reach` (Z,) of it; in order of the areas, then of the tracks given.
    """
    areas, points = np.ascontiguousarray(area, np.int64), np.ascontiguousarray(places)
    here = np.bincount(areas)
    most = int((here * (here - 1) // 2).sum())
    first, second, apart = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    if not most:
        return {}
    found = _pairs_of[most > _SHORT_PAIRS](
        len(areas),
        pointer(np.argsort(areas, kind="stable")),
        pointer(areas),
        pointer(points),
        pointer(reach),
        pointer(first),
        pointer(second),
        pointer(apart),
    )
    one, other = first[:found], second[:found]
    own, theirs = track_id[one], track_id[other]
    pairs = zip(area[one].tolist(), np.minimum(own, theirs).tolist(), np.maximum(own, theirs).tolist(), strict=True)
    return dict(zip(pairs, apart[:found].tolist(), strict=True))
