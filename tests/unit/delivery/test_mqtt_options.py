"""Options of `mqtt`: what is right, and one clear problem for each mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.errors import ConfigurationError, MissingExtra
from sightline.graph import CheckContext, Outputs, Site
from sightline_plugins.delivery.mqtt import Mqtt


def problems(url: str = "mqtt://127.0.0.1", **options: Any) -> list[str]:
    context = CheckContext(device=Device(), streams=("gate",), outputs=Outputs(Path("out")))
    return [problem.message for problem in Mqtt(url=url, **options).check(context)]


def topic(stream: str, *, template: str = "{stream}") -> str:
    return Mqtt(url="mqtt://127.0.0.1", topic=template).address(stream, "events", pipeline="yard")


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("mqtt://127.0.0.1", {}),
        ("mqtt://user:p%2Fss@127.0.0.1:1884/", {"qos": 2, "version": "3.1.1", "retain": "events"}),
        ("mqtts://127.0.0.1", {"insecure": True, "version": 5}),
        ("mqtt://127.0.0.1", {"send": "counts", "home_assistant": True}),
        ("mqtt://127.0.0.1", {"send": "status", "home_assistant": {"prefix": "ha", "name": "Camera {stream}"}}),
        ("mqtt://127.0.0.1", {"topic": "$aws/rules/{stream}", "will": None}),
    ],
)
def test_right_options_have_no_problem(url: str, options: dict[str, Any]) -> None:
    assert problems(url, **options) == []


@pytest.mark.parametrize(
    ("url", "options", "problem"),
    [
        ("http://127.0.0.1", {}, "`mqtt` takes a URL that begins with mqtt://, mqtts://, not http://"),
        ("mqtt://127.0.0.1/site", {}, "the topic belongs into `topic`"),
        ("mqtt://127.0.0.1", {"topic": "site/{strem}"}, "{strem} stands for nothing here"),
        ("mqtt://127.0.0.1", {"topic": "site/+/{stream}"}, "holds no +, #"),
        ("mqtt://127.0.0.1", {"topic": "site/\n/{stream}"}, "control characters"),
        ("mqtt://127.0.0.1", {"will": "site/{stream}"}, "{stream} stands for nothing here; there is {pipeline}"),
        ("mqtt://127.0.0.1", {"insecure": True}, "insecure is for TLS: write mqtts://"),
        ("mqtt://127.0.0.1", {"home_assistant": True}, "put one or both into `send`"),
        ("mqtt://127.0.0.1", {"home_assistant": True, "send": "counts", "topic": "{stream}"}, "put {kind} into it"),
        ("mqtt://127.0.0.1", {"home_assistant": True, "send": "counts", "format": "msgpack"}, "reads JSON"),
    ],
)
def test_mistake_is_one_problem(url: str, options: dict[str, Any], problem: str) -> None:
    (found,) = problems(url, **options)
    assert problem in found


@pytest.mark.parametrize(
    "options",
    [
        {"qos": 3},
        {"version": "3.1"},
        {"topic": ""},
        {"client_id": ""},
        {"retain": "images"},
        {"key_file": "key.pem"},
        {"insecure": True, "ca_file": "ca.pem"},
        {"home_assistant": {"prefix": "a/#"}},
        {"home_assistant": {"nam": "x"}},
    ],
)
def test_value_that_is_none_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Mqtt(url="mqtt://127.0.0.1", **options)


def test_missing_client_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mqtt_transport", "mqtt_client"):
        monkeypatch.delitem(sys.modules, f"sightline_plugins.delivery.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    with pytest.raises(MissingExtra, match=r"pip install 'sightline\[mqtt\]'"):
        Mqtt(url="mqtt://127.0.0.1").transport(Site(Device()))


def test_element_alone_does_not_load_the_client_library() -> None:
    program = "import sys, sightline_plugins.delivery.mqtt; sys.exit('paho' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("stream", "level"),
    [("a/b", "a_b"), ("a+#/b", "a_b"), ("$share", "_share"), ("a$", "a$"), ("\x00", "_"), ("é 😀", "é 😀"), ("", "_")],
)
def test_name_is_one_level_of_a_topic(stream: str, level: str) -> None:
    assert topic(stream) == level
    assert topic(stream, template="x/{stream}/y") == f"x/{level}/y"


def client_id(pipeline: str = "yard", *, root: str = "out") -> str:
    site = Site(Device(), element_id="mqtt-1", pipeline=pipeline, outputs=Outputs(Path(root)))
    return Mqtt(url="mqtt://127.0.0.1").client_id_at(site)


def test_client_id_is_the_same_in_each_run() -> None:
    assert client_id() == client_id()
    assert client_id().startswith("sightline-yard-mqtt-1-")


def test_client_ids_of_pipelines_differ() -> None:
    assert len({client_id(), client_id("入口"), client_id("出口"), client_id(root="elsewhere")}) == 4


def test_password_is_not_shown() -> None:
    element = Mqtt(url="mqtt://user:hidden-word@127.0.0.1")
    assert "hidden-word" not in f"{element!r} {element.destination()}"
