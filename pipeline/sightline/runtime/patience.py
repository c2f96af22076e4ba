"""Patience: how long a live stream may be silent, judged by its own pace."""

from __future__ import annotations

from collections import deque

_INTERVALS = 9
_TIMES = 3
_MOST_DOUBLINGS = 5


class Patience:
    """How long nothing may come from a stream before it counts as stalled; for one thread.

    Never less than `stall_ns`, nor than three of the stream's own intervals (the middle one of the last nine, so that
    one hiccup does not count). As long as it is not known how fast the stream is, sessions in which no two frames came
    make it grow: a camera of one frame a minute gets its chance.
    """

    def __init__(self, stall_ns: int) -> None:
        self._stall_ns = stall_ns
        self._intervals_ns: deque[int] = deque(maxlen=_INTERVALS)
        self._last_ns: int | None = None
        self._silent_sessions = 0

    @property
    def limit_ns(self) -> int:
        """The limit now."""
        if self._intervals_ns:
            middle_ns = sorted(self._intervals_ns)[len(self._intervals_ns) // 2]
            return max(self._stall_ns, _TIMES * middle_ns)
        doublings = min(max(self._silent_sessions - 1, 0), _MOST_DOUBLINGS)
        return self._stall_ns << doublings

    def begin(self) -> None:
        """A session begins: the time since the last frame is no interval."""
        self._last_ns = None

    def frame(self, now_ns: int) -> None:
        """A frame has come."""
        if self._last_ns is not None:
            self._intervals_ns.append(now_ns - self._last_ns)
        self._last_ns = now_ns

    def silent(self) -> None:
        """A session stood in which not even two frames came."""
        self._silent_sessions += 1
