"""Trying sources before they are added: what they give, why they give nothing, and who may ask for what."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import av
import cv2
import numpy as np
import pytest

from sightline.server.policy import Policy
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.server.api.conftest import GATE, Answer, Steered
from tests.integration.server.conftest import wait_for

SOUND = "sound.mkv"


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return Policy(networks=("127.0.0.0/8",), files=(tmp_path,))


@pytest.fixture
def camera() -> Iterator[FakeCamera]:
    with FakeCamera(load_clip(str(GATE)), credentials="admin:hunter2") as camera:
        yield camera


def tried(steered: Steered, source: object, query: str = "") -> Any:
    answer = steered.admin.ask(f"sources/test{query}", "POST", source)
    assert answer.status == 200, answer.body
    assert b"hunter2" not in answer.body
    return answer.json()


def test_an_address_is_answered_with_an_image_and_facts(steered: Steered, camera: FakeCamera) -> None:
    before = steered.pipeline.configuration.etag

    found = tried(steered, camera.login_url)

    jpeg = np.frombuffer(base64.b64decode(found["image"]), np.uint8)
    image = cv2.imdecode(jpeg, cv2.IMREAD_COLOR)
    assert image is not None
    with av.open(str(GATE)) as container:
        first = next(container.decode(video=0))
    height, width = image.shape[:2]
    assert [width, height] == found["size"] == [first.width, first.height]
    assert abs(image.astype(int) - first.to_ndarray(format="bgr24").astype(int)).mean() < 12
    assert found["codec"] == "h264"
    assert found["audio"] is None
    assert 8 < found["fps"] < 40
    assert found["reason"] is None
    assert steered.pipeline.configuration.etag == before


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (("hunter2", "guess"), "credentials", "check user and password"),
        (("/cam", "/none"), "refused", "check the path"),
    ],
)
def test_the_reason_is_named_with_what_to_do(
    steered: Steered, camera: FakeCamera, change: tuple[str, str], reason: str, words: str
) -> None:
    found = tried(steered, camera.login_url.replace(*change))

    assert (found["image"], found["reason"]) == (None, reason)
    assert words in found["message"]


def test_a_camera_that_is_off_is_not_reached(steered: Steered, camera: FakeCamera) -> None:
    camera.kill()

    found = tried(steered, camera.login_url)

    assert found["reason"] == "unreachable"
    assert "refused" in found["message"]


def test_the_password_of_the_stream_to_replace_is_known(steered: Steered, camera: FakeCamera) -> None:
    assert steered.admin.ask("streams/cam", "PUT", camera.login_url).status == 200
    shown = steered.admin.ask("streams/cam").json()["source"]
    assert "***" in shown["uri"]

    assert tried(steered, shown, "?stream=cam")["image"]
    assert tried(steered, shown)["reason"] == "credentials"


def test_sound_is_named(tmp_path: Path, steered: Steered) -> None:
    with av.open(str(tmp_path / SOUND), "w") as container:
        video, audio = container.add_stream("mpeg4", rate=10), container.add_stream("aac", rate=8000, layout="mono")
        video.width, video.height = 64, 48
        for _ in range(4):
            container.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8))))
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        sound.sample_rate = 8000
        container.mux([*audio.encode(sound), *audio.encode(None), *video.encode(None)])

    found = tried(steered, str(tmp_path / SOUND))

    assert found["image"]
    assert found["audio"] == "aac"


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ("/etc/passwd", "--allow-files"),
        ("http://192.168.1.2/video", "--allow-scheme http"),
        ("rtsp://169.254.169.254/latest", "--allow-network"),
        ({"uri": "rtsp://10.0.0.7/main", "networks": ["0.0.0.0/0"]}, "networks"),
    ],
)
def test_what_may_not_be_added_is_not_connected_to(steered: Steered, source: object, option: str) -> None:
    answer = steered.admin.ask("sources/test", "POST", source)

    assert answer.status == 422, answer.body
    assert option in answer.json()["detail"]


def test_one_test_at_a_time_for_each_client(steered: Steered, camera: FakeCamera) -> None:
    camera.faults.stall = True
    first: list[Answer] = []
    asking = Thread(target=lambda: first.append(steered.admin.ask("sources/test", "POST", camera.login_url)))
    asking.start()
    wait_for(lambda: camera.connections)

    second = steered.admin.ask("sources/test", "POST", camera.login_url)
    asking.join()

    assert second.status == 429
    assert first[0].json()["reason"] in ("silent", "unreachable", "late")


def test_tests_are_in_the_audit_log_without_passwords(steered: Steered, camera: FakeCamera) -> None:
    tried(steered, camera.login_url)

    begun, ended = steered.audited()
    assert (begun["action"], ended["result"]) == ("test source", "done")
    assert "***@127.0.0.1" in begun["target"]
    assert "hunter2" not in steered.audit.read_text()
