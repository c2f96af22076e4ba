"""What one viewer has not taken yet: bounded in time, and cut where an image can be decoded without the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from sightline_plugins.publish.image import Image

DEFAULT_SPAN_NS = 2_000_000_000
_MOST_BYTES = 64 << 20


class Backlog:
    """Images between the pipeline, which never waits, and one viewer, who may be slow.

    It holds `span_ns` of stream time at most. A viewer who falls farther behind loses what waits, and goes on with the
    next key frame: `jumps` counts how often, `skipped` how many images that cost. Any thread may call anything;
    `on_ready` is called, by the thread that offers, whenever there is something new to take.
    """

    def __init__(self, on_ready: Callable[[], None], *, span_ns: int = DEFAULT_SPAN_NS) -> None:
        self.taken = self.skipped = self.jumps = 0
        self._on_ready = on_ready
        self._span_ns = span_ns
        self._images: deque[Image] = deque()
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

    def offer(self, image: Image) -> None:
        """Add the newest image, unless the viewer has to wait for a key frame. Never waits."""
        with self._lock:
            if self._images and self._is_too_long(image):
                self.jumps += 1
                self.skipped += len(self._images)
                self._images.clear()
                self._bytes = 0
                self._needs_key = True
            if self._needs_key and not image.is_key:
                self.skipped += bool(self.taken or self.jumps)
                return
            self._needs_key = False
            self._images.append(image)
            self._bytes += image.size
        self._on_ready()

    def take(self) -> Image | None:
        """The oldest image that waits; None when there is none now."""
        with self._lock:
            if not self._images:
                return None
            image = self._images.popleft()
            self._bytes -= image.size
            self.taken += 1
            return image

    def end(self) -> None:
        """The stream has ended."""
        self._is_over = True
        self._on_ready()

    def _is_too_long(self, newest: Image) -> bool:
        return abs(newest.dts_ns - self._images[0].dts_ns) > self._span_ns or self._bytes > _MOST_BYTES
