"""Finding cameras on the network, and asking one for its streams: a responder on the loopback stands in for cameras."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sightline.client import Client as PythonClient
from sightline.server.policy import Policy
from tests.fakes.onvif import FakeOnvifCamera
from tests.integration.server.api.conftest import Steered

URI = "rtsp://127.0.0.1:554/main"


@pytest.fixture
def policy() -> Policy:
    return Policy(networks=("127.0.0.0/8",))


@pytest.fixture
def camera() -> Iterator[FakeOnvifCamera]:
    with FakeOnvifCamera(URI, user="admin", password="hunter2 & <more>") as camera:
        yield camera


def test_cameras_are_found_by_multicast_and_tell_their_streams(steered: Steered, camera: FakeOnvifCamera) -> None:
    with PythonClient(steered.listener.url, token=steered.admin.token) as client:
        (found,) = client.pipeline().discover(interfaces=["lo"], seconds=2)
        (stream,) = client.pipeline().streams_of(found.service, user=camera.user, password=camera.password)

    assert (found.name, found.hardware, found.service) == ("North gate", "T1000", camera.service)
    assert (stream.name, stream.uri, stream.codec, stream.size, stream.fps) == ("Main", URI, "H264", (640, 360), 25.0)
    assert "hunter2" not in steered.audit.read_text()
    assert [one["action"] for one in steered.audited() if "action" in one] == ["discover cameras", "ask camera"]


def test_wrong_credentials_are_named(steered: Steered, camera: FakeOnvifCamera) -> None:
    asked = {"service": camera.service, "user": "admin", "password": "guess"}

    answer = steered.admin.ask("sources/onvif", "POST", asked)

    assert answer.status == 409
    assert "check user and password" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ("http://169.254.169.254/latest/meta-data", "the metadata service of a cloud"),
        ("http://192.0.2.1/onvif", "reserved"),
        ("file:///etc/passwd", "http://"),
        ("https://127.0.0.1/onvif", "http://"),
    ],
)
def test_nothing_outside_the_networks_is_asked(steered: Steered, service: str, words: str) -> None:
    answer = steered.admin.ask("sources/onvif", "POST", {"service": service})

    assert answer.status in (409, 422), answer.body
    assert words in answer.json()["detail"]


def test_only_known_interfaces_are_asked_on(steered: Steered) -> None:
    answer = steered.admin.ask("sources/discover", "POST", {"interfaces": ["nowhere"]})

    assert answer.status == 422
    assert "lo" in answer.json()["detail"]


class TestByDefault:
    """Without --allow-network."""

    @pytest.fixture
    def policy(self) -> Policy:
        return Policy()

    def test_the_loopback_is_not_asked_on(self, steered: Steered, camera: FakeOnvifCamera) -> None:
        answer = steered.admin.ask("sources/discover", "POST", {"seconds": 0.5})

        assert "lo" not in answer.json()["interfaces"]
        assert camera.asked == []
