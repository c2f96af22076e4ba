"""Timestamps of a live stream: those of the camera as long as they make sense, held against the clock."""

from __future__ import annotations

from fractions import Fraction

from sightline_plugins.decode.timestamps import nanoseconds

_JUMP_NS = 1_000_000_000
_TOLERANCE_NS = 80_000_000
_SETTLING_NS = 1_000_000_000
_WINDOW_NS = 800_000_000
_SMOOTHING = 8


class LiveTimestamps:
    """Turns a camera's timestamps into nanoseconds that strictly rise and go on as the clock does.

    A frame can be late, never early: the least delay between timestamp and arrival, seen in the first second, is held
    to. A timestamp that is missing or does not rise becomes the previous one plus the interval at which frames arrive.
    One that steps back by more than a second, or forth by more than a second more than has passed, is a clock that was
    set anew: what follows keeps its distances. When all frames of a while are early or late by a tenth of a second,
    they are moved. Network jitter, bursts and B-frames change nothing. `repairs` counts the frames put right, `jumps`
    the clocks set anew.
    """

    def __init__(self, *, time_base: Fraction, interval_ns: int) -> None:
        self._time_base = time_base
        self._interval_ns = interval_ns
        self._previous_ns: int | None = None
        self._shift_ns = 0
        self._arrival_ns = self._first_arrival_ns = self._window_end_ns = 0
        self._least_delay_ns = 0
        self._window_delay_ns: int | None = None
        self.repairs = 0
        self.jumps = 0

    def next_ns(self, pts: int | None, dts: int | None, *, arrival_ns: int) -> int:
        """The time of the next frame, from its timestamps in units of the time base and its arrival (monotonic)."""
        ticks = dts if pts is None else pts
        given_ns = None if ticks is None else nanoseconds(ticks, self._time_base) + self._shift_ns
        previous_ns = self._previous_ns
        if previous_ns is None:
            current_ns = given_ns or 0
            self._first_arrival_ns = arrival_ns
            self._least_delay_ns = arrival_ns - current_ns
        else:
            repairs = self.repairs
            current_ns = self._risen(given_ns, previous_ns, passed_ns=arrival_ns - self._arrival_ns)
            current_ns = self._kept_to_clock(current_ns, previous_ns, arrival_ns=arrival_ns)
            self.repairs = min(self.repairs, repairs + 1)
        self._previous_ns, self._arrival_ns = current_ns, arrival_ns
        return current_ns

    def _risen(self, given_ns: int | None, previous_ns: int, *, passed_ns: int) -> int:
        self._interval_ns += (passed_ns - self._interval_ns) // _SMOOTHING
        stand_in_ns = previous_ns + max(self._interval_ns, 1)
        if given_ns is None:
            self.repairs += 1
            return stand_in_ns
        step_ns = given_ns - previous_ns
        if 0 < step_ns <= passed_ns + _JUMP_NS:
            return given_ns
        self.repairs += 1
        if step_ns > 0 or step_ns < -_JUMP_NS:
            self.jumps += 1
            stand_in_ns = previous_ns + max(passed_ns, 1)
            self._shift_ns += stand_in_ns - given_ns
        return stand_in_ns

    def _kept_to_clock(self, current_ns: int, previous_ns: int, *, arrival_ns: int) -> int:
        delay_ns = arrival_ns - current_ns
        if arrival_ns - self._first_arrival_ns < _SETTLING_NS:
            self._least_delay_ns = min(self._least_delay_ns, delay_ns)
            self._window_end_ns = arrival_ns + _WINDOW_NS
            return current_ns
        early_ns = self._least_delay_ns - delay_ns
        if early_ns > _TOLERANCE_NS:
            return self._moved(current_ns, previous_ns, by_ns=-early_ns)
        self._window_delay_ns = min(delay_ns, delay_ns if self._window_delay_ns is None else self._window_delay_ns)
        if arrival_ns < self._window_end_ns:
            return current_ns
        late_ns, self._window_delay_ns = self._window_delay_ns - self._least_delay_ns, None
        self._window_end_ns = arrival_ns + _WINDOW_NS
        return self._moved(current_ns, previous_ns, by_ns=late_ns) if late_ns > _TOLERANCE_NS else current_ns

    def _moved(self, current_ns: int, previous_ns: int, *, by_ns: int) -> int:
        self._shift_ns += by_ns
        self._window_delay_ns = None
        self.repairs += 1
        return max(current_ns + by_ns, previous_ns + 1)
