"""Home Assistant's MQTT discovery: retained messages that describe what is sent as entities of a device.

Each stream is a device. Its `counts` records give a sensor for each number of a line, a zone and a label, and for each
zone whether anything is inside; its `status` records give the connection of the camera. The fields are those of
https://www.home-assistant.io/integrations/mqtt, `sensor.mqtt` and `binary_sensor.mqtt`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from threading import Lock
from typing import Annotated, Any

from pydantic import StringConstraints

from sightline.graph.described import Described
from sightline.graph.fields import Shape
from sightline.graph.transport import Record

_MOST_ENTITIES = 200
"""Entities of one stream at most."""
_CUMULATIVE = frozenset({"in", "out", "visitors"})
"""Numbers that only grow while the pipeline runs; others go up and down."""
_TopicName = Annotated[str, Shape(r"[^+#\x00]+", "must be a topic without + and #")]


class HomeAssistant(Described):
    """How the streams are announced to Home Assistant."""

    prefix: _TopicName = "homeassistant"
    """The discovery prefix that is set in Home Assistant."""
    name: Annotated[str, StringConstraints(min_length=1)] = "{stream}"
    """Name of each stream's device; `{stream}` and `{pipeline}` stand for the names."""
    birth: _TopicName = "homeassistant/status"
    """Topic at which Home Assistant says that it is `online`; all is announced again then."""


@dataclass(frozen=True, slots=True)
class _Entity:
    """What one value of a record is: the fields of its configuration that are its own."""

    component: str
    key: str
    name: str
    template: str
    more: Mapping[str, object] = field(default_factory=dict)


class Discovery:
    """The discovery messages of one destination, as its records show what there is. From any thread."""

    def __init__(self, options: HomeAssistant, *, pipeline: str, availability_topic: str | None) -> None:
        self._options = options
        self._pipeline = pipeline
        self._availability_topic = availability_topic
        self._lock = Lock()
        self._messages: dict[str, bytes] = {}
        self._known: dict[str, set[str]] = {}
        self.is_full = False
        """Whether entities were left out, because there are too many."""

    def all(self) -> dict[str, bytes]:
        """Return all messages so far by topic."""
        with self._lock:
            return dict(self._messages)

    def learn(self, record: Record) -> dict[str, bytes]:
        """Return the messages, by topic, that must come before the record."""
        new = {}
        known = self._known.setdefault(record.stream, set())
        for entity in _entities(record):
            if entity.key in known:
                continue
            if len(known) >= _MOST_ENTITIES:
                self.is_full = True
                break
            known.add(entity.key)
            new[self._topic(record.stream, entity)] = self._payload(record, entity)
        if new:
            with self._lock:
                self._messages |= new
        return new

    def _topic(self, stream: str, entity: _Entity) -> str:
        node = identifier(f"{self._pipeline}_{stream}")
        return f"{self._options.prefix}/{entity.component}/{node}/{identifier(entity.key)}/config"

    def _payload(self, record: Record, entity: _Entity) -> bytes:
        device = f"sightline_{identifier(f'{self._pipeline}_{record.stream}')}"
        name = self._options.name.replace("{pipeline}", self._pipeline).replace("{stream}", record.stream)
        config: dict[str, object] = {
            "name": entity.name,
            "unique_id": f"{device}_{identifier(entity.key)}",
            "state_topic": record.to,
            "value_template": entity.template,
            **entity.more,
            "device": {
                "identifiers": [device],
                "name": name,
                "manufacturer": "Sightline",
                "model": "Video stream",
                "sw_version": _version(),
            },
            "origin": {"name": "Sightline", "sw_version": _version()},
        }
        if entity.more.get("device_class") == "connectivity":
            config["json_attributes_topic"] = record.to
        if self._availability_topic is not None:
            config["availability_topic"] = self._availability_topic
        return json.dumps(config, ensure_ascii=False).encode()


def _entities(record: Record) -> Iterator[_Entity]:
    if record.kind == "status":
        yield _Entity(
            "binary_sensor",
            "camera",
            "Camera",
            "{{ 'ON' if value_json['state'] == 'live' else 'OFF' }}",
            {"device_class": "connectivity", "entity_category": "diagnostic", "payload_on": "ON", "payload_off": "OFF"},
        )
    elif record.kind == "counts":
        body = _body(record)
        for group in ("lines", "zones"):
            for rule, numbers in _dict(body, group).items():
                yield from _rule_entities(group, rule, _dict({rule: numbers}, rule))
        for label in _dict(body, "objects"):
            template = f"{{{{ value_json['objects'][{_quoted(label)}] | default(0) }}}}"
            yield _Entity("sensor", f"objects_{label}", label, template, _class_of("objects"))


def _rule_entities(group: str, rule: str, numbers: Mapping[str, Any]) -> Iterator[_Entity]:
    for number in numbers:
        value = f"value_json['{group}'][{_quoted(rule)}][{_quoted(number)}]"
        template = f"{{{{ {value} | default(0) }}}}"
        yield _Entity("sensor", f"{group}_{rule}_{number}", f"{rule} {number}", template, _class_of(number))
        if group == "zones" and number == "inside":
            template = f"{{{{ 'ON' if ({value} | default(0)) > 0 else 'OFF' }}}}"
            more = {"device_class": "occupancy", "payload_on": "ON", "payload_off": "OFF"}
            yield _Entity("binary_sensor", f"{group}_{rule}_occupancy", f"{rule} occupancy", template, more)


def _class_of(number: str) -> dict[str, object]:
    return {"state_class": "total_increasing" if number in _CUMULATIVE else "measurement"}


def _body(record: Record) -> Mapping[str, Any]:
    try:
        body = json.loads(record.body)
    except ValueError:  # in another format
        return {}
    return body if isinstance(body, dict) else {}


def _dict(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    return value if isinstance(value, dict) else {}


def _quoted(text: str) -> str:
    """The text as a string in a template, which knows the escapes of JSON, but not its surrogate pairs."""
    return json.dumps(text, ensure_ascii=False)


def identifier(text: str) -> str:
    """Return the text with letters, digits, `_` and `-` only; texts that differ stay different."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", text)
    return plain if plain == text else f"{plain}_{sha256(text.encode()).hexdigest()[:8]}"


@cache
def _version() -> str:
    return version("sightline")
