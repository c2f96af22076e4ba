"""Moves: how the thread of a stream gets from one place to another when a lane is lost."""

from __future__ import annotations

from threading import Event, Lock

from sightline.runtime.lane import Berth


class Moves:
    """Holds the place of a stream. Its thread uses it, waits for another and ends it; others give it one, or none."""

    def __init__(self, berth: Berth) -> None:
        self.berth = berth
        """Where the stream is now; becomes another in `wait` only."""
        self._given: Berth | None = berth
        self._lock = Lock()
        self._news = Event()
        self._is_stopped = self._has_ended = False

    def to(self, berth: Berth | None) -> None:
        """Give the stream another place, or none any more."""
        with self._lock:
            self._given = berth
            if self._has_ended and berth is not None:
                berth.link.end()
        self._news.set()

    def stop(self) -> None:
        """Nobody waits any more."""
        self._is_stopped = True
        self._news.set()

    def wait(self) -> bool:
        """Wait for a place that is not lost; False when there will be none."""
        while self.berth.is_lost and not self._is_stopped:
            self._news.wait()
            with self._lock:
                self._news.clear()
                if self._given is None:
                    return False
                self.berth = self._given
        return not self._is_stopped

    def end(self) -> None:
        """The stream has ended where it is, and wherever else it is given a place."""
        with self._lock:
            self._has_ended = True
            links = {one.link for one in (self.berth, self._given) if one is not None}
        for link in links:
            link.end()
