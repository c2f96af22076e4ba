"""Records: what is written about a frame and its objects, free of the noise of 32-bit floats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Frame, Objects
from sightline.media.events import Scalar
from sightline.media.time import format_time

Values = list[Any]

BOX_STEPS = 100.0
"""Boxes are written to a hundredth of a pixel."""
CONFIDENCE_STEPS = 1000.0
"""Confidences are written to a thousandth."""


class ObjectRecord(msgspec.Struct, omit_defaults=True, gc=False):
    """One object, in the order of its keys; what has its default is not written."""

    label: str
    class_id: int
    confidence: float | None
    box: list[float | None]
    track_id: int = -1
    attributes: dict[str, Scalar] | None = None


class FrameRecord(msgspec.Struct, omit_defaults=True):
    """One frame, in the order of its keys; what has its default is not written."""

    stream: str
    frame: int
    pts_ns: int = -1
    time: str | None = None
    size: tuple[int, int] = (0, 0)
    objects: list[ObjectRecord] = []
    events: list[dict[str, Scalar]] = []


def rounded(values: npt.NDArray[np.floating[Any]], *, steps: float) -> Values:
    """Each value as the double next to a whole number of steps (100: two decimals), in nested lists of its shape."""
    scaled = np.multiply(values, steps, dtype=np.float64)
    np.rint(scaled, out=scaled)
    scaled /= steps
    scaled += 0.0  # no negative zero
    return scaled.tolist()  # type: ignore[no-any-return]


def object_records(objects: Objects) -> list[ObjectRecord]:
    """A record of each object of a table, in its order."""
    columns = (
        objects.labels(),
        objects.class_id.tolist(),
        rounded(objects.confidence, steps=CONFIDENCE_STEPS),
        rounded(objects.xyxy, steps=BOX_STEPS),
        objects.track_id.tolist(),
    )
    if not objects.attributes:
        return list(map(ObjectRecord, *columns))
    return list(map(ObjectRecord, *columns, _attributes(objects)))


def frame_records(batch: Batch) -> list[FrameRecord]:
    """A record of each frame of a batch, in its order, with its objects and events."""
    found: list[ObjectRecord] = object_records(batch.objects) if len(batch.objects) else []
    bounds = frame_bounds(batch)
    records = [
        FrameRecord(
            frame.stream.name,
            frame.index,
            frame.pts_ns,
            _time(frame),
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


def _attributes(objects: Objects) -> list[dict[str, Scalar] | None]:
    columns = {name: _scalars(column) for name, column in objects.attributes.items()}
    rows: list[Mapping[str, Any]] = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return [
        {name: value for name, value in row.items() if value not in ("", None) and value == value} or None
        for row in rows
    ]


def _scalars(column: npt.NDArray[Any]) -> Values:
    """The values of an attribute as Python has them; a 32-bit float becomes the shortest number that means it."""
    if column.dtype.kind == "f" and column.dtype.itemsize < np.dtype(np.float64).itemsize:
        return column.astype(np.str_).astype(np.float64).tolist()  # type: ignore[no-any-return]
    return column.tolist()  # type: ignore[no-any-return]
