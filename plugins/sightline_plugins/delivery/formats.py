"""How records are encoded: formats, and the envelope around them.

Our own formats (`json`, `msgpack`, `protobuf`) put `stream`, `epoch`, `seq` and `record` before the keys of the kind.
That head is spliced into the encoded body, which begins with the stream, instead of building every body twice.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal
from urllib.parse import quote

import msgspec
import numpy as np

from sightline.media.time import format_time
from sightline_plugins.delivery import deepstream, protobuf
from sightline_plugins.delivery.kinds import Body, Draft, EventBody, Kind, ObjectBody, TrackBody
from sightline_plugins.delivery.sensors import SensorData, sensor_of
from sightline_plugins.sinks.records import FrameRecord

Format = Literal["json", "msgpack", "protobuf", "deepstream", "deepstream_minimal"]
Envelope = Literal["none", "cloudevents"]

_EXPRESSED: Mapping[Format, tuple[Kind, ...]] = {
    "deepstream": ("objects", "events"),
    "deepstream_minimal": ("frames",),
}
"""The kinds that a format can express, where it cannot express all."""
_SCHEMA_VERSION = "v1"
NO_SENSORS: Mapping[str, SensorData] = MappingProxyType({})


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """The place of a record in the order of its stream, and when it was made."""

    epoch: int
    seq: int
    now_ns: int


class Encoder(ABC):
    """Encodes bodies of kinds."""

    content_type: ClassVar[str]

    @abstractmethod
    def encode(self, made: Draft, stamp: Stamp) -> bytes:
        """Encode a body with its place in the order of the stream's records."""


def encoder(
    name: Format, *, envelope: Envelope, pipeline: str, sensors: Mapping[str, SensorData] = NO_SENSORS
) -> Encoder:
    """Make the encoder of a format, perhaps with an envelope around it; `sensors` are for the schemas of DeepStream."""
    own: Encoder
    match name:
        case "json":
            own = JsonEncoder()
        case "msgpack":
            own = MsgpackEncoder()
        case "protobuf":
            own = ProtobufEncoder()
        case "deepstream" | "deepstream_minimal":
            own = DeepStreamEncoder(pipeline=pipeline, sensors=sensors)
    return CloudEventsEncoder(own, pipeline=pipeline) if envelope == "cloudevents" else own


def not_expressed(name: Format, kinds: Sequence[Kind]) -> str | None:
    """Say which of the kinds a format cannot express; None when it can express all."""
    expressed = _EXPRESSED.get(name, kinds)
    lacking = [kind for kind in kinds if kind not in expressed]
    if not lacking:
        return None
    return f"the format {name} has no message for {' and '.join(lacking)}: it can hold {' and '.join(expressed)}"


class JsonEncoder(Encoder):
    """Our JSON."""

    content_type = "application/json"

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(enc_hook=_plain).encode
        self._heads: dict[str, bytes] = {}

    def encode(self, made: Draft, stamp: Stamp) -> bytes:
        """Encode a body as JSON."""
        stream = made.body.stream
        head = self._heads.get(stream)
        if head is None:
            head = self._heads[stream] = b'{"stream":%b,' % self._encode(stream)
        rest = self._encode(made.body)[len(head) :]
        return b'%b"epoch":%d,"seq":%d,"record":"%b",%b' % (head, stamp.epoch, stamp.seq, made.kind.encode(), rest)


class MsgpackEncoder(Encoder):
    """MessagePack with the keys and values of our JSON; images are binary."""

    content_type = "application/msgpack"

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode

    def encode(self, made: Draft, stamp: Stamp) -> bytes:
        """Encode a body as MessagePack."""
        body = self._encode(made.body)
        # A map begins with 1000nnnn, or with 0xde and the number of its keys in two bytes.
        count, start = (body[0] & 0x0F, 1) if body[0] != 0xDE else (int.from_bytes(body[1:3], "big"), 3)
        stream = self._encode("stream") + self._encode(made.body.stream)
        head = {"epoch": stamp.epoch, "seq": stamp.seq, "record": made.kind}
        size = bytes([0x80 | count + len(head)]) if count + len(head) < 16 else b"\xde" + _two_bytes(count + len(head))
        return b"".join((size, stream, self._encode(head)[1:], body[start + len(stream) :]))


class ProtobufEncoder(Encoder):
    """Protocol Buffers: a `Record` of `sightline.proto`."""

    content_type = "application/protobuf"

    def encode(self, made: Draft, stamp: Stamp) -> bytes:
        """Encode a body as a Record."""
        values = msgspec.to_builtins(made.body, builtin_types=(bytes,), enc_hook=_plain)
        stream = values.pop("stream")
        if isinstance(made.body, FrameRecord) and "events" in values:
            values["events"] = [
                {"kind": event.pop("kind"), "rule": event.pop("rule"), "data": event} for event in values["events"]
            ]
        head = {"stream": stream, "epoch": stamp.epoch, "seq": stamp.seq, "record": made.kind}
        return protobuf.write("Record", {**head, made.kind: values})


class DeepStreamEncoder(Encoder):
    """The full and the minimal schema of DeepStream."""

    content_type = "application/json"

    def __init__(self, *, pipeline: str, sensors: Mapping[str, SensorData]) -> None:
        self._sensors = sensors
        self._full = deepstream.FullSchema(pipeline=pipeline, sensors=sensors)

    def encode(self, made: Draft, stamp: Stamp) -> bytes:
        """Encode a body in the schema that expresses its kind."""
        time = format_time(stamp.now_ns)
        if isinstance(made.body, FrameRecord):
            sensor = sensor_of(made.body.stream, self._sensors)
            return msgspec.json.encode(deepstream.minimal_message(made.body, time=time, sensor=sensor), enc_hook=_plain)
        if not isinstance(made.body, ObjectBody | EventBody):
            raise ValueError(f"DeepStream's schemas have no message for {made.kind}")
        message = self._full.message(made.body, epoch=stamp.epoch, seq=stamp.seq, time=time)
        return msgspec.json.encode(message, enc_hook=_plain)


class CloudEventsEncoder(Encoder):
    """CloudEvents 1.0 in structured JSON mode around another format."""

    content_type = "application/cloudevents+json"

    def __init__(self, inner: Encoder, *, pipeline: str) -> None:
        self._inner = inner
        self._pipeline = pipeline
        self._is_json = inner.content_type == "application/json"

    def encode(self, made: Draft, stamp: Stamp) -> bytes:
        """Encode a body, and put it into an event."""
        data = self._inner.encode(made, stamp)
        stream = made.body.stream
        event = {
            "specversion": "1.0",
            "id": f"{stream}/{stamp.epoch}/{stamp.seq}",
            "source": f"/sightline/{quote(self._pipeline, safe='')}/{quote(stream, safe='')}",
            "type": f"io.sightline.{made.kind}.{_SCHEMA_VERSION}",
            "time": _time_of(made.body) or format_time(stamp.now_ns),
            "datacontenttype": self._inner.content_type,
        }
        head = msgspec.json.encode(event)[:-1]
        if self._is_json:
            return b'%b,"data":%b}' % (head, data)
        return b'%b,"data_base64":"%b"}' % (head, base64.b64encode(data))


def _time_of(body: Body) -> str | None:
    """The time of day of what a record is about, where it is known."""
    return (body.last.time if isinstance(body, TrackBody) else body.time) or None


def _two_bytes(number: int) -> bytes:
    return number.to_bytes(2, "big")


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"an event holds {value!r}: only text, numbers, true and false can be written")
