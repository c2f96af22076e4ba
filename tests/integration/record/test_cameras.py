"""Recording cameras: complete whatever the pipeline drops, a new file for whatever changes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import pytest

from sightline import Pipeline
from sightline.media import Batch
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.rtsp.payloads import Codec
from tests.integration.camera.clips import noise_clip, watch, write_noise
from tests.integration.record.scenes import Bell, Told, look_of

COUNT, KEY_EVERY = 60, 10
AT_ONCE = CameraOptions(paced=False, passes=1, holds=True)
FOR_EVER = CameraOptions(paced=True)
PATIENCE_SECONDS = 300.0


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


@contextmanager
def recording(
    camera: FakeCamera, *, outputs: Path, steps: tuple[Any, ...] = (), **options: Any
) -> Iterator[tuple[Pipeline, Told]]:
    """A pipeline that records a camera while the block lasts."""
    told = Told()
    step = {"record": {"path": "{stream}-{time}.mp4", "segment": "1h", **options}}
    pipeline = Pipeline(sources={"cam": camera.login_url}, steps=[*steps, step], outputs=outputs)
    pipeline.on_message(told)
    with pipeline:
        yield pipeline, told


def received(pipeline: Pipeline) -> int:
    """Frames that came so far."""
    return sum(one.frames for one in pipeline.status())


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    return noise_clip(tmp_path_factory.mktemp("clip"), count=COUNT, key_every=KEY_EVERY)


@pytest.mark.parametrize(("codec", "b_frames"), [("h264", 0), ("h264", 2), ("h265", 0), ("mjpeg", 0)])
def test_a_recording_shows_frame_for_frame_what_the_camera_showed(codec: str, b_frames: int, tmp_path: Path) -> None:
    suffix = ".avi" if codec == "mjpeg" else ".mp4"
    source = write_noise(
        tmp_path / f"source{suffix}", codec=Codec(codec), count=COUNT, key_every=KEY_EVERY, b_frames=b_frames
    )

    with FakeCamera(load_clip(str(source)), options=AT_ONCE) as camera:
        seen = [look_of(image) for image in watch(camera.url, packets=COUNT - 1).images]
        with recording(camera, outputs=tmp_path) as (pipeline, told):
            until(lambda: received(pipeline) >= len(seen), "all images have come")

    (file,) = told.recorded()
    assert file.count >= COUNT - 1
    assert file.shown[0].is_key
    assert [one.look for one in file.shown][: len(seen)] == seen


def test_what_the_pipeline_drops_is_recorded_all_the_same(clip: Clip, tmp_path: Path) -> None:
    gate = threading.Event()

    def wait(batch: Batch) -> None:
        del batch
        gate.wait(PATIENCE_SECONDS)

    with FakeCamera(clip, options=AT_ONCE) as camera:
        told = Told()
        steps: list[Any] = [{"record": {"path": "{time}.mp4", "segment": "1h"}}]
        pipeline = Pipeline(sources={"cam": camera.url}, steps=[Bell(at=()), *steps], outputs=tmp_path)
        pipeline.on_message(told)
        pipeline.probe("bell-1", wait)
        with pipeline:
            until(lambda: received(pipeline) >= COUNT - 1, "all images have come")
            gate.set()

    report = pipeline.report
    assert report is not None
    (file,) = told.recorded()
    assert sum(report.streams[0].dropped.values()) > COUNT // 2
    assert file.count >= COUNT - 1
    assert report.totals["record-1"]["cam"]["gaps"] == 0


def test_each_connection_begins_a_new_file(clip: Clip, tmp_path: Path) -> None:
    with FakeCamera(clip, options=FOR_EVER) as camera, recording(camera, outputs=tmp_path) as (pipeline, told):
        until(lambda: received(pipeline) >= KEY_EVERY, "images have come")
        camera.kill()
        seen = received(pipeline)
        camera.restart()
        until(lambda: received(pipeline) >= seen + 2 * KEY_EVERY, "the camera is back")

    files = told.recorded()
    assert len(files) == 2
    assert all(file.shown[0].is_key and len(file.shown) == file.count for file in files)
    assert files[0].last_pts_ns < files[1].first_pts_ns


@pytest.mark.parametrize("codec", list(Codec))
def test_another_size_begins_a_new_file_of_that_size(codec: Codec, tmp_path: Path) -> None:
    smaller = noise_clip(tmp_path, codec=codec, count=COUNT, key_every=KEY_EVERY)
    larger = noise_clip(tmp_path, codec=codec, count=COUNT, key_every=KEY_EVERY, size_wh=(320, 192))
    with FakeCamera(smaller, options=FOR_EVER) as camera, recording(camera, outputs=tmp_path) as (pipeline, told):
        until(lambda: received(pipeline) >= KEY_EVERY, "images have come")
        camera.swap(larger)
        seen = received(pipeline)
        until(lambda: received(pipeline) >= seen + 2 * KEY_EVERY, "images of the other size have come")

    files = told.recorded()
    assert [size_wh(file.path) for file in files] == [(160, 96), (320, 192)]
    assert all(len(file.shown) == file.count for file in files)


def size_wh(path: Path) -> tuple[int, int]:
    """What the header says; every image must be so large."""
    with av.open(path) as container:
        context = container.streams.video[0].codec_context
        said = (context.width, context.height)
        assert {(frame.width, frame.height) for frame in container.decode(video=0)} == {said}
    return said


def test_another_codec_begins_a_new_file(clip: Clip, tmp_path: Path) -> None:
    other = noise_clip(tmp_path, codec=Codec.H265, count=COUNT, key_every=KEY_EVERY)
    with FakeCamera(clip, options=FOR_EVER) as camera, recording(camera, outputs=tmp_path) as (pipeline, told):
        until(lambda: received(pipeline) >= KEY_EVERY, "images have come")
        camera.swap(other)
        seen = received(pipeline)
        until(lambda: received(pipeline) >= seen + 2 * KEY_EVERY, "images in the other codec have come")

    assert [codec_of(file.path) for file in told.recorded()] == ["h264", "hevc"]


def codec_of(path: Path) -> str:
    with av.open(path) as container:
        return container.streams.video[0].codec_context.name


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_jump_of_the_cameras_clock_begins_a_new_file(clip: Clip, seconds: float, tmp_path: Path) -> None:
    with FakeCamera(clip, options=FOR_EVER) as camera, recording(camera, outputs=tmp_path) as (pipeline, told):
        until(lambda: received(pipeline) >= KEY_EVERY, "images have come")
        camera.faults.jump = seconds
        seen = received(pipeline)
        until(lambda: received(pipeline) >= seen + 2 * KEY_EVERY, "images after the jump have come")

    files = told.recorded()
    lasting_seconds = [(file.shown[-1].pts_ns - file.first_pts_ns) / 1e9 for file in files]
    assert len(files) == 2
    assert max(lasting_seconds) < PATIENCE_SECONDS


def test_the_name_and_the_message_tell_the_time_of_day(clip: Clip, tmp_path: Path) -> None:
    begun_ns = time.time_ns()
    with FakeCamera(clip, options=FOR_EVER) as camera, recording(camera, outputs=tmp_path) as (pipeline, told):
        until(lambda: received(pipeline) >= KEY_EVERY, "images have come")

    (file,) = told.recorded()
    assert abs(file.data["first_capture_ns"] - begun_ns) < PATIENCE_SECONDS * 1e9
    assert re.fullmatch(r"cam-\d{8}T\d{6}\.\d{3}Z\.mp4", file.path.name)


def test_a_request_brings_back_what_is_past(clip: Clip, tmp_path: Path) -> None:
    with (
        FakeCamera(clip, options=FOR_EVER) as camera,
        recording(camera, outputs=tmp_path, segment=None, before="1s", after="200ms") as (pipeline, told),
    ):
        until(lambda: received(pipeline) >= 40, "images have come")
        pipeline.record("cam")
        until(lambda: bool(told.recorded()), "the clip is finished")

    (file,) = told.recorded()
    assert file.last_pts_ns - file.first_pts_ns >= 1_100_000_000
    assert file.shown[0].is_key
    assert len(file.shown) == file.count


def test_a_pause_finishes_the_recording_and_closes_the_connection(clip: Clip, tmp_path: Path) -> None:
    with FakeCamera(clip, options=FOR_EVER) as camera, recording(camera, outputs=tmp_path) as (pipeline, told):
        until(lambda: received(pipeline) >= KEY_EVERY, "images have come")

        pipeline.pause("cam").wait(PATIENCE_SECONDS)
        until(lambda: len(told.recorded()) == 1, "the recording is finished")
        seen = received(pipeline)
        pipeline.resume("cam")
        until(lambda: received(pipeline) >= seen + KEY_EVERY, "images come again")

    first, second = told.recorded()
    assert first.count >= seen - 1
    assert second.shown[0].is_key
    assert second.first_pts_ns > first.first_pts_ns
    assert pipeline.report is not None
    assert pipeline.report.totals["record-1"]["cam"]["gaps"] == 0
    assert pipeline.report.streams[0].reconnects == 0
