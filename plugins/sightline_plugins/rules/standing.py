"""Since when an object has kept within a small part of the image."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_STEPS = 16
"""Positions are rounded to this part of the square's side, so that what is remembered of a path stays short."""

_Extremes = deque[list[int]]
"""Positions whose rounded coordinate was an extreme, in order of time: the first one is that of all remembered ones.
Of each: its time, the coordinate, and the time of the position after it.
"""


@dataclass(slots=True, eq=False)
class Standing:
    """Tells since when the path of one object has fitted into an upright square with sides of `side` pixels.

    Only the path of the last `span_ns` is judged: an object that creeps on by less than a side in that time stands,
    however far it comes. The answer is the same at every frame rate, within a frame and a 16th of the side.
    """

    side: float
    span_ns: int
    since_ns: int | None = None
    _last_ns: int = 0
    _extremes: list[_Extremes] = field(default_factory=lambda: [deque() for _ in range(4)])
    """The lowest and the highest of x, then of y."""

    def update(self, now_ns: int, x: float, y: float) -> int:
        """Take the position on a frame; return the time since when the object has stood."""
        since_ns = now_ns if self.since_ns is None else self.since_ns
        oldest_ns = min(now_ns - self.span_ns, self._last_ns)
        for place, position in ((0, x), (2, y)):
            value = round(position * _STEPS / self.side)
            lowest, highest = self._extremes[place : place + 2]
            for extremes in (lowest, highest):
                if extremes:
                    extremes[-1][2] = now_ns
                while extremes and extremes[0][0] < oldest_ns:
                    extremes.popleft()
            while highest and lowest and max(value, highest[0][1]) - min(value, lowest[0][1]) > _STEPS:
                earlier = lowest if lowest[0][0] < highest[0][0] else highest
                since_ns = max(since_ns, earlier.popleft()[2])
            while lowest and lowest[-1][1] >= value:
                lowest.pop()
            while highest and highest[-1][1] <= value:
                highest.pop()
            lowest.append([now_ns, value, now_ns])
            highest.append([now_ns, value, now_ns])
        self.since_ns, self._last_ns = since_ns, now_ns
        return since_ns

    def save(self) -> dict[str, Any]:
        """Return the state as plain values."""
        extremes = [[list(one) for one in extremes] for extremes in self._extremes]
        return {"side": self.side, "since_ns": self.since_ns, "last_ns": self._last_ns, "extremes": extremes}

    @classmethod
    def restored(cls, saved: Mapping[str, Any], *, span_ns: int) -> Standing:
        """Return the state that was saved."""
        extremes = [deque(list(one) for one in extremes) for extremes in saved["extremes"]]
        return cls(saved["side"], span_ns, saved["since_ns"], saved["last_ns"], extremes)
