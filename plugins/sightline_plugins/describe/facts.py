"""What is known of an event or a frame, as JSON values for the model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sightline.media import Altered, Event, Frame, Objects
from sightline.media.frame import NANOSECONDS
from sightline.media.time import format_time
from sightline_plugins.sinks.records import attributes_of


class Moment(NamedTuple):
    """What is kept of a frame without its pixels, which would stay in memory."""

    stream: str
    frame: int
    pts_ns: int
    capture_ns: int | None
    size_wh: tuple[int, int]
    altered: Altered

    @classmethod
    def of(cls, frame: Frame) -> Moment:
        """Return that of a frame."""
        return cls(frame.stream.name, frame.index, frame.pts_ns, frame.capture_ns, frame.size_wh, frame.altered)

    def facts(self) -> dict[str, Any]:
        """Return the stream, the time, and the size of the frame, as JSON values."""
        facts: dict[str, Any] = {"stream": self.stream, "seconds": round(self.pts_ns / NANOSECONDS, 3)}
        if self.capture_ns is not None:
            facts["time"] = format_time(self.capture_ns)
        facts["frame_size"] = list(self.size_wh)
        return facts


def facts_of_event(frame: Frame, event: Event, objects: Objects, row: int | None) -> dict[str, Any]:
    """Return a frame's facts with those of an event, and of the object that it is about (`row` of `objects`)."""
    facts = Moment.of(frame).facts()
    facts["event"] = {"kind": event.kind, "rule": event.rule, **dict(event.data)}
    if row is not None:
        one = objects.select(np.array([row]))
        facts["object"] = {
            "label": one.labels()[0],
            "confidence": round(float(one.confidence[0]), 2),
            "box": [round(value) for value in one.xyxy[0].tolist()],
        }
        attributes = attributes_of(one)[0] if one.attributes else None
        if attributes:
            facts["object"]["attributes"] = dict(attributes)
    return facts


def row_of(objects: Objects, event: Event) -> int | None:
    """Return the row of the object that an event is about; None where it is not on the frame, or there is none."""
    track = event.data.get("track_id", -1)
    if not isinstance(track, int) or track < 0:
        return None
    rows = np.flatnonzero((objects.frame == event.frame) & (objects.track_id == track))
    return int(rows[0]) if len(rows) else None
