"""Records: what is written about a frame and its objects, free of the noise of 32-bit floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Frame, Objects
from sightline.media.events import Scalar
from sightline.media.time import format_time
from sightline_plugins.sinks.details import MaskRecord, details
from sightline_plugins.sinks.numbers import BOX_STEPS, CONFIDENCE_STEPS, Values, rounded

Attribute = Scalar | tuple[str, ...]
Numbers = list[float | None]
"""Numbers as they are read: null stands for what is none."""

_EMPTY = ("", None, ())


class ObjectRecord(msgspec.Struct, omit_defaults=True, gc=False):
    """One object, in the order of its keys; what has its default is not written."""

    label: str
    class_id: int
    confidence: float | None
    box: Numbers
    track_id: int = -1
    attributes: dict[str, Attribute] | None = None
    parent: int = -1
    keypoints: list[Numbers] | None = None
    corners: list[Numbers] | None = None
    mask: MaskRecord | None = None
    embedding: list[float] | None = None


class FrameRecord(msgspec.Struct, omit_defaults=True):
    """One frame, in the order of its keys; what has its default is not written."""

    stream: str
    frame: int
    pts_ns: int = -1
    time: str | None = None
    time_source: str | None = None
    size: tuple[int, int] = (0, 0)
    objects: list[ObjectRecord] = []
    events: list[dict[str, Scalar]] = []


def object_records(objects: Objects, *, more: Mapping[str, Values] | None = None) -> list[ObjectRecord]:
    """A record of each object of a table, in its order; `more` holds values of other keys, by key (see `details`)."""
    columns: tuple[Sequence[Any], ...] = (
        objects.labels(),
        objects.class_id.tolist(),
        rounded(objects.confidence, steps=CONFIDENCE_STEPS),
        rounded(objects.xyxy, steps=BOX_STEPS),
        objects.track_id.tolist(),
    )
    if objects.attributes:
        columns = (*columns, attributes_of(objects))
    records = list(map(ObjectRecord, *columns))
    for name, values in more.items() if more else ():
        for record, value in zip(records, values, strict=True):
            setattr(record, name, value)
    return records


def frame_records(batch: Batch, *, embeddings: bool = False) -> list[FrameRecord]:
    """A record of each frame of a batch, in its order, with its objects and events; with embeddings when asked for."""
    bounds = frame_bounds(batch)
    found: list[ObjectRecord] = []
    if len(batch.objects):
        found = object_records(batch.objects, more=details(batch, bounds, with_embeddings=embeddings))
    records = [
        FrameRecord(
            frame.stream.name,
            frame.index,
            frame.pts_ns,
            _time(frame),
            None if frame.capture_ns is None else frame.time_source,
            frame.size_wh,
            found[bounds[row] : bounds[row + 1]],
        )
        for row, frame in enumerate(batch.frames)
    ]
    for event in batch.events:
        record = records[event.frame]
        record.events = [*record.events, {"kind": event.kind, "rule": event.rule, **event.data}]
    return records


def frame_bounds(batch: Batch) -> list[int]:
    """The first object row of each frame of a batch, and at the end the number of objects."""
    if len(batch) == 1:
        return [0, len(batch.objects)]
    return np.searchsorted(batch.objects.frame, np.arange(len(batch) + 1)).tolist()  # type: ignore[no-any-return]


def _time(frame: Frame) -> str | None:
    return None if frame.capture_ns is None else format_time(frame.capture_ns)


def attributes_of(objects: Objects) -> list[dict[str, Attribute] | None]:
    """The attributes of each object by name, without those that are empty; None without any."""
    rows: list[dict[str, Attribute]] = [{} for _ in range(len(objects))]
    for name, column in objects.attributes.items():
        for row, value in zip(rows, _values(column), strict=True):
            if value == value and value not in _EMPTY:
                row[name] = value
    return [row or None for row in rows]


def _values(column: npt.NDArray[Any]) -> Values:
    """The values of an attribute as Python has them; a 32-bit float becomes the shortest number that means it."""
    if column.dtype.kind == "f" and column.dtype.itemsize < np.dtype(np.float64).itemsize:
        return column.astype(np.str_).astype(np.float64).tolist()  # type: ignore[no-any-return]
    return column.tolist()  # type: ignore[no-any-return]
