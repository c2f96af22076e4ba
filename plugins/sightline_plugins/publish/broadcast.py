"""Broadcast encoded frames to viewers, each with a bounded backlog."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from sightline.media import Frame
from sightline_plugins.rtsp.payloads import Codec


@dataclass(frozen=True, slots=True)
class Format:
    """What all images of a stream have in common until it changes, which it does at a key frame.

    `parameter_sets` are NAL units without start codes (VPS, SPS, PPS); a JPEG has none.
    """

    codec: Codec
    size_wh: tuple[int, int]
    parameter_sets: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """One encoded image; immutable, shared by all who send it.

    `units` are its NAL units without start codes and without parameter sets, or one whole JPEG. `pts_ns` is when it is
    shown and `dts_ns` when it is decoded, in the stream's own clock; `capture_ns` is the time of day at which it was
    taken, when that is known.
    """

    format: Format
    units: tuple[bytes, ...]
    pts_ns: int
    dts_ns: int
    is_key: bool
    capture_ns: int | None = None

    @property
    def size(self) -> int:
        """Bytes of it, about."""
        return sum(map(len, self.units))

    @property
    def all_units(self) -> tuple[bytes, ...]:
        """Its units, a key frame's with the parameter sets in front."""
        return (*self.format.parameter_sets, *self.units) if self.is_key else self.units


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


MOST_VIEWERS = 64
"""Viewers of one stream at the same time; who comes later is turned away."""


class Maker(Protocol):
    """Where the images of a stream come from."""

    encodes: bool
    """Whether images are made here, so that a key frame can be had whenever one is wanted."""

    def images(self, frame: Frame, *, key: bool) -> Iterator[Image]:
        """What is published of a frame; `key` asks for a key frame. Raises OutputError."""
        ...

    def pause(self) -> None:
        """Nobody watches for now."""
        ...


class Broadcast:
    """A stream from its first frame to its end.

    `publish` and `end` belong to the pipeline's thread; everything else may be called by any. While nobody watches,
    and nothing is written, no image is made.
    """

    def __init__(self, name: str, maker: Maker, *, write: Callable[[Image], None] | None = None) -> None:
        self.name = name
        self.images = self.key_frames = self.joined = self.most_viewers = 0
        self._maker = maker
        self._write = write
        self._lock = Lock()
        self._viewers: list[Backlog] = []
        self._newcomers: list[Backlog] = []
        self._asking = 0
        self._left = {"slow": 0, "skipped": 0}
        self._group: list[Image] = []
        self._is_over = False

    @property
    def encodes(self) -> bool:
        """Whether its images are encoded here, not passed on as they came."""
        return self._maker.encodes

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended."""
        return self._is_over

    def publish(self, frame: Frame) -> None:
        """Hand a frame to all who watch. Waits for nobody. Raises OutputError."""
        with self._lock:
            newcomers, self._newcomers = self._newcomers, []
            is_watched = bool(self._viewers)
        if not is_watched and self._write is None:
            self._group.clear()
            self._maker.pause()
            return
        if not self._maker.encodes:
            for viewer in newcomers:
                self._show_group(viewer)
        for image in self._maker.images(frame, key=bool(newcomers)):
            self._hand_out(image)

    def join(self, viewer: Backlog, *, counts: bool = True) -> bool:
        """Begin to watch, with the next key frame where one can be made, else with the last one there was.

        One that only asks what the images are like does not count. False when the stream is over, or has as many
        viewers as there may be.
        """
        with self._lock:
            if self._is_over or len(self._viewers) >= MOST_VIEWERS:
                return False
            self._viewers.append(viewer)
            self._newcomers.append(viewer)
            self._asking += not counts
            self.joined += counts
            self.most_viewers = max(self.most_viewers, len(self._viewers) - self._asking)
            return True

    def leave(self, viewer: Backlog, *, counts: bool = True) -> None:
        """Watch no longer; harmless for who does not."""
        with self._lock:
            if viewer not in self._viewers:
                return
            self._viewers.remove(viewer)
            self._asking -= not counts
            if viewer in self._newcomers:
                self._newcomers.remove(viewer)
            self._left["slow"] += viewer.is_slow
            self._left["skipped"] += viewer.skipped

    def end(self) -> None:
        """The stream has ended: tell all who watch."""
        with self._lock:
            self._is_over = True
            viewers = list(self._viewers)
        for viewer in viewers:
            viewer.end()

    def counts(self) -> dict[str, int | bool]:
        """For the report: what was published, and to how many; `slow` viewers had to skip images."""
        with self._lock:
            slow = self._left["slow"] + sum(viewer.is_slow for viewer in self._viewers)
            skipped = self._left["skipped"] + sum(viewer.skipped for viewer in self._viewers)
        return {
            "encoded": self._maker.encodes,
            "images": self.images,
            "key_frames": self.key_frames,
            "viewers": self.joined,
            "most_viewers": self.most_viewers,
            "slow_viewers": slow,
            "skipped_images": skipped,
        }

    def _show_group(self, viewer: Backlog) -> None:
        for image in self._group:
            viewer.offer(image)

    def _hand_out(self, image: Image) -> None:
        self.images += 1
        self.key_frames += image.is_key
        if not self._maker.encodes:
            if image.is_key:
                self._group.clear()
            self._group.append(image)
        if self._write is not None:
            self._write(image)
        with self._lock:
            viewers = list(self._viewers)
        for viewer in viewers:
            viewer.offer(image)


class Hub:
    """The broadcasts that go on, by name; the pipeline's thread adds and removes, the servers look."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._broadcasts: dict[str, Broadcast] = {}

    def add(self, broadcast: Broadcast) -> None:
        """A stream has begun."""
        with self._lock:
            self._broadcasts[broadcast.name] = broadcast

    def remove(self, broadcast: Broadcast) -> None:
        """A stream has ended."""
        with self._lock:
            if self._broadcasts.get(broadcast.name) is broadcast:
                del self._broadcasts[broadcast.name]

    def get(self, name: str) -> Broadcast | None:
        """The stream of that name, if it goes on."""
        with self._lock:
            return self._broadcasts.get(name)

    def names(self) -> list[str]:
        """The streams that go on, in alphabetical order."""
        with self._lock:
            return sorted(self._broadcasts)


_FIRST_IMAGE_SECONDS = 5.0


class Viewer:
    """Watches one broadcast from `async with` on; made and used inside an event loop. See `Broadcast.join`."""

    def __init__(self, broadcast: Broadcast, *, counts: bool = True) -> None:
        self._counts = counts
        self.backlog = Backlog(self._wake)
        self._broadcast = broadcast
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()

    async def __aenter__(self) -> Viewer:
        if not self._broadcast.join(self.backlog, counts=self._counts):
            raise TooManyViewers
        return self

    async def __aexit__(self, *error: object) -> None:
        self._broadcast.leave(self.backlog, counts=self._counts)

    async def next(self) -> Image | None:
        """The next image, once it is there; None when the stream has ended."""
        while True:
            self._ready.clear()
            image = self.backlog.take()
            if image is not None:
                return image
            if self.backlog.is_over:
                return None
            await self._ready.wait()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._ready.set)


class TooManyViewers(Exception):
    """The broadcast is over, or has as many viewers as it may have."""


async def format_of(broadcast: Broadcast) -> Format | None:
    """What the images of a broadcast have in common; None when none comes soon."""
    with suppress(TimeoutError, TooManyViewers):
        async with asyncio.timeout(_FIRST_IMAGE_SECONDS), Viewer(broadcast, counts=False) as viewer:
            image = await viewer.next()
            return None if image is None else image.format
    return None
