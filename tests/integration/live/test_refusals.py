"""Cameras that say no: wrong passwords, unknown paths, servers that are too busy or talk nonsense."""

from __future__ import annotations

import json
import logging
import socket
import time
from typing import Literal

import pytest

from sightline.graph import MessageKind, StreamState
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from tests.integration.figures import Record
from tests.integration.live.watching import Watched, until

PASSWORD = "correct-horse-7"
WATCH_SECONDS = 1.0


@pytest.mark.row(id="A4")
def test_a_wrong_password_is_told_at_once_and_hardly_tried_again(clip: Clip, figure: Record) -> None:
    with FakeCamera(clip, credentials="admin:other") as camera:
        begun = time.monotonic()
        with Watched({"cam": camera.url.replace("://", f"://admin:{PASSWORD}@")}) as watched:
            told = watched.has_state(StreamState.AUTH_FAILED, stream="cam")
            time.sleep(WATCH_SECONDS)
            (status,) = watched.pipeline.status()
        refused = camera.sent.refused

    figure("`auth_failed` reported after", told.at_seconds - begun, limit=2.0, unit="s")
    assert status.next_attempt_seconds is not None
    figure("attempts in the first minute", 1 + 60 // status.next_attempt_seconds, limit=2, unit="attempts")
    assert refused == 1
    assert status.state is StreamState.AUTH_FAILED
    assert status.cause is not None
    assert status.next_attempt_seconds is not None
    assert status.next_attempt_seconds > 20
    assert "check user and password" in told.message.text


@pytest.mark.row(id="A4")
def test_the_password_is_nowhere(
    clip: Clip, figure: Record, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with FakeCamera(clip, credentials="admin:other") as camera:
        url = camera.url.replace("://", f"://admin:{PASSWORD}@")
        with Watched({"cam": url, "gone": url.replace("/cam", "/gone")}) as watched:
            for name in ("cam", "gone"):
                watched.has_state(StreamState.AUTH_FAILED, stream=name)
            statuses = watched.pipeline.status()

    assert watched.report is not None
    printed = capfd.readouterr()
    everything = [
        json.dumps(watched.report.to_json()),
        repr(watched.report),
        repr(statuses),
        repr([told.message for told in watched.told]),
        caplog.text,
        printed.out,
        printed.err,
    ]
    found = sum(text.count(PASSWORD) for text in everything)
    figure("passwords found in messages, report, status and logs", found, limit=0, unit="places")
    assert found == 0


def test_when_the_camera_accepts_the_password_again_it_is_live(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.runtime.sources.health._REFUSED_DELAY_SECONDS", 0.5)
    monkeypatch.setattr("sightline.runtime.sources.health._REFUSED_SPREAD_SECONDS", 0.0)
    with FakeCamera(clip, credentials="admin:right") as camera, Watched({"cam": camera.login_url}) as watched:
        watched.has_frames(3)
        camera.credentials = "admin:changed"
        camera.kill()
        camera.restart()
        watched.has_state(StreamState.AUTH_FAILED, stream="cam")
        camera.credentials = "admin:right"
        until(lambda: bool(watched.of_kind(MessageKind.STREAM_BACK)))


@pytest.mark.row(id="A4")
@pytest.mark.parametrize("status", [404, 453, 503])
def test_another_refusal_is_a_loss_that_names_its_cause(clip: Clip, status: int, figure: Record) -> None:
    with FakeCamera(clip) as camera:
        camera.faults.refuse = status
        begun = time.monotonic()
        with Watched({"cam": camera.url}) as watched:
            told = watched.has_state(StreamState.LOST, stream="cam")

    figure("another refusal (404, 453, 503) reported after", told.at_seconds - begun, limit=2.0, unit="s")
    assert ("the server" in told.message.text) or ("FFmpeg" in told.message.text)


def test_a_camera_that_talks_nonsense_is_tried_again_soon(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline_plugins.decode.open_media._CONNECTING_SECONDS", 1.0)
    with FakeCamera(clip) as camera:
        camera.faults.garbage = True
        with Watched({"cam": camera.url}) as watched:
            watched.has_state(StreamState.LOST, stream="cam")
            camera.faults.garbage = False
            watched.has_frames(3)


def test_a_stream_that_is_given_up_fails_and_the_others_go_on(clip: Clip) -> None:
    with socket.socket() as reserved, FakeCamera(clip) as camera:
        reserved.bind(("127.0.0.1", 0))
        ill = {"uri": f"rtsp://127.0.0.1:{reserved.getsockname()[1]}/cam", "max_reconnect_time": "300ms"}
        with Watched({"well": camera.url, "ill": ill}) as watched:
            watched.has_state(StreamState.FAILED, stream="ill")
            watched.has_frames(len(watched.frames["well"]) + 10, of="well")

    assert watched.report is not None
    assert watched.report.failed_streams == ("ill",)


@pytest.mark.parametrize("scheme", ["basic", "digest"])
def test_both_ways_to_ask_for_a_password_work(clip: Clip, scheme: Literal["basic", "digest"]) -> None:
    options = CameraOptions(authentication=scheme)
    with (
        FakeCamera(clip, credentials=f"admin:{PASSWORD}", options=options) as camera,
        Watched({"cam": camera.login_url}) as watched,
    ):
        watched.has_frames(3)
