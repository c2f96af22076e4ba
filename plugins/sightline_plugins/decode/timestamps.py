"""Timestamps of one stream: exact nanoseconds, and repairs where a file has none or steps back."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

_NANOSECONDS = 1_000_000_000
_JUMP_NS = _NANOSECONDS
DEFAULT_INTERVAL_NS = 40_000_000


def nanoseconds(ticks: int, time_base: Fraction) -> int:
    """The time of a timestamp, rounded to the nearest nanosecond; halves go to the even one, as with `round`."""
    whole, rest = divmod(ticks * time_base.numerator * _NANOSECONDS, time_base.denominator)
    rest *= 2
    return whole + (rest > time_base.denominator or (rest == time_base.denominator and whole & 1))


def last_ticks(time_ns: int, time_base: Fraction) -> int:
    """The last timestamp that is not after that time."""
    return time_ns * time_base.denominator // (time_base.numerator * _NANOSECONDS)


class Timestamps:
    """Turns the decoder's timestamps, in presentation order, into nanoseconds that strictly rise.

    A timestamp that rises is the exact value rounded to the nearest nanosecond. One that is missing is taken from
    the decoding time, else it is the previous one plus the nominal interval; one that does not rise becomes the
    previous one plus the nominal interval. A step back of more than a second is a clock that began anew: what
    follows keeps its distances. The first repair is reported through `warn`; `repairs` counts repaired frames.
    """

    def __init__(self, *, time_base: Fraction, interval_ns: int, warn: Callable[[str], None]) -> None:
        self._time_base = time_base
        self._interval_ns = interval_ns
        self._warn: Callable[[str], None] | None = warn
        self._previous_ns: int | None = None
        self._shift_ns = 0
        self.repairs = 0

    def next_ns(self, pts: int | None, dts: int | None) -> int:
        """The time of the next frame, from its presentation and decoding timestamps in units of the time base."""
        ticks = dts if pts is None else pts
        previous = self._previous_ns
        if ticks is None:
            current = self._repaired(previous, "has no timestamp")
        else:
            current = nanoseconds(ticks, self._time_base) + self._shift_ns
            if previous is not None and current <= previous:
                repaired = self._repaired(previous, "has a timestamp that does not rise")
                if previous - current > _JUMP_NS:
                    self._shift_ns += repaired - current
                current = repaired
        self._previous_ns = current
        return current

    def _repaired(self, previous_ns: int | None, what: str) -> int:
        self.repairs += 1
        if self._warn is not None:
            place = "the first frame" if previous_ns is None else f"the frame after {previous_ns / _NANOSECONDS:.3f} s"
            self._warn(f"{place} {what}; times that are missing or do not rise follow at the nominal interval")
            self._warn = None
        return 0 if previous_ns is None else previous_ns + self._interval_ns


class RateLimit:
    """Chooses frames by their timestamps so that `max_fps` a second remain, evenly.

    Points in time lie 1/max_fps apart, from the first frame on, and the frame nearest to each is taken: the one that
    comes no more than half a frame interval before it, so that neither jitter nor rounded timestamps matter.
    """

    def __init__(self, max_fps: float) -> None:
        self._step_ns = _NANOSECONDS / max_fps
        self._first_ns: int | None = None
        self._previous_ns = 0
        self._last_point = -1

    def takes(self, pts_ns: int) -> bool:
        """Whether the frame of that time is one of those that remain."""
        if self._first_ns is None:
            self._first_ns = self._previous_ns = pts_ns
        half_interval_ns = min(pts_ns - self._previous_ns, self._step_ns) / 2
        self._previous_ns = pts_ns
        point = int((pts_ns + half_interval_ns - self._first_ns) / self._step_ns)
        if point <= self._last_point:
            return False
        self._last_point = point
        return True
