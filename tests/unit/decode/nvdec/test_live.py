"""Cameras on NVDEC: the same sessions, losses and times as on the CPU, and no image late."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Message, MessageKind
from sightline.media import Memory
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.decode.nvdec import HardwareStream
from sightline_plugins.sources.live.rtsp import Rtsp
from tests.fakes import fake_nvdec
from tests.integration.sources.clips import write_clip
from tests.reading import frames_of

COUNT = 30
ONCE = CameraOptions(paced=False, passes=1)


def clip_of(folder: Path, *, b_frames: int, size_wh: tuple[int, int] = (160, 96)) -> Clip:
    path = write_clip(folder / f"{b_frames}-{size_wh[0]}.mp4", count=COUNT, b_frames=b_frames, size_wh=size_wh)
    return load_clip(str(path))


@pytest.mark.parametrize(("b_frames", "latency"), [(0, "LOW"), (2, "NATIVE")])
def test_every_frame_of_a_camera_comes_in_order_with_its_time(
    gpu: CudaDevice, tmp_path: Path, b_frames: int, latency: str
) -> None:
    library = fake_nvdec(gpu)
    with FakeCamera(clip_of(tmp_path, b_frames=b_frames), options=ONCE) as camera:
        ours, reader = frames_of(Rtsp(uri=camera.url), gpu)
        theirs, _ = frames_of(Rtsp(uri=camera.url))

    assert [frame.luma for frame in ours] == [frame.luma for frame in theirs]
    steps = [[one.pts_ns - frames[0].pts_ns for one in frames] for frames in (ours, theirs)]
    assert steps[0] == steps[1]
    assert {frame.memory for frame in ours} == {Memory.CUDA}
    assert (reader.decoder, library.made) == ("nvdec", [("H264", latency)])


def test_a_camera_without_b_frames_gives_each_image_with_its_packet(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu)
    options = CameraOptions(paced=False, passes=1, holds=True)
    with FakeCamera(clip_of(tmp_path, b_frames=0), options=options) as camera:
        seen, _ = frames_of(Rtsp.model_validate({"uri": camera.url, "stall_timeout": "300ms"}), gpu)

    assert len(seen) == COUNT


def test_a_camera_whose_b_frames_show_late_has_another_decoder_from_the_next_key_frame_on(
    gpu: CudaDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = fake_nvdec(gpu)
    monkeypatch.setattr(HardwareStream, "_reorder_depth", 0)
    with FakeCamera(clip_of(tmp_path, b_frames=2), options=ONCE) as camera:
        seen, _ = frames_of(Rtsp(uri=camera.url), gpu)

    assert library.made == [("H264", "LOW"), ("H264", "NATIVE")]
    assert [frame.luma - 16 for frame in seen][-20:] == list(range(10, COUNT))


def test_images_are_marked_from_a_loss_on_the_network_to_the_next_whole_key_frame(
    gpu: CudaDevice, tmp_path: Path
) -> None:
    fake_nvdec(gpu)
    with FakeCamera(clip_of(tmp_path, b_frames=0), options=ONCE) as camera:
        camera.faults.loss = 0.1
        seen, reader = frames_of(Rtsp(uri=camera.url), gpu)

    assert reader.decoder == "nvdec"
    assert reader.lost_packets > 0
    assert any(frame.damaged for frame in seen)


def test_the_reason_why_the_cpu_decodes_is_told_once_and_stands_in_the_report(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu, caps={})
    told: list[Message] = []
    path = write_clip(tmp_path / "clip.mp4", count=5)
    pattern = {"pattern": "moving", "size": [64, 48], "frames": 5}
    pipeline = Pipeline(sources={"gate": path, "wave": pattern}, steps=[], gpu=gpu)
    pipeline.on_message(told.append)

    report = pipeline.run().to_json()

    reason = "h264, 4:2:0, 8 bits: this GPU does not decode it"
    assert [one.text for one in told if one.kind is MessageKind.WARNING] == [f"it is decoded by the CPU: {reason}"]
    assert report["streams"]["gate"]["decoder"] == f"cpu ({reason})"
    assert report["streams"]["wave"]["decoder"] is None
