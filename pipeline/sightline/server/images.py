"""The newest images of streams, encoded only while somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from threading import Condition, Lock
from time import monotonic
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sightline.media import Batch
from sightline.media.surface import Memory, Surface

ENCODERS = "sightline.images"
"""Entry points of image encoders: `jpeg` = module:function, a `ImageEncoder`; `png`, of an array."""
LARGEST_WH = (960, 540)
_WIDTHS = (160, 320, 640, 960)
"""Widths that images are made in, so that few are made however many are asked for."""
_SHORTEST_INTERVAL_SECONDS = 0.25
_FIRST_IMAGE_SECONDS = 1.0


class ImageEncoder(Protocol):
    """Encodes a surface in host memory as a JPEG, made smaller where it is larger than `largest_wh`."""

    def __call__(self, surface: Surface, *, largest_wh: tuple[int, int]) -> bytes:
        """May be called from any thread, by one at a time."""
        ...


@dataclass(frozen=True, slots=True)
class _Shown:
    jpeg: bytes
    at_seconds: float


_Key = tuple[str, int]
"""A stream, and the width of its image at most."""


class Images:
    """The latest image of each stream, at most four a second of each and width, however many look.

    `take` gets all frames: while nobody asks for a stream's image it costs a comparison; when somebody does, the next
    frame is copied in the pipeline's thread and encoded in the thread of who asked, one at a time.
    """

    def __init__(self, encode: ImageEncoder, *, largest_wh: tuple[int, int] = LARGEST_WH) -> None:
        self._encode = encode
        self._largest_wh = largest_wh
        self._encoding = Lock()
        self._taken = Condition()
        self._wanted: dict[str, set[int]] = {}
        self._surfaces: dict[_Key, Surface] = {}
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
                with self._taken:
                    for width in self._wanted.pop(name, ()):
                        self._surfaces[name, width] = copy
                    self._taken.notify_all()

    def jpeg(self, stream: str, *, width: int | None = None) -> bytes | None:
        """The latest image of a stream, about as wide as `width` or smaller than the largest, which makes the next one
        wanted; None when none came within a second.
        """
        key = stream, self._usual(width)
        with self._taken:
            shown = self._shown.get(key)
            if shown is not None and monotonic() - shown.at_seconds < _SHORTEST_INTERVAL_SECONDS:
                return shown.jpeg
            self._wanted.setdefault(stream, set()).add(key[1])
            if shown is None:
                self._taken.wait_for(lambda: key in self._surfaces, _FIRST_IMAGE_SECONDS)
            surface = self._surfaces.pop(key, None)
        if surface is None:
            return None if shown is None else shown.jpeg
        with self._encoding:
            jpeg = self._encode(surface, largest_wh=(key[1], self._largest_wh[1]))
        self._shown[key] = _Shown(jpeg, monotonic())
        return jpeg

    def keep(self, streams: Collection[str]) -> None:
        """Forget the images of all other streams."""
        with self._taken:
            for known in (self._shown, self._surfaces):
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
    found = entry_points(group=ENCODERS, name="jpeg")
    return next(iter(found)).load() if found else None


def png_encoder() -> Callable[[npt.NDArray[np.uint8]], bytes] | None:
    """What encodes an image (height, width, 3), RGB, as PNG; None when no package offers it. From any thread."""
    found = entry_points(group=ENCODERS, name="png")
    return next(iter(found)).load() if found else None
