"""`video` on a GPU that does not encode, or not this: the CPU encodes, and the report says why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import CudaFailed
from sightline.graph import RunsOn
from sightline.media import Frame, PixelFormat
from sightline.testing import make_batches
from sightline.testing.run import site_for
from sightline_plugins.sinks.video import Video
from tests.fakes import ADA, NO_NVENC, FakeCudaDriver, FakeNvenc, NvencCaps, NvencFaults, fake_nvenc
from tests.integration.encode.clips import read_back
from tests.integration.gpu.videos import CONSTANT, SIZE, Written, nv12, on

LACKS: dict[str, tuple[dict[str, Any], str]] = {
    "4:4:4": ({"pixel_format": PixelFormat.I444}, "NVENC is given nv12 and i420, and these images are i444"),
    "odd": ({"size_wh": (161, 64)}, "NVENC takes images of even width and height, not 161x64"),
    "small": ({"size_wh": (96, 64)}, "h264: this GPU encodes images from 145x49 to 4096x4096, not 96x64"),
}


@pytest.mark.parametrize("kind", LACKS)
def test_what_nvenc_lacks_is_encoded_on_the_cpu_to_the_byte_and_the_report_says_why(
    tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc, kind: str
) -> None:
    options, reason = LACKS[kind]
    Written(tmp_path / "cpu", nv12(**options))

    made = Written(tmp_path / "gpu", nv12(**options), gpu)

    assert made.encoder == f"libx264 on the CPU ({reason})"
    assert made.writer.runs_on() == RunsOn("cpu", reason)
    assert [message.text for message in made.messages] == [f"videos are encoded on the CPU: {reason}"]
    assert (tmp_path / "gpu" / "video.mp4").read_bytes() == (tmp_path / "cpu" / "video.mp4").read_bytes()


@pytest.mark.parametrize(
    ("caps", "faults", "reason"),
    [
        (NO_NVENC, NvencFaults(), "NVENC opens no session on this GPU"),
        ({"hevc": NvencCaps()}, NvencFaults(), "h264: this GPU does not encode it"),
        (ADA, NvencFaults(is_refused=True), "NVENC: PyNvEncoder : Error code : 10 .* returned error 10"),
    ],
    ids=["none", "codec", "refused"],
)
def test_a_gpu_that_does_not_encode_says_so(
    tmp_path: Path, gpu: CudaDevice, caps: dict[str, NvencCaps], faults: NvencFaults, reason: str
) -> None:
    fake_nvenc(gpu, caps=caps, faults=faults)

    made = Written(tmp_path, nv12(), gpu)

    assert re.fullmatch(rf"libx264 on the CPU \({reason}\)", made.encoder)
    assert len(made.video.ticks) == len(CONSTANT)


def test_without_the_library_the_cpu_encodes(tmp_path: Path, gpu: CudaDevice) -> None:
    made = Written(tmp_path, nv12(), gpu)

    assert made.encoder.startswith("libx264 on the CPU (")
    assert len(made.video.ticks) == len(CONSTANT)


def test_on_the_cpu_one_copy_comes_down_for_an_image_and_is_under_way_while_another_is_encoded(
    tmp_path: Path, gpu: CudaDevice, driver: FakeCudaDriver
) -> None:
    writer = Video(path="video.mp4", encoder="cpu").build(site_for("video-1", tmp_path, gpu=gpu))
    undone = []
    for frame in nv12():
        writer.process(make_batches([on(gpu, frame)])[0])
        undone.append(driver.undone > 0)
    writer.close()

    assert all(undone)
    counts = gpu.transfers.counts
    assert counts.device_to_host_copies == len(CONSTANT)
    assert counts.device_to_host_bytes == len(CONSTANT) * SIZE[0] * SIZE[1] * 3 // 2
    assert writer.totals() == {"cam": {"encoder": "libx264 on the CPU"}}


def test_images_in_host_memory_stay_there(tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc) -> None:
    writer = Video(path="video.mp4").build(site_for("video-1", tmp_path, gpu=gpu))
    for frame in nv12():
        writer.process(make_batches([frame])[0])
    writer.close()

    assert writer.runs_on() == RunsOn("cpu", "its images lie in host memory")
    assert gpu.transfers.counts.host_to_device_copies == 0


@pytest.mark.parametrize(("has_nvenc", "left"), [(False, 7), (True, 5)], ids=["cpu", "nvenc"])
def test_a_gpu_that_breaks_costs_the_images_that_were_on_their_way(
    tmp_path: Path, driver: FakeCudaDriver, has_nvenc: bool, left: int
) -> None:
    gpu = CudaDevice(driver)
    if has_nvenc:
        fake_nvenc(gpu)

    def breaking() -> Iterable[Frame]:
        for index, frame in enumerate(nv12()):
            if index == 8:
                driver.fail_next("work", "CUDA_ERROR_ILLEGAL_ADDRESS")
            yield frame

    with pytest.raises(CudaFailed, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        Written(tmp_path, breaking(), gpu, gop="80ms")

    assert read_back(tmp_path / "video.mp4").times_ns() == CONSTANT[:left]
    gpu.close()
