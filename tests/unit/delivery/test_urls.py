"""A URL that cannot be read is one mistake of the option, whatever the destination; no part of a password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.devices import Device
from sightline.graph import CheckContext, Outputs
from sightline_plugins import Amqp, Kafka, Mqtt, Nats, Redis
from sightline_plugins.delivery.element import Delivery

CASES = {
    "a port that is none": "{scheme}://user:geheim@127.0.0.1:99999",
    "no host": "{scheme}://user:geheim@:1883",
    "another scheme": "ftp://user:geheim@127.0.0.1",
    "a bracket in a password": "{scheme}://user:gehe[im@127.0.0.1",
}
ELEMENTS: dict[type[Delivery], str] = {Amqp: "amqp", Kafka: "kafka", Mqtt: "mqtt", Nats: "nats", Redis: "redis"}


PAIRS = [(kind, case) for kind in ELEMENTS for case in CASES if (kind, case) != (Kafka, "a bracket in a password")]
"""Kafka reads credentials apart from addresses, and takes any password."""


@pytest.mark.parametrize(("kind", "case"), PAIRS, ids=lambda one: one if isinstance(one, str) else one.name)
def test_a_wrong_url_is_one_mistake(kind: type[Delivery], case: str, tmp_path: Path) -> None:
    element = kind(url=CASES[case].format(scheme=ELEMENTS[kind]))
    problems = list(element.check(CheckContext(device=Device(), streams=("gate",), outputs=Outputs(tmp_path))))

    assert [problem.key for problem in problems] == [("url",)]
    assert "gehe" not in problems[0].message
