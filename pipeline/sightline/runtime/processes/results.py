"""Batches without their pixels: what travels from a worker to the main process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from sightline.media import Batch, Event, Frame, Objects, Stream
from sightline.media.surface import PixelFormat, Surface

_FRAME_FIELDS = tuple(one.name for one in fields(Frame) if one.name not in ("stream", "surface"))

Forward = tuple[str, int]
"""Which step of the main process results are for: its id, and its version, which grows when it is built anew."""
Send = Callable[[str, Any], None]
"""Sends a letter to the main process: its kind and its content."""


@dataclass(frozen=True, slots=True)
class Results:
    """A batch to be sent: of images only their sizes, of what was found on them everything but graphics, which are
    there to be drawn.
    """

    frames: tuple[tuple[str, bool, tuple[int, int], tuple[Any, ...]], ...]
    """Of each frame the stream's name, whether it is live, the size of the image, and the other fields of `Frame`."""
    objects: Objects | None
    events: tuple[Event, ...]
    tensors: tuple[Any, ...]
    columns: Any

    @classmethod
    def of(cls, batch: Batch) -> Results:
        """What is sent of a batch; it holds nothing of the images."""
        return cls(
            frames=tuple(
                (one.stream.name, one.stream.live, one.size_wh, tuple(getattr(one, name) for name in _FRAME_FIELDS))
                for one in batch.frames
            ),
            objects=batch.objects if len(batch.objects) or batch.objects.origins else None,
            events=batch.events,
            tensors=batch.tensors,
            columns=replace(batch.columns, graphics=()) if batch.columns.graphics else batch.columns,
        )

    def batch(self) -> Batch:
        """The batch again. Its images have the right sizes, and no content: all of their samples are 0."""
        frames = tuple(
            Frame(
                stream=_stream(name, live=live),
                surface=_blank(size_wh),
                **dict(zip(_FRAME_FIELDS, values, strict=True)),
            )
            for name, live, size_wh, values in self.frames
        )
        objects = Objects.empty() if self.objects is None else self.objects
        return Batch(frames, objects, self.events, self.tensors, self.columns)


@lru_cache(maxsize=4096)
def _stream(name: str, *, live: bool) -> Stream:
    return Stream(name, live=live)


@lru_cache(maxsize=256)
def _blank(size_wh: tuple[int, int]) -> Surface:
    """A surface of that size that takes no memory: one sample stands for all."""
    width, height = size_wh
    return Surface(PixelFormat.GRAY8, size_wh, (np.broadcast_to(np.zeros((), np.uint8), (height, width)),))
