"""Broadcast encoded frames to viewers, each with a bounded backlog."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile
from threading import Lock
from typing import Generic, Protocol, TypeVar

from sightline.media import Frame
from sightline_plugins.rtsp.payloads import Codec


@dataclass(frozen=True, slots=True)
class Format:
    """Format of a stream's images; it changes at key frames only.

    `parameter_sets` are NAL units without start codes (VPS, SPS, PPS); a JPEG has none.
    """

    codec: Codec
    size_wh: tuple[int, int]
    parameter_sets: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """One encoded image; immutable, shared by all viewers.

    `units` are its NAL units without start codes and without parameter sets, or one whole JPEG. `pts_ns` and `dts_ns`
    are in the stream's own clock; `capture_ns` is the time of day at which it was taken, if known.
    """

    format: Format
    units: tuple[bytes, ...]
    pts_ns: int
    dts_ns: int
    is_key: bool
    capture_ns: int | None = None

    @property
    def size(self) -> int:
        """Size in bytes, without parameter sets."""
        return sum(map(len, self.units))

    @property
    def all_units(self) -> tuple[bytes, ...]:
        """All units; those of a key frame begin with the parameter sets."""
        return (*self.format.parameter_sets, *self.units) if self.is_key else self.units


class Queued(Protocol):
    """What viewers get: an encoded image, or something that goes with one."""

    @property
    def is_key(self) -> bool:
        """Whether a viewer may begin with it."""
        ...

    @property
    def dts_ns(self) -> int:
        """When it is decoded, in the stream's own clock."""
        ...

    @property
    def size(self) -> int:
        """Size in bytes."""
        ...


Item = TypeVar("Item", bound=Queued)
ItemMade = TypeVar("ItemMade", bound=Queued, covariant=True)

DEFAULT_SPAN_NS = 2_000_000_000
_MOST_BYTES = 64 << 20


class Backlog(Generic[Item]):
    """Queue between the pipeline, which never waits, and one viewer, which may be slow.

    It holds at most `span_ns` of stream time. A viewer that falls farther behind loses the queue and continues with the
    next key frame: `jumps` counts how often, `skipped` how many images were lost. What a viewer begins with (`begin`)
    may span more. Any thread may call any method; the thread that offers calls `on_ready` after every change.
    """

    def __init__(self, on_ready: Callable[[], None], *, span_ns: int = DEFAULT_SPAN_NS) -> None:
        self.taken = self.skipped = self.jumps = 0
        self._on_ready = on_ready
        self._span_ns = span_ns
        self._images: deque[Item] = deque()
        self._begun_ns: int | None = None
        self._bytes = 0
        self._needs_key = True
        self._lock = Lock()
        self.is_over = False
        """Whether the stream has ended; queued images can still be taken."""

    def begin(self, images: Iterable[Item]) -> None:
        """Add what a viewer begins with, from the first key frame on, however much time it spans."""
        with self._lock:
            begun = list(dropwhile(lambda image: not image.is_key, images))
            if not begun:
                return
            self._images.extend(begun)
            self._bytes += sum(image.size for image in begun)
            self._needs_key, self._begun_ns = False, begun[-1].dts_ns
        self._on_ready()

    def offer(self, image: Item) -> None:
        """Add the newest image, unless the viewer needs a key frame first. Never waits."""
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

    def take(self) -> Item | None:
        """Take the oldest queued image; None when the queue is empty."""
        with self._lock:
            if not self._images:
                return None
            image = self._images.popleft()
            self._bytes -= image.size
            self.taken += 1
            return image

    def end(self) -> None:
        """Mark the end of the stream."""
        self.is_over = True
        self._on_ready()

    def _is_too_long(self, newest: Item) -> bool:
        oldest_ns = self._images[0].dts_ns
        if self._begun_ns is not None and oldest_ns <= self._begun_ns:
            oldest_ns = self._begun_ns
        return abs(newest.dts_ns - oldest_ns) > self._span_ns or self._bytes > _MOST_BYTES


MOST_VIEWERS = 64
"""Maximum viewers of one stream at the same time."""


class Maker(Protocol[ItemMade]):
    """Makes the images of a stream."""

    @property
    def encodes(self) -> bool:
        """Whether images are encoded here, so that a key frame is available on request."""
        ...

    def images(self, frame: Frame, *, key: bool) -> Iterator[ItemMade]:
        """Yield the images to publish for a frame; `key` asks for a key frame. Raises OutputError."""
        ...

    def pause(self) -> None:
        """Pause while there are no viewers."""
        ...


class Broadcast(Generic[Item]):
    """A published stream, from its first frame to its end.

    The pipeline's thread calls `publish` and `end`; any thread may call the other methods. While there are no viewers
    and nothing is written, no image is made.
    """

    def __init__(self, name: str, maker: Maker[Item], *, write: Callable[[Item], None] | None = None) -> None:
        self.name = name
        self.images = self.key_frames = self.joined = self.most_viewers = 0
        self._maker = maker
        self._write = write
        self._lock = Lock()
        self._viewers: list[Backlog[Item]] = []
        self._newcomers: list[Backlog[Item]] = []
        self._asking = 0
        self._left_slow = self._left_skipped = 0
        self._group: list[Item] = []
        self.is_over = False
        """Whether the stream has ended."""

    def publish(self, frame: Frame) -> None:
        """Send a frame to all viewers. Never waits. Raises OutputError."""
        with self._lock:
            newcomers, self._newcomers = self._newcomers, []
            viewers = list(self._viewers)  # whoever joins from here on gets this frame's images with the next frame
        if not viewers and self._write is None:
            self._group.clear()
            self._maker.pause()
            return
        group = [] if self._maker.encodes else self._group.copy()
        made = list(self._maker.images(frame, key=bool(newcomers)))
        for image in made:
            self._note(image)
        for viewer in viewers:
            if viewer in newcomers:
                viewer.begin([*group, *made])
            else:
                for image in made:
                    viewer.offer(image)

    def join(self, viewer: Backlog[Item], *, counts: bool = True) -> bool:
        """Add a viewer, who begins with the next key frame if one can be made, else with the last one.

        `counts` False leaves it out of the statistics. Returns False when the stream is over or has `MOST_VIEWERS`.
        """
        with self._lock:
            if self.is_over or len(self._viewers) >= MOST_VIEWERS:
                return False
            self._viewers.append(viewer)
            self._newcomers.append(viewer)
            self._asking += not counts
            self.joined += counts
            self.most_viewers = max(self.most_viewers, len(self._viewers) - self._asking)
            return True

    def leave(self, viewer: Backlog[Item], *, counts: bool = True) -> None:
        """Remove a viewer; harmless when called again."""
        with self._lock:
            if viewer not in self._viewers:
                return
            self._viewers.remove(viewer)
            self._asking -= not counts
            if viewer in self._newcomers:
                self._newcomers.remove(viewer)
            self._left_slow += viewer.jumps > 0
            self._left_skipped += viewer.skipped

    def end(self) -> None:
        """Mark the end of the stream for all viewers."""
        with self._lock:
            self.is_over = True
            viewers = list(self._viewers)
        for viewer in viewers:
            viewer.end()

    def counts(self) -> dict[str, int | bool]:
        """Return the counters for the report; `slow_viewers` had to skip images."""
        with self._lock:
            slow = self._left_slow + sum(viewer.jumps > 0 for viewer in self._viewers)
            skipped = self._left_skipped + sum(viewer.skipped for viewer in self._viewers)
        return {
            "encoded": self._maker.encodes,
            "images": self.images,
            "key_frames": self.key_frames,
            "viewers": self.joined,
            "most_viewers": self.most_viewers,
            "slow_viewers": slow,
            "skipped_images": skipped,
        }

    def _note(self, image: Item) -> None:
        self.images += 1
        self.key_frames += image.is_key
        if not self._maker.encodes:
            if image.is_key:
                self._group.clear()
            self._group.append(image)
        if self._write is not None:
            self._write(image)


class Hub:
    """The running broadcasts by name; the pipeline's thread adds and removes, the servers read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._broadcasts: dict[str, Broadcast[Image]] = {}

    def add(self, broadcast: Broadcast[Image]) -> None:
        """Add a stream that has begun."""
        with self._lock:
            self._broadcasts[broadcast.name] = broadcast

    def remove(self, broadcast: Broadcast[Image]) -> None:
        """Remove a stream that has ended."""
        with self._lock:
            if self._broadcasts.get(broadcast.name) is broadcast:
                del self._broadcasts[broadcast.name]

    def get(self, name: str) -> Broadcast[Image] | None:
        """Return the running stream with that name."""
        with self._lock:
            return self._broadcasts.get(name)

    def names(self) -> list[str]:
        """Return the names of the running streams, in alphabetical order."""
        with self._lock:
            return sorted(self._broadcasts)


_FIRST_IMAGE_SECONDS = 5.0


class Viewer(Generic[Item]):
    """Watches one broadcast inside `async with`; made and used in one event loop. See `Broadcast.join`."""

    def __init__(self, broadcast: Broadcast[Item], *, counts: bool = True) -> None:
        self._counts = counts
        self.backlog: Backlog[Item] = Backlog(self._wake)
        self._broadcast = broadcast
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()

    async def __aenter__(self) -> Viewer[Item]:
        if not self._broadcast.join(self.backlog, counts=self._counts):
            raise TooManyViewers
        return self

    async def __aexit__(self, *error: object) -> None:
        self._broadcast.leave(self.backlog, counts=self._counts)

    async def next(self) -> Item | None:
        """Wait for the next image; None when the stream has ended."""
        while True:
            self._ready.clear()
            image = self.backlog.take()
            if image is not None:
                return image
            if self.backlog.is_over:
                return None
            await self._ready.wait()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ready.set)


class TooManyViewers(Exception):
    """The broadcast is over, or has `MOST_VIEWERS`."""


async def format_of(broadcast: Broadcast[Image]) -> Format | None:
    """Return the format of a broadcast's images; None when no image comes soon."""
    with suppress(TimeoutError, TooManyViewers):
        async with asyncio.timeout(_FIRST_IMAGE_SECONDS), Viewer(broadcast, counts=False) as viewer:
            image = await viewer.next()
            return None if image is None else image.format
    return None
