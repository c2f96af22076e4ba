"""What was found on a frame, as JSON for viewers; made once for all of them, and only when there is one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import time_ns
from typing import Any

import msgspec
import numpy as np

from sightline.media import Batch, Frame, Objects, Overlay
from sightline.media.time import format_time
from sightline_plugins.sinks.records import ObjectRecord, details, object_records

_encode = msgspec.json.Encoder().encode


class FrameFound(msgspec.Struct, omit_defaults=True):
    """One frame. `at` is when it arrived, and `now` when this was made: milliseconds since 1970. `objects` are as in
    JSON lines, boxes in pixels of an image of `size`; `colors` are the numbers of their colours.
    """

    frame: int
    at: float
    now: float
    size: tuple[int, int]
    time: str | None = None
    objects: list[ObjectRecord] = []
    colors: list[int] = []


@dataclass(frozen=True, eq=False)
class SeenFrame:
    """A frame, what was found on it, and when it arrived (nanoseconds since 1970). It holds no other frames."""

    frame: Frame
    objects: Objects
    row: int
    shapes: tuple[Overlay, ...]
    arrived_ns: int

    @classmethod
    def of(cls, batch: Batch, row: int, *, arrived_ns: int) -> SeenFrame:
        """Return what was found on the frame in that row of a batch."""
        shapes = batch.columns.overlays[row] if batch.columns.overlays else ()
        return cls(batch.frames[row], batch.objects, row, shapes, arrived_ns)

    def on_host(self) -> SeenFrame:
        """The same with the image in host memory."""
        frame = dataclasses.replace(self.frame, surface=self.frame.surface.to_host())
        return SeenFrame(frame, self.objects, self.row, self.shapes, self.arrived_ns)

    @cached_property
    def json(self) -> bytes:
        """The frame and its objects, made when it is first asked for."""
        frame, objects = self.frame, self._own
        records: list[ObjectRecord] = []
        if len(objects):
            alone = Batch((frame,), objects)
            more: dict[str, list[Any]] = details(alone, [0, len(objects)], with_embeddings=False)
            records = object_records(objects, more=more)
        found = FrameFound(
            frame.index,
            self.arrived_ns / 1e6,
            time_ns() / 1e6,
            frame.size_wh,
            None if frame.capture_ns is None else format_time(frame.capture_ns),
            records,
            (objects.class_id + 5 * objects.origin.astype(np.int64)).tolist(),
        )
        return _encode(found)

    @cached_property
    def _own(self) -> Objects:
        objects = self.objects.of_frame(self.row)
        return objects.with_columns(frame=np.zeros(len(objects), np.int32))


class Shape(msgspec.Struct, omit_defaults=True):
    """A line or zone of a rule, in pixels of the image, and its running counts."""

    kind: str
    name: str
    points: Sequence[tuple[float, float]]
    counts: dict[str, int] = {}


def shapes_json(shapes: Sequence[Overlay]) -> bytes:
    """Lines and zones as JSON."""
    return _encode([Shape(one.kind, one.name, one.points, dict(one.counts)) for one in shapes])
