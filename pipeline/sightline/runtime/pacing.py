"""Time of sources: frames at the speed of their timestamps, waits between attempts, one time line over all attempts."""

from __future__ import annotations

import random
from dataclasses import dataclass

_FIRST_DELAY_SECONDS = 0.1
_STEADY_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 30.0
_STEADY_ATTEMPTS = 20
_GROWING_ATTEMPTS = 6
_SILENT_ATTEMPTS = 3
_REFUSED_DELAY_SECONDS = 31.0
_REFUSED_SPREAD_SECONDS = 4.0


def backoff_seconds(attempt: int, *, jitter: random.Random | None = None) -> float:
    """How long to wait before an attempt, counted from 0: doubling to 0.5 s, held there for about ten seconds, then
    doubling to 30 s, of which up to a quarter is taken off at random so that many cameras do not come at once.
    """
    if attempt <= _STEADY_ATTEMPTS:
        return min(_FIRST_DELAY_SECONDS * 2.0**attempt, _STEADY_DELAY_SECONDS)
    doublings = min(attempt - _STEADY_ATTEMPTS, _GROWING_ATTEMPTS)
    grown = min(_STEADY_DELAY_SECONDS * 2.0**doublings, _LONGEST_DELAY_SECONDS)
    return grown * (jitter or random).uniform(0.75, 1.0)


def delay_seconds(attempt: int, *, took_seconds: float, answers: bool) -> float:
    """How long to wait after an attempt without frames that took so long: the time of the attempt counts as waiting.

    A server that `answers`, but sends nothing, is never left alone for long: when its image comes back, we are there.
    """
    wanted = backoff_seconds(min(attempt, _SILENT_ATTEMPTS) if answers else attempt)
    return max(wanted - took_seconds, _FIRST_DELAY_SECONDS)


def refused_delay_seconds(*, took_seconds: float) -> float:
    """How long to wait after a refusal: less than two attempts a minute, so that no camera locks us out."""
    return _REFUSED_DELAY_SECONDS + random.uniform(0, _REFUSED_SPREAD_SECONDS) - min(took_seconds, 1.0)


class Pace:
    """Holds frames back until their time has come, counted from the first one (`realtime: true`)."""

    def __init__(self) -> None:
        self._origin_ns: int | None = None

    def wait_ns(self, pts_ns: int, *, now_ns: int) -> int:
        """How long a frame must wait; 0 when its time has come or is past."""
        if self._origin_ns is None:
            self._origin_ns = now_ns - pts_ns
        return max(0, self._origin_ns + pts_ns - now_ns)


@dataclass(slots=True)
class Continuation:
    """Makes one stream of several attempts: frames are numbered on, and time goes on by what the clock says passed."""

    index: int = 0
    shift_ns: int = 0
    last_pts_ns: int | None = None
    last_at_ns: int = 0

    def begin(self, *, index: int, pts_ns: int, now_ns: int) -> None:
        """An attempt whose first frame has this timestamp begins, when so many frames have come before."""
        self.index = index
        if self.last_pts_ns is not None:
            self.shift_ns = self.last_pts_ns + max(1, now_ns - self.last_at_ns) - pts_ns

    def note(self, pts_ns: int, *, now_ns: int) -> None:
        """A frame with this timestamp, already moved, is handed on now."""
        self.last_pts_ns, self.last_at_ns = pts_ns, now_ns
