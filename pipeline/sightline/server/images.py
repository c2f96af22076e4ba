"""The newest images of streams, encoded only while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from time import monotonic
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sightline.installed import installed
from sightline.media import Batch
from sightline.media.surface import Memory, Surface
from sightline.server.answers import Threads

ENCODERS = "sightline.images"
"""Entry points of image encoders: `jpeg` = module:function, a `ImageEncoder`; `png`, of an array."""
LARGEST_WH = (960, 540)
_WIDTHS = (160, 320, 640, 960)
"""Widths that images are made in, so that few are made however many are asked for."""
_SHORTEST_INTERVAL_SECONDS = 0.25
_FIRST_FRAME_SECONDS = 5.0
_NEXT_FRAME_SECONDS = 1.0


class ImageEncoder(Protocol):
    """Encodes a surface in host memory as a JPEG, made smaller where it is larger than `largest_wh`."""

    def __call__(self, surface: Surface, *, largest_wh: tuple[int, int]) -> bytes:
        """May be called from any thread, by one at a time."""
        ...


@dataclass(frozen=True, slots=True)
class _Shown:
    jpeg: bytes
    at_seconds: float


@dataclass(frozen=True, slots=True)
class _Taken:
    surface: Surface
    at_seconds: float


_Key = tuple[str, int]
"""A stream, and the width of its image at most."""


class Images:
    """The newest image of each stream, at most four a second of each and width, however many look.

    `take` gets all frames: while nobody asks for a stream's image it costs a comparison; when somebody does, the next
    frame is copied in the pipeline's thread and encoded in another one, one at a time. Who asks waits in the event
    loop.
    """

    def __init__(self, encode: ImageEncoder, *, largest_wh: tuple[int, int] = LARGEST_WH) -> None:
        self._encode = encode
        self._largest_wh = largest_wh
        self._encoding = Lock()
        self._threads = Threads()
        self._lock = Lock()
        self._wanted: dict[str, dict[int, list[Callable[[], object]]]] = {}
        self._taken: dict[_Key, _Taken] = {}
        self._shown: dict[_Key, _Shown] = {}

    def take(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        """Take a copy of the frames that are wanted."""
        del arrivals_ns
        if not self._wanted:
            return
        for frame in batch.frames:
            name = frame.stream.name
            if name in self._wanted:
                on_host = frame.surface.memory is Memory.HOST
                copy = frame.surface.shared().writable() if on_host else frame.surface.to_host()
                with self._lock:
                    for width, waiting in self._wanted.pop(name, {}).items():
                        self._taken[name, width] = _Taken(copy, monotonic())
                        for wake in waiting:
                            wake()

    async def newest(self, stream: str, *, width: int | None = None) -> bytes | None:
        """The next frame of a stream as JPEG, about as wide as `width` or smaller than the largest. When none comes
        within a second it is the last one, and None where none was shown or comes within five seconds.
        """
        key = stream, self._usual(width)
        seconds = _NEXT_FRAME_SECONDS if key in self._shown or key in self._taken else _FIRST_FRAME_SECONDS
        jpeg = await self._next(key, seconds, since_seconds=0.0)
        shown = self._shown.get(key)
        return shown.jpeg if jpeg is None and shown is not None else jpeg

    async def following(self, stream: str) -> bytes | None:
        """The next frame of a stream as JPEG, no larger than the largest; None when none comes within five seconds."""
        key = stream, self._usual(None)
        return await self._next(key, _FIRST_FRAME_SECONDS, since_seconds=monotonic() - _SHORTEST_INTERVAL_SECONDS)

    async def _next(self, key: _Key, seconds: float, *, since_seconds: float) -> bytes | None:
        """Wait for the next frame. When none comes in time, it is one taken since then that nobody fetched."""
        asked_seconds = monotonic()
        shown = self._shown.get(key)
        if shown is not None and asked_seconds - shown.at_seconds < _SHORTEST_INTERVAL_SECONDS:
            return shown.jpeg
        came = asyncio.Event()
        wake = partial(asyncio.get_running_loop().call_soon_threadsafe, came.set)
        with self._lock:
            self._wanted.setdefault(key[0], {}).setdefault(key[1], []).append(wake)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(came.wait(), seconds)
        finally:
            with self._lock:  # the next frame stays wanted, so that whoever asks again finds it
                waiting = self._wanted.get(key[0], {}).get(key[1], [])
                if wake in waiting:
                    waiting.remove(wake)
        return await self._threads.run(
            partial(self._encoded, key, asked_seconds=asked_seconds, since_seconds=since_seconds)
        )

    def _encoded(self, key: _Key, *, asked_seconds: float, since_seconds: float) -> bytes | None:
        """Encode the frame that was taken, unless another who asked at the same time has done it. In a thread."""
        with self._encoding:
            with self._lock:
                taken = self._taken.pop(key, None)
            if taken is None or taken.at_seconds < since_seconds:
                shown = self._shown.get(key)
                return shown.jpeg if shown is not None and shown.at_seconds >= asked_seconds else None
            jpeg = self._encode(taken.surface, largest_wh=(key[1], self._largest_wh[1]))
            self._shown[key] = _Shown(jpeg, monotonic())
            return jpeg

    def keep(self, streams: Collection[str]) -> None:
        """Forget the images of all other streams."""
        with self._lock:
            for known in (self._shown, self._taken):
                for key in [one for one in known if one[0] not in streams]:
                    del known[key]
            for name in self._wanted.keys() - set(streams):
                del self._wanted[name]

    def _usual(self, width: int | None) -> int:
        """The next larger one of the few widths that images are made in."""
        largest = self._largest_wh[0]
        return largest if width is None else min(next((one for one in _WIDTHS if one >= width), largest), largest)


def encoder() -> ImageEncoder | None:
    """The installed encoder; None when no package offers one."""
    found = installed(ENCODERS).select(name="jpeg")
    return next(iter(found)).load() if found else None


def png_encoder() -> Callable[[npt.NDArray[np.uint8]], bytes] | None:
    """What encodes an image (height, width, 3), RGB, as PNG; None when no package offers it. From any thread."""
    found = installed(ENCODERS).select(name="png")
    return next(iter(found)).load() if found else None
