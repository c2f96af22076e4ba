"""What one viewer has not taken yet: bounded in time, and cut where a picture can be decoded without the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from sightline_plugins.publish.picture import Picture

DEFAULT_SPAN_NS = 2_000_000_000
_MOST_BYTES = 64 << 20


class Backlog:
    """Pictures between the pipeline, which never waits, and one viewer, who may be slow.

    It holds `span_ns` of stream time at most. A viewer who falls farther behind loses what waits, and goes on with the
    next key picture: `jumps` counts how often, `skipped` how many pictures that cost. Any thread may call anything;
    `on_ready` is called, by the thread that offers, whenever there is something new to take.
    """

    def __init__(self, on_ready: Callable[[], None], *, span_ns: int = DEFAULT_SPAN_NS) -> None:
        self.taken = self.skipped = self.jumps = 0
        self._on_ready = on_ready
        self._span_ns = span_ns
        self._pictures: deque[Picture] = deque()
        self._bytes = 0
        self._needs_key = True
        self._lock = Lock()
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended; what waits can still be taken."""
        return self._is_over

    @property
    def is_slow(self) -> bool:
        """Whether its viewer could not keep up at least once."""
        return self.jumps > 0

    def offer(self, picture: Picture) -> None:
        """Add the newest picture, unless the viewer has to wait for a key picture. Never waits."""
        with self._lock:
            if self._pictures and self._is_too_long(picture):
                self.jumps += 1
                self.skipped += len(self._pictures)
                self._pictures.clear()
                self._bytes = 0
                self._needs_key = True
            if self._needs_key and not picture.is_key:
                self.skipped += bool(self.taken or self.jumps)
                return
            self._needs_key = False
            self._pictures.append(picture)
            self._bytes += picture.size
        self._on_ready()

    def take(self) -> Picture | None:
        """The oldest picture that waits; None when there is none now."""
        with self._lock:
            if not self._pictures:
                return None
            picture = self._pictures.popleft()
            self._bytes -= picture.size
            self.taken += 1
            return picture

    def end(self) -> None:
        """The stream has ended."""
        self._is_over = True
        self._on_ready()

    def _is_too_long(self, newest: Picture) -> bool:
        return abs(newest.dts_ns - self._pictures[0].dts_ns) > self._span_ns or self._bytes > _MOST_BYTES
