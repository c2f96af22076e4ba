"""How records are encoded."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
import uuid
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pytest

from sightline.graph import CheckContext, Outputs
from sightline.graph.messages import Message, MessageKind, StreamState
from sightline.media import Batch, Event
from sightline.media.frame import TimeSource
from sightline.testing import MemoryOutbox
from sightline.testing.run import site_for
from sightline_plugins.delivery.images import ImageBody
from sightline_plugins.delivery.kinds import (
    CountsBody,
    EventBody,
    EventObject,
    ObjectBody,
    Sighting,
    StatusBody,
    TrackBody,
)
from sightline_plugins.delivery.protobuf import messages
from sightline_plugins.sinks.records import FrameRecord
from tests.unit.delivery.proto_file import record_class
from tests.unit.delivery.sending import Post, bodies, operator, sent, walk
from tests.unit.sinks.findings import everything

ALL = ("frames", "objects", "events", "tracks", "counts")


def problems(**options: Any) -> list[str]:
    post = Post(**options)
    context = CheckContext(site_for("post", None).device, ("gate",), Outputs())
    return [problem.message for problem in post.check(context)]


def scene() -> list[Batch]:
    """Frames with every kind of result, with an event of every kind of value."""
    data: dict[str, Any] = {"track_id": 5, "direction": "in", "share": np.float32(0.5), "is_new": True, "below": -3}
    findings = everything().with_events([Event("line", "gate_in", 1, data, "lines-1")])
    return [*walk(), dataclasses.replace(findings)]


def plain(value: Any) -> Any:
    """A message of protobuf as our JSON has it."""
    if not hasattr(value, "ListFields"):
        return value
    if value.DESCRIPTOR.name == "Value":
        return plain(getattr(value, value.WhichOneof("value")))
    if [field.name for field in value.DESCRIPTOR.fields] == ["values"]:
        values = value.values
        return dict(values) if hasattr(values, "keys") else list(values)
    found: dict[str, Any] = {}
    for field, item in value.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found[field.name] = {key: plain(one) for key, one in item.items()}
        else:
            found[field.name] = [plain(one) for one in item] if field.is_repeated else plain(item)
    return found


def without_nothing(value: Any) -> Any:
    """JSON without what protobuf does not distinguish from nothing: null, zero, an empty text, list or mapping.

    A null among numbers is not a number.
    """
    if isinstance(value, dict):
        kept = {key: without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, 0, "", [], {}, False)}
    if isinstance(value, list):
        return [-1.5 if item is None or item != item else without_nothing(item) for item in value]
    return value


@pytest.mark.parametrize("send", ALL)
def test_the_real_protobuf_package_reads_what_our_json_says(send: str) -> None:
    expected = bodies(scene(), send=send, image="crop" if send in ("events", "tracks") else None)
    records = sent(scene(), send=send, image="crop" if send in ("events", "tracks") else None, format="protobuf")

    assert len(records) == len(expected) > 0
    for record, body in zip(records, expected, strict=True):
        read = plain(record_class().FromString(record.body))
        inner = read.pop(send)
        if send == "frames":
            for event in inner.get("events", []):
                event.update(event.pop("data"))
        if "image" in inner:
            inner["image"]["data"] = base64.b64encode(inner["image"]["data"]).decode()
        assert without_nothing({**read, **inner}) == without_nothing(body)


def test_a_state_in_protobuf_is_what_our_json_says() -> None:
    found = []
    for name in ("json", "protobuf"):
        outbox = MemoryOutbox()
        step = operator(outbox, send=["status"], format=name)
        outbox.tell(Message(MessageKind.STREAM_LOST, "it broke off", stream="gate", state=StreamState.LOST))
        step.close()
        found.append(outbox.records[0].body)

    status = plain(record_class().FromString(found[1]))["status"]
    body = json.loads(found[0])
    assert {**status, "time": ""} == {**{key: body[key] for key in status}, "time": ""}


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("Frame", FrameRecord),
        ("Object", ObjectBody),
        ("Object", EventObject),
        ("Track", TrackBody),
        ("Sighting", Sighting),
        ("Event", EventBody),
        ("Counts", CountsBody),
        ("Status", StatusBody),
        ("Image", ImageBody),
    ],
)
def test_every_key_has_a_field_in_protobuf(message: str, body: type[msgspec.Struct]) -> None:
    assert {*body.__struct_fields__} - {"stream", "embedding"} <= messages()[message].keys()


def test_protobuf_tells_an_unknown_value_from_zero() -> None:
    frame = record_class().FromString(sent(walk(1), format="protobuf")[0].body).frames

    assert frame.HasField("pts_ns")
    assert frame.objects[0].HasField("track_id")
    assert not frame.objects[0].HasField("parent")


@pytest.mark.parametrize("send", ALL)
def test_msgpack_holds_what_our_json_holds(send: str) -> None:
    options: dict[str, Any] = {"send": send, "image": "crop" if send in ("events", "tracks") else None}
    expected = bodies(scene(), **options)
    records = sent(scene(), **options, format="msgpack")

    assert len(records) == len(expected) > 0
    for record, body in zip(records, expected, strict=True):
        read = msgspec.msgpack.decode(record.body)
        assert list(read) == list(body)
        assert json.loads(msgspec.json.encode(read)) == body


def test_msgpack_counts_more_keys_than_fit_into_its_first_byte() -> None:
    batch = everything(frames=1)
    frame = dataclasses.replace(batch.frames[0], capture_ns=1, time_source=TimeSource.ARRIVAL)

    records = sent([dataclasses.replace(batch, frames=(frame,))], send="objects", format="msgpack")
    assert max(len(msgspec.msgpack.decode(record.body)) for record in records) == 17


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("json", "application/json"),
        ("msgpack", "application/msgpack"),
        ("protobuf", "application/protobuf"),
        ("deepstream_minimal", "application/json"),
    ],
)
def test_records_name_their_content_type(name: str, content_type: str) -> None:
    assert sent(walk(1), format=name)[0].content_type == content_type


def test_a_cloud_event_is_what_the_specification_asks_for() -> None:
    record = sent(walk(), send="events", envelope="cloudevents")[0]
    event = json.loads(record.body)

    assert record.content_type == "application/cloudevents+json"
    assert {**event, "time": "", "data": {}} == {
        "specversion": "1.0",
        "id": "gate/1/0",
        "source": "/sightline/pipeline/gate",
        "type": "io.sightline.events.v1",
        "time": "",
        "datacontenttype": "application/json",
        "data": {},
    }
    assert datetime.fromisoformat(event["time"]).tzinfo is not None
    assert event["data"] == bodies(walk(), send="events")[0]


def test_a_cloud_event_of_binary_data_holds_it_as_base64() -> None:
    event = json.loads(sent(walk(1), format="msgpack", envelope="cloudevents")[0].body)

    assert event["datacontenttype"] == "application/msgpack"
    assert msgspec.msgpack.decode(base64.b64decode(event["data_base64"]))["record"] == "frames"


def test_the_source_of_a_cloud_event_is_a_uri_whatever_the_stream_is_called() -> None:
    batches = walk(1, stream='a b/"ü')

    event = json.loads(sent(batches, envelope="cloudevents")[0].body)
    assert event["source"] == "/sightline/pipeline/a%20b%2F%22%C3%BC"
    assert event["data"]["stream"] == 'a b/"ü'


def test_the_time_of_a_cloud_event_is_that_of_the_frame() -> None:
    batch = walk(1)[0]
    frame = dataclasses.replace(batch.frames[0], capture_ns=1_000_000_000)

    for send in ("frames", "tracks"):
        record = sent([dataclasses.replace(batch, frames=(frame,))], send=send, envelope="cloudevents")[0]
        assert json.loads(record.body)["time"] == "1970-01-01T00:00:01.000Z"


def test_the_full_schema_of_deepstream_describes_an_event() -> None:
    message = json.loads(sent(walk(), send="events", format="deepstream")[0].body)

    assert list(message) == [
        "messageid",
        "mdsversion",
        "@timestamp",
        "place",
        "sensor",
        "analyticsModule",
        "object",
        "event",
        "videoPath",
    ]
    assert message["object"] == {
        "person": {"color": "red", "confidence": 0.9},
        "id": "1",
        "speed": 0.0,
        "direction": 0.0,
        "orientation": 0.0,
        "bbox": {"topleftx": 7, "toplefty": 10, "bottomrightx": 17, "bottomrighty": 40},
        "location": {},
        "coordinate": {},
    }
    assert message["event"]["type"] == "entry"
    assert message["sensor"]["id"] == "gate"
    assert message["analyticsModule"]["id"] == "gate_in"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message["@timestamp"])


SENSORS = {
    "ga*": {
        "id": "CAM_1",
        "description": "North gate",
        "location": [45.29, -75.83, 48.1],
        "coordinate": [5.2, 10.1, 11.2],
        "place": {"id": "1", "name": "Yard", "type": "garage", "location": [30.32, -40.55, 100]},
        "analytics": {"id": "COUNT", "source": "OpenALR", "version": "2.0"},
    }
}


def test_messages_of_deepstream_name_the_sensor_and_the_place_of_a_stream() -> None:
    message = json.loads(sent(walk(), send="objects", format="deepstream", sensors=SENSORS)[0].body)

    assert message["sensor"] == {
        "id": "CAM_1",
        "type": "Camera",
        "description": "North gate",
        "location": {"lat": 45.29, "lon": -75.83, "alt": 48.1},
        "coordinate": {"x": 5.2, "y": 10.1, "z": 11.2},
    }
    assert (message["place"]["name"], message["place"]["location"]["alt"]) == ("Yard", 100)
    assert message["analyticsModule"] == {"id": "COUNT", "description": "", "source": "OpenALR", "version": "2.0"}


@pytest.mark.parametrize(("glob", "sensor"), [("gate", "CAM_1"), ("yard", "gate")])
def test_the_minimal_schema_has_the_id_of_the_sensor(glob: str, sensor: str) -> None:
    sensors = {glob: {"id": "CAM_1"}}

    message = json.loads(sent(walk(), format="deepstream_minimal", sensors=sensors)[0].body)

    assert message["sensorId"] == sensor


def test_a_record_of_deepstream_that_comes_twice_has_the_same_id() -> None:
    first, again = (json.loads(sent(walk(), send="objects", format="deepstream")[0].body) for _ in range(2))
    other = json.loads(sent(walk(), send="objects", format="deepstream")[1].body)

    assert uuid.UUID(first["messageid"]).version == 5
    assert first["messageid"] == again["messageid"] != other["messageid"]


def test_an_event_without_an_object_has_none_in_deepstream() -> None:
    message = json.loads(sent(walk(), send="events", format="deepstream")[1].body)

    assert "object" not in message
    assert message["event"]["type"] == "exit"


def test_the_minimal_schema_of_deepstream_has_a_line_for_each_object() -> None:
    message = json.loads(sent(walk(), format="deepstream_minimal")[0].body)

    assert message["objects"] == ["1|4|10|14|40|person|#|red|0.9", "2|30|20|60|40|car|#|blue|0.6"]
    assert (message["version"], message["id"], message["sensorId"]) == ("4.0", "0", "gate")


def test_an_object_without_track_and_attributes_is_as_deepstream_writes_it() -> None:
    batch = walk(1)[0]
    objects = dataclasses.replace(batch.objects, track_id=np.array([-1]), extra={})

    message = json.loads(sent([batch.with_objects(objects)], format="deepstream_minimal")[0].body)
    assert message["objects"] == [f"{2**64 - 1}|4|10|14|40|person"]


def test_a_separator_in_a_label_does_not_make_another_field() -> None:
    batch = walk(1)[0]
    objects = dataclasses.replace(batch.objects, extra={"text": np.array(["a|b"])})

    message = json.loads(sent([batch.with_objects(objects)], format="deepstream_minimal")[0].body)
    assert message["objects"] == ["1|4|10|14|40|person|#|a/b|0.9"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"format": "deepstream", "send": ["events", "tracks", "counts"]},
            "the format deepstream has no message for tracks and counts: it can hold objects and events",
        ),
        (
            {"format": "deepstream_minimal", "send": "objects"},
            "the format deepstream_minimal has no message for objects: it can hold frames",
        ),
        (
            {"format": "deepstream", "send": "events", "image": "crop"},
            "the format deepstream has no place for images: leave image out",
        ),
        ({"sensors": {"gate": {"id": "CAM"}}}, "sensors are part of the formats deepstream and deepstream_minimal"),
    ],
)
def test_what_a_format_cannot_express_is_one_clear_error(options: dict[str, Any], message: str) -> None:
    assert problems(**options) == [message]


def test_an_object_that_is_not_a_number_is_null_in_json() -> None:
    batch = walk(1)[0]
    objects = dataclasses.replace(batch.objects, confidence=np.array([math.nan], np.float32))

    assert bodies([batch.with_objects(objects)], send="objects")[0]["confidence"] is None
