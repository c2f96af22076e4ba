"""Discovery messages hold what Home Assistant documents, and their templates read our records."""

from __future__ import annotations

import json
import re
from typing import Any

import jinja2
import pytest

from sightline.graph.transport import Record
from sightline_plugins.delivery.home_assistant import Discovery, HomeAssistant

# The configuration variables as documented at https://www.home-assistant.io/integrations/binary_sensor.mqtt/,
# https://www.home-assistant.io/integrations/sensor.mqtt/ and, for `device`, `origin` and the topic,
# https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery (as of Home Assistant 2025).
_COMMON = """
    availability availability_mode availability_template availability_topic default_entity_id device device_class
    enabled_by_default encoding entity_category expire_after force_update icon
    json_attributes_template json_attributes_topic name object_id origin payload_available payload_not_available
    platform qos state_topic unique_id value_template
"""
_BINARY_SENSOR = "off_delay payload_off payload_on"
_SENSOR = "last_reset_value_template options state_class suggested_display_precision unit_of_measurement"
_DEVICE = """
    configuration_url connections hw_version identifiers manufacturer model model_id name serial_number suggested_area
    sw_version via_device
"""
FIELDS = {
    "binary_sensor": frozenset(f"{_COMMON} {_BINARY_SENSOR}".split()),
    "sensor": frozenset(f"{_COMMON} {_SENSOR}".split()),
}
DEVICE_FIELDS = frozenset(_DEVICE.split())
ORIGIN_FIELDS = frozenset({"name", "support_url", "sw_version"})
TOPIC = re.compile(r"homeassistant/(sensor|binary_sensor)/[a-zA-Z0-9_-]+/[a-zA-Z0-9_-]+/config")
STATE_CLASSES = frozenset({"measurement", "total", "total_increasing"})

COUNTS: dict[str, Any] = {
    "lines": {"gate_in": {"in": 3, "out": 1}},
    "zones": {'pla"za\\ 😀': {"inside": 2, "visitors": 8}},
    "objects": {"person": 4, "traffic light": 0},
}


def record(kind: str, body: dict[str, Any], *, stream: str = "gate") -> Record:
    encoded = json.dumps({"stream": stream, "epoch": 1, "seq": 0, "record": kind, **body}).encode()
    return Record(stream, 1, 0, kind, f"site/{stream}/{kind}", encoded, 0)


def discovery(**options: Any) -> Discovery:
    return Discovery(HomeAssistant(**options), pipeline="site", availability_topic="site/availability")


def configs(*records: Record, **options: Any) -> dict[str, dict[str, Any]]:
    """The configurations by topic."""
    made = discovery(**options)
    for one in records:
        made.learn(one)
    return {topic: json.loads(payload) for topic, payload in made.all().items()}


def shown(config: dict[str, Any], body: dict[str, Any]) -> str:
    """What Home Assistant makes of a record."""
    return (
        jinja2.Environment(undefined=jinja2.StrictUndefined)
        .from_string(config["value_template"])
        .render(value_json=body)
    )


ALL = configs(record("counts", COUNTS), record("status", {"state": "live"}))


@pytest.mark.parametrize("topic", ALL)
def test_message_holds_only_documented_fields(topic: str) -> None:
    component, config = topic.split("/")[1], ALL[topic]
    assert TOPIC.fullmatch(topic)
    assert not config.keys() - FIELDS[component]
    assert not config["device"].keys() - DEVICE_FIELDS
    assert not config["origin"].keys() - ORIGIN_FIELDS


@pytest.mark.parametrize("topic", ALL)
def test_message_holds_what_is_required(topic: str) -> None:
    config = ALL[topic]
    assert config["state_topic"] in {"site/gate/counts", "site/gate/status"}
    assert config["device"]["identifiers"]
    assert config["origin"]["name"]
    assert config["availability_topic"] == "site/availability"
    if topic.split("/")[1] == "sensor":
        assert config["state_class"] in STATE_CLASSES
    else:
        assert config["device_class"] in {"connectivity", "occupancy"}
        assert shown(config, {**COUNTS, "state": "live"}) in {config["payload_on"], config["payload_off"]}


def test_ids_are_unique() -> None:
    several = configs(
        *(
            record("counts", {**COUNTS, "objects": {"a b": 1, "a_b": 1, "a/b": 1}}, stream=name)
            for name in ("x", "x 1")
        ),
        *(record("status", {"state": "live"}, stream=name) for name in ("x_1", "x/1")),
    )
    assert len({config["unique_id"] for config in several.values()}) == len(several) == 2 * 8 + 2


def test_each_number_is_shown() -> None:
    values = {config["name"]: shown(config, COUNTS) for config in configs(record("counts", COUNTS)).values()}
    assert values == {
        "gate_in in": "3",
        "gate_in out": "1",
        'pla"za\\ 😀 inside': "2",
        'pla"za\\ 😀 occupancy': "ON",
        'pla"za\\ 😀 visitors': "8",
        "person": "4",
        "traffic light": "0",
    }


def test_empty_zone_is_not_occupied() -> None:
    body = {"zones": {"plaza": {"inside": 0}}}
    (occupancy,) = [one for one in configs(record("counts", body)).values() if one["name"] == "plaza occupancy"]
    assert shown(occupancy, body) == "OFF"


def test_label_that_a_later_run_has_not_seen_yet_is_0() -> None:
    (person,) = [one for one in configs(record("counts", COUNTS)).values() if one["name"] == "person"]
    assert shown(person, {"objects": {}}) == "0"


@pytest.mark.parametrize(("state", "value"), [("live", "ON"), ("lost", "OFF"), ("connecting", "OFF"), ("ended", "OFF")])
def test_camera_is_connected_while_it_is_live(state: str, value: str) -> None:
    (camera,) = configs(record("status", {"state": state})).values()
    assert camera["device_class"] == "connectivity"
    assert shown(camera, {"state": state}) == value


def test_numbers_that_start_anew_may_be_smaller() -> None:
    classes = {config["name"]: config.get("state_class") for config in configs(record("counts", COUNTS)).values()}
    assert classes["gate_in in"] == "total_increasing"
    assert classes["person"] == "measurement"


def test_entity_is_announced_once_and_a_new_one_when_it_comes() -> None:
    made = discovery()
    assert len(made.learn(record("counts", {"objects": {"car": 1}}))) == 1
    assert made.learn(record("counts", {"objects": {"car": 2}})) == {}
    assert len(made.learn(record("counts", {"objects": {"car": 2, "bus": 1}}))) == 1
    assert len(made.all()) == 2


def test_entities_of_a_stream_are_limited() -> None:
    made = discovery()
    made.learn(record("counts", {"objects": {f"label {number}": 1 for number in range(1000)}}))
    assert made.is_full
    assert len(made.all()) == 200


@pytest.mark.parametrize("body", [b"\x81\xa1", b"[]", b'{"lines": 3, "objects": {"a": 1}}'])
def test_other_bodies_do_no_harm(body: bytes) -> None:
    discovery().learn(Record("gate", 1, 0, "counts", "x", body, 0))


@pytest.mark.parametrize("kind", ["frames", "objects", "tracks", "events"])
def test_other_kinds_make_no_entity(kind: str) -> None:
    assert configs(record(kind, COUNTS)) == {}


def test_device_has_the_name_that_was_chosen() -> None:
    (camera,) = configs(record("status", {"state": "live"}), name="{pipeline}: {stream}").values()
    assert camera["device"]["name"] == "site: gate"


def test_prefix_can_be_another() -> None:
    assert list(configs(record("status", {"state": "live"}), prefix="ha/disc")) == [
        "ha/disc/binary_sensor/site_gate/camera/config"
    ]
