"""Rows of the tables that databases and columnar files hold: objects, events and frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from sightline.media import Batch, Objects
from sightline_plugins.sinks.records import BOX_STEPS, CONFIDENCE_STEPS, attributes_of, frame_bounds, rounded

Table = Literal["objects", "events", "frames"]
Row: TypeAlias = tuple[Any, ...]

COLUMNS: dict[Table, tuple[str, ...]] = {
    "objects": ("label", "class_id", "confidence", "x1", "y1", "x2", "y2", "track_id", "attributes"),
    "events": ("kind", "rule", "data"),
    "frames": ("time_source", "width", "height", "objects", "events"),
}
"""The columns of each table, behind those of the frame: `frame`, `pts_ns` and its time of day."""

_encode = msgspec.json.Encoder(
    enc_hook=lambda value: value.item() if isinstance(value, np.generic) else str(value)
).encode


def object_rows(batch: Batch) -> list[list[Row]]:
    """The rows of the objects of each frame: boxes with two decimals, confidences with three, attributes as JSON."""
    rows = list(zip(*_object_columns(batch.objects), strict=True))
    bounds = frame_bounds(batch)
    return [rows[first:end] for first, end in pairwise(bounds)]


def _object_columns(objects: Objects) -> Iterator[Sequence[Any]]:
    yield objects.labels()
    yield objects.class_id.tolist()
    yield rounded(objects.confidence, steps=CONFIDENCE_STEPS)
    yield from rounded(np.ascontiguousarray(objects.xyxy.T), steps=BOX_STEPS)
    yield [None if number < 0 else number for number in objects.track_id.tolist()]
    if objects.attributes:
        yield [None if own is None else _encode(own).decode() for own in attributes_of(objects)]
    else:
        yield [None] * len(objects)


def event_rows(batch: Batch) -> list[list[Row]]:
    """The rows of the events of each frame: kind, rule, and the data of the kind as JSON."""
    rows: list[list[Row]] = [[] for _ in batch.frames]
    for event in batch.events:
        rows[event.frame].append((event.kind, event.rule, _encode(dict(event.data)).decode()))
    return rows


def frame_rows(batch: Batch) -> list[list[Row]]:
    """The row of each frame: whose clock its time is, its size, and how many objects and events it has."""
    bounds = frame_bounds(batch)
    events = [0] * len(batch)
    for event in batch.events:
        events[event.frame] += 1
    return [
        [(None if frame.time_source is None else str(frame.time_source), *frame.size_wh, end - first, count)]
        for frame, (first, end), count in zip(batch.frames, pairwise(bounds), events, strict=True)
    ]


ROWS = {"objects": object_rows, "events": event_rows, "frames": frame_rows}
"""What gives the rows of each table, by frame."""
