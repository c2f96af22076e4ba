"""Live video of a pipeline for those who look: what the main line has finished, made in a thread of its own."""

from __future__ import annotations

import glob
import logging
import time
from collections import deque
from collections.abc import Collection, Sequence
from threading import Condition

from starlette.websockets import WebSocket

from sightline.errors import OutputError
from sightline.graph import Packets
from sightline.graph.packets import Wanted
from sightline.media import Altered, Batch, Frame, Memory
from sightline.runtime.threads import Worker
from sightline_plugins.live.maker import LiveMaker
from sightline_plugins.live.messages import LiveMessage
from sightline_plugins.live.metadata import SeenFrame
from sightline_plugins.live.serving import serve
from sightline_plugins.publish.broadcast import Broadcast
from sightline_plugins.rtsp.payloads import Codec

_LOG = logging.getLogger(__name__)
_RING_NS = 2_000_000_000
_RING_BYTES = 64 << 20
LINGER_SECONDS = 10.0
"""How long packets are kept for who comes back, as a page that is loaded again does."""
_MOST_WAITING = 16
_MOST_UNCODED = 2
"""Frames of a stream that wait to be encoded; when there are more, the oldest is left out."""


class LiveVideo:
    """Shows the streams of a pipeline to browsers; nothing is copied, encoded or serialised while nobody looks.

    `take` is called from the pipeline's threads and never waits; images are made in one thread for all streams, which
    is started when somebody looks first. `watch` runs in the event loop of the server.
    """

    def __init__(self, packets: Packets) -> None:
        self._packets = packets
        self._changed = Condition()
        self._watched: dict[str, _WatchedStream] = {}
        self._lingering: dict[str, tuple[Wanted, float]] = {}
        self._worker: _LiveWorker | None = None
        self._is_closed = False

    def take(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        """Take the frames that somebody watches; `arrivals_ns` is when each arrived (monotonic)."""
        if not self._watched:
            return
        epoch_ns = time.time_ns() - time.monotonic_ns()
        for row, arrived_ns in enumerate(arrivals_ns):
            stream = self._watched.get(batch.frames[row].stream.name)
            if stream is not None:
                found = SeenFrame.of(batch, row, arrived_ns=epoch_ns + arrived_ns)
                with self._changed:
                    stream.add(found)
                    self._changed.notify()

    async def watch(self, socket: WebSocket, stream: str, plays: Collection[str]) -> None:
        """Play a stream over a WebSocket until either side goes away. `plays` names what the browser decodes: `h264`,
        `h265`; for neither it gets JPEG.
        """
        broadcast = self._enter(stream, frozenset(Codec(name) for name in plays))
        try:
            await serve(socket, broadcast)
        finally:
            self._leave(stream)

    def close(self) -> None:
        """End all connections and the thread. In the event loop; it waits for nothing."""
        with self._changed:
            self._is_closed = True
            for stream in self._watched.values():
                stream.end()
            self._changed.notify_all()

    def work(self) -> None:
        """Make the images of what is watched, until closed; in the thread."""
        while self._wait():
            for stream in list(self._watched.values()):
                while (found := stream.take(self._changed)) is not None:
                    stream.publish(found)
        with self._changed:
            for wanted, _ in self._lingering.values():
                wanted.close()
            self._lingering.clear()

    def _wait(self) -> bool:
        """Wait for something to do; False when closed."""
        with self._changed:
            while not self._is_closed:
                if any(stream.waiting for stream in self._watched.values()):
                    return True
                self._changed.wait(self._forget())
        return False

    def _forget(self) -> float | None:
        """Let packets go that nobody has watched for some seconds; return how long the rest may stay."""
        now = time.monotonic()
        for name, (wanted, until) in list(self._lingering.items()):
            if until <= now:
                wanted.close()
                del self._lingering[name]
        return min((until - now for _, until in self._lingering.values()), default=None)

    def _enter(self, name: str, plays: frozenset[Codec]) -> Broadcast[LiveMessage]:
        with self._changed:
            stream = self._watched.get(name)
            if stream is None:
                wanted, _ = self._lingering.pop(name, (None, 0.0))
                if wanted is None:
                    patterns = (glob.escape(name),)
                    wanted = self._packets.want(patterns, duration_ns=_RING_NS, limit_bytes=_RING_BYTES)
                stream = self._watched[name] = _WatchedStream(name, self._packets, wanted)
            stream.viewers += 1
            if self._worker is None:
                self._worker = _LiveWorker(self)
                self._worker.start()
            broadcast = stream.broadcast(plays)
            if self._is_closed:
                broadcast.end()
            return broadcast

    def _leave(self, name: str) -> None:
        with self._changed:
            stream = self._watched[name]
            stream.viewers -= 1
            if not stream.viewers:
                del self._watched[name]
                if self._is_closed:
                    stream.wanted.close()
                else:
                    self._lingering[name] = stream.wanted, time.monotonic() + LINGER_SECONDS
                    self._changed.notify()


class _LiveWorker(Worker):
    """The thread in which images are made."""

    def __init__(self, live: LiveVideo) -> None:
        super().__init__("live")
        self._live = live

    def work(self) -> None:
        """Make images."""
        self._live.work()


class _WatchedStream:
    """A stream that somebody watches: the frames that wait, and a broadcast for each set of codecs that is played."""

    def __init__(self, name: str, packets: Packets, wanted: Wanted) -> None:
        self.name = name
        self.wanted = wanted
        self.viewers = 0
        self.waiting: deque[SeenFrame] = deque(maxlen=_MOST_WAITING)
        self._packets = packets
        self._broadcasts: dict[frozenset[Codec], tuple[Broadcast[LiveMessage], LiveMaker]] = {}
        self._has_failed = False

    def broadcast(self, plays: frozenset[Codec]) -> Broadcast[LiveMessage]:
        """The broadcast for viewers whose browsers play these codecs."""
        known = self._broadcasts.get(plays)
        if known is None:
            maker = LiveMaker(self._packets, plays=plays)
            known = self._broadcasts[plays] = Broadcast(self.name, maker), maker
        return known[0]

    def add(self, found: SeenFrame) -> None:
        """Let a frame wait; the oldest that would be encoded goes when there are too many."""
        if _is_encoded(found.frame):
            uncoded = [one for one in self.waiting if _is_encoded(one.frame)]
            if len(uncoded) >= _MOST_UNCODED:
                self.waiting.remove(uncoded[0])
            if found.frame.surface.memory is not Memory.HOST:
                found = found.on_host()
        self.waiting.append(found)

    def take(self, lock: Condition) -> SeenFrame | None:
        """Take the frame that has waited longest."""
        with lock:
            return self.waiting.popleft() if self.waiting else None

    def publish(self, found: SeenFrame) -> None:
        """Make the images of a frame for all who watch. A failure is logged once, and the frame left out."""
        for broadcast, maker in list(self._broadcasts.values()):
            maker.see(found)
            try:
                broadcast.publish(found.frame)
            except (OutputError, ValueError) as error:
                if not self._has_failed:
                    _LOG.warning("live video of stream %r: %s; frames are left out", self.name, error)
                self._has_failed = True
            finally:
                maker.see(None)

    def end(self) -> None:
        """End all broadcasts."""
        for broadcast, _ in self._broadcasts.values():
            broadcast.end()


def _is_encoded(frame: Frame) -> bool:
    """Whether the image itself is needed, and not only its packet."""
    return frame.packet is None or bool(frame.altered & Altered.CHANGED)
