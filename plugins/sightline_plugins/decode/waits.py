"""Waits: how long a live input may take to connect, and to send something; limits that change while it is open."""

from __future__ import annotations

from collections.abc import Callable

from sightline.graph.site import Clock

_CONNECTING_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 1.8
_SHORTEST_WAIT_SECONDS = 0.02
_MARGIN = 0.95
"""A stall is told a little before its time, so that it is known when the time is over."""
_FLUSHED = 0.9
"""A read that gave a packet only at its limit had it all the time: FFmpeg lets go of its last image then."""


class Seconds:
    """A number of seconds that is asked for anew whenever it is used: PyAV does so whenever it begins to wait."""

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask

    def __float__(self) -> float:
        return self._ask()


class Waits:
    """The limits of one live input; for the thread that reads it.

    Where a read can go on after its limit (`resumable`: RTSP) it waits in short pieces, so that somebody can end it;
    elsewhere it waits once, for half of the limit, which shows a stall after the whole. `limit_ns` is asked for how
    long nothing may come.
    """

    def __init__(self, clock: Clock, *, limit_ns: Callable[[], int], resumable: bool) -> None:
        self._clock = clock
        self._limit_ns = limit_ns
        self.resumable = resumable
        self._asked_ns: int | None = None
        self._phases = 0
        self._waiting_since_ns = self._heard_ns = clock.monotonic_ns()
        self._wait_seconds = 0.0

    @property
    def opening(self) -> Seconds:
        """How long a step of opening may take."""
        return Seconds(self._opening_seconds)

    @property
    def reading(self) -> Seconds:
        """How long a read may take."""
        return Seconds(self._reading_seconds)

    @property
    def is_connected(self) -> bool:
        """Whether the server has answered: what is waited for now are its images."""
        return self._phases > 1

    @property
    def is_over(self) -> bool:
        """Whether nothing has come for too long."""
        return not self.resumable or self._left_seconds() <= 0

    @property
    def have_changed(self) -> bool:
        """Whether `reading` must be asked for again: the limit is another one, or most of it is over."""
        return self._asked_ns != self._limit_ns()

    def begin(self) -> None:
        """A wait begins."""
        self._waiting_since_ns = self._clock.monotonic_ns()

    def heard(self) -> None:
        """Something came."""
        now_ns = self._clock.monotonic_ns()
        if (now_ns - self._waiting_since_ns) / 1e9 < _FLUSHED * self._wait_seconds:
            self._heard_ns = now_ns
        else:
            self._heard_ns = self._waiting_since_ns
            self._asked_ns = None  # less is left than before this read

    def _opening_seconds(self) -> float:
        self._phases += 1
        return self._limit_ns() / 1e9 if self.is_connected else _CONNECTING_SECONDS

    def _reading_seconds(self) -> float:
        self._asked_ns = self._limit_ns()
        if self.resumable:
            self._wait_seconds = min(max(self._left_seconds(), _SHORTEST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)
        else:
            self._wait_seconds = self._limit_ns() / 2e9
        return self._wait_seconds

    def _left_seconds(self) -> float:
        return (self._heard_ns + _MARGIN * self._limit_ns() - self._clock.monotonic_ns()) / 1e9
