"""The message schemas of NVIDIA DeepStream, as `nvmsgconv` writes them from metadata (payload types 0 and 1).

Unlike there, `@timestamp` is the time of the frame where that is known, and not of the conversion, and boxes are in
pixels of the frame. An object without a track has the id that DeepStream gives it, 2^64 - 1. Where the camera stands
is what `sensors` of the step says; else `location` and `coordinate` are empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from sightline_plugins.delivery.kinds import EventBody, EventObject, ObjectBody
from sightline_plugins.delivery.sensors import SensorData, sensor_of
from sightline_plugins.sinks.records import Attribute, FrameRecord, Numbers

_UNTRACKED = (1 << 64) - 1
_EVENT_TYPES = {"in": "entry", "enter": "entry", "out": "exit", "leave": "exit"}
"""Types of events by our directions; the schema has no type for others."""


class FullSchema:
    """The full schema: a message for each object or event, with its place, sensor and module of analysis."""

    def __init__(self, *, pipeline: str, sensors: Mapping[str, SensorData]) -> None:
        self._pipeline = pipeline
        self._sensors = sensors
        self._version = version("sightline")

    def message(self, body: ObjectBody | EventBody, *, epoch: int, seq: int, time: str) -> dict[str, Any]:
        """The message of a body; `time` is when the record was made."""
        identity = f"sightline:{self._pipeline}/{body.stream}/{epoch}/{seq}"
        event_type, module = "", {"id": self._pipeline, "description": ""}
        found: ObjectBody | EventObject | None
        if isinstance(body, EventBody):
            event_type = _EVENT_TYPES.get(str((body.data or {}).get("direction")), "")
            module = {"id": body.rule, "description": body.kind}
            found, track_id = body.object, (body.data or {}).get("track_id")
        else:
            found, track_id = body, body.track_id
        # An event has an object only where its data holds the number of a track.
        sensor = sensor_of(body.stream, self._sensors)
        about = None if found is None or not isinstance(track_id, int) else _object(found, track_id=track_id)
        return {
            "messageid": str(uuid5(NAMESPACE_URL, identity)),
            "mdsversion": "1.0",
            "@timestamp": body.time or time,
            "place": sensor.as_place(self._pipeline),
            "sensor": sensor.as_sensor(body.stream),
            "analyticsModule": sensor.as_module({**module, "source": "Sightline", "version": self._version}),
            **({} if about is None else {"object": about}),
            "event": {"id": str(uuid5(NAMESPACE_URL, f"{identity}/event")), "type": event_type},
            "videoPath": "",
        }


def _object(found: ObjectBody | EventObject, *, track_id: int) -> dict[str, Any]:
    left, top, right, bottom = (round(value or 0) for value in found.box)
    attributes = {name: _text(value) for name, value in (found.attributes or {}).items()}
    return {
        found.label: {**attributes, "confidence": found.confidence},
        "id": _identity(track_id),
        "speed": 0.0,
        "direction": 0.0,
        "orientation": 0.0,
        "bbox": {"topleftx": left, "toplefty": top, "bottomrightx": right, "bottomrighty": bottom},
        "location": {},
        "coordinate": {},
    }


def minimal_message(record: FrameRecord, *, time: str, sensor: SensorData) -> Mapping[str, Any]:
    """The message of a frame in the minimal schema: a line of text for each object.

    `track|left|top|right|bottom|label`, and for an object with attributes `|#|` these in turn and its confidence.
    """
    objects = []
    for one in record.objects:
        fields = [_identity(one.track_id), *_texts(one.box), one.label]
        if one.attributes:
            fields += ["#", *map(_text, one.attributes.values()), *_texts([one.confidence])]
        objects.append("|".join(field.replace("|", "/") for field in fields))
    return {
        "version": "4.0",
        "id": str(record.frame),
        "@timestamp": record.time or time,
        "sensorId": sensor.id or record.stream,
        "objects": objects,
    }


def _identity(track_id: int) -> str:
    return str(track_id if track_id >= 0 else _UNTRACKED)


def _texts(values: Numbers) -> list[str]:
    """Numbers with six digits, as DeepStream writes them."""
    return [f"{value or 0:g}" for value in values]


def _text(value: Attribute) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)
