"""The main job on a camera: a real RTSP server, objects found and followed, reconnection when it goes away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.graph import Message, MessageKind
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions

FRAMES = 40
ONCE = CameraOptions(paced=False, passes=1)


@pytest.fixture(scope="module")
def clip(repository: Path) -> Clip:
    return load_clip(str(repository / "sample_videos" / "street.mp4")).first(FRAMES)


def test_a_camera_is_watched_through_its_interruptions(clip: Clip, repository: Path, tmp_path: Path) -> None:
    messages: list[Message] = []
    with FakeCamera(clip, credentials="user:secret", options=ONCE) as camera:
        pipeline = Pipeline(
            sources={"gate": camera.login_url},
            steps=[
                {"detect": {"model": str(repository / "models" / "street.onnx")}},
                "track",
                {"jsonl": {"path": "{stream}.jsonl"}},
            ],
            outputs=tmp_path,
        )
        pipeline.on_message(messages.append)
        order = FrameOrder()
        pipeline.probe("jsonl-1", order)
        report = pipeline.run(frames=FRAMES + FRAMES // 2)

    (gate,) = report.streams
    lines = [json.loads(line) for line in (tmp_path / "gate.jsonl").read_text().splitlines()]
    assert_accounted(report)
    order.check(report)
    assert gate.received == FRAMES + FRAMES // 2
    assert gate.reconnects == 1
    assert len(lines) == gate.finished
    assert any("track_id" in thing for line in lines for thing in line["objects"])
    assert [line["frame"] for line in lines] == sorted({line["frame"] for line in lines})
    assert all("time" in line for line in lines)
    kinds = [message.kind for message in messages]
    assert kinds.index(MessageKind.STREAM_STARTED) < kinds.index(MessageKind.STREAM_LOST)
    assert kinds.index(MessageKind.STREAM_LOST) < kinds.index(MessageKind.STREAM_BACK)
    assert not any("secret" in message.text for message in messages)
