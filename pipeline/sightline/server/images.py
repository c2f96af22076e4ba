"""Live images: what passes a step of the pipeline, encoded only while somebody looks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import entry_points
from threading import Condition, Lock
from time import monotonic
from typing import Protocol

from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription
from sightline.media import Batch
from sightline.media.surface import Memory, Surface

ENCODERS = "sightline.images"
"""Entry points of image encoders: `jpeg` = module:function, a `ImageEncoder`."""
LARGEST_WH = (960, 540)
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


class Images:
    """The latest image of each stream, at most four a second of each, however many look.

    `look` is a probe: while nobody asks for a stream's image it costs a comparison; when somebody does, the next
    frame is copied in the pipeline's thread and encoded in the thread of who asked, one at a time.
    """

    def __init__(self, encode: ImageEncoder, *, largest_wh: tuple[int, int] = LARGEST_WH) -> None:
        self._encode = encode
        self._largest_wh = largest_wh
        self._encoding = Lock()
        self._taken = Condition()
        self._wanted: set[str] = set()
        self._surfaces: dict[str, Surface] = {}
        self._shown: dict[str, _Shown] = {}

    def look(self, batch: Batch) -> None:
        """Take a copy of the frames that are wanted."""
        if not self._wanted:
            return
        for frame in batch.frames:
            name = frame.stream.name
            if name in self._wanted:
                on_host = frame.surface.memory is Memory.HOST
                copy = frame.surface.shared().writable() if on_host else frame.surface.to_host()
                with self._taken:
                    self._wanted.discard(name)
                    self._surfaces[name] = copy
                    self._taken.notify_all()

    def jpeg(self, stream: str) -> bytes | None:
        """The latest image of a stream, which makes the next one wanted; None when none came within a second."""
        with self._taken:
            shown = self._shown.get(stream)
            if shown is not None and monotonic() - shown.at_seconds < _SHORTEST_INTERVAL_SECONDS:
                return shown.jpeg
            self._wanted.add(stream)
            if shown is None:
                self._taken.wait_for(lambda: stream in self._surfaces, _FIRST_IMAGE_SECONDS)
            surface = self._surfaces.pop(stream, None)
        if surface is None:
            return None if shown is None else shown.jpeg
        with self._encoding:
            jpeg = self._encode(surface, largest_wh=self._largest_wh)
        self._shown[stream] = _Shown(jpeg, monotonic())
        return jpeg

    def keep(self, streams: Collection[str]) -> None:
        """Forget the images of all other streams."""
        with self._taken:
            for known in (self._shown, self._surfaces):
                for name in known.keys() - set(streams):
                    del known[name]
            self._wanted.intersection_update(streams)


def encoder() -> ImageEncoder | None:
    """The installed encoder; None when no package offers one."""
    found = entry_points(group=ENCODERS, name="jpeg")
    return next(iter(found)).load() if found else None


def viewpoint(description: PipelineDescription, *, wanted: str | None) -> str | None:
    """The step behind which images are taken: the one asked for, else the last one that changes images (`draw`,
    `privacy`), else the last step; None when there is no step. Raises ConfigurationError when no step has that id.
    """
    steps = list(description.elements())
    known = [name for name, _ in steps]
    if wanted is not None and wanted not in known:
        raise ConfigurationError(f"no step has the id {wanted!r}; the ids are {', '.join(known) or 'none'}")
    changing = [name for name, element in steps if element.changes_images]
    return wanted or next(iter([*reversed(changing), *reversed(known)]), None)
