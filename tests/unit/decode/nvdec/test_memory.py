"""The estimate of what a stream takes of a GPU's memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import av
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline_plugins import Media, Rtsp
from sightline_plugins.decode.nvdec_memory import decoder_bytes, file_bytes, stream_bytes
from tests.fakes import FakeCudaDriver, fake_nvdec
from tests.integration.sources.clips import write_clip
from tests.reading import frames_of

MIB = 2**20


@pytest.fixture
def driver() -> FakeCudaDriver:
    return FakeCudaDriver(memory_bytes=64 * MIB, pinned_bytes=16 * MIB)


@pytest.fixture
def gpu(driver: FakeCudaDriver) -> Iterator[CudaDevice]:
    device = CudaDevice(driver)
    yield device
    device.close()


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip.mp4", count=10)


def test_a_decoder_that_does_not_fit_is_not_made_and_the_cpu_decodes(
    gpu: CudaDevice, driver: FakeCudaDriver, clip: Path
) -> None:
    fake_nvdec(gpu)
    with driver.current():
        address = driver.allocate(63 * MIB)

    seen, reader = frames_of(clip, gpu)

    assert [frame.luma for frame in seen] == [16 + number for number in range(10)]
    assert reader.decoder == "cpu"
    assert reader.decoder_reason is not None
    assert re.fullmatch(
        r"NVDEC makes no decoder: it takes about \d+ MiB, and cuda:0 has [01] MiB free", reader.decoder_reason
    )
    with driver.current():
        driver.free(address)


def test_idle_memory_of_pools_makes_room_for_a_decoder(gpu: CudaDevice, driver: FakeCudaDriver, clip: Path) -> None:
    fake_nvdec(gpu)
    with driver.current():
        address = driver.allocate(30 * MIB)
    pool = gpu.pool("images of another stream")
    pool.lease(31 * MIB, stream=gpu.main_stream).release()

    seen, reader = frames_of(clip, gpu)

    assert (len(seen), reader.decoder) == (10, "nvdec")
    assert pool.allocated_bytes == 0
    with driver.current():
        driver.free(address)


def test_a_decoder_of_full_hd_takes_a_dozen_images() -> None:
    assert 30 * MIB < decoder_bytes("h264", (1920, 1080)) < 45 * MIB


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1", "vp9", "mpeg4"])
def test_larger_and_deeper_images_take_more(codec: str) -> None:
    small, large = (decoder_bytes(codec, size_wh) for size_wh in ((1280, 720), (3840, 2160)))

    assert small < large < stream_bytes(codec, (3840, 2160)) < stream_bytes(codec, (3840, 2160), bit_depth=10)


def test_small_images_of_h264_have_more_references() -> None:
    assert decoder_bytes("h264", (640, 360)) > decoder_bytes("hevc", (640, 360))


def test_a_file_is_estimated_by_its_head(repository: Path) -> None:
    clip = str(repository / "sample_videos" / "gate.mp4")
    with av.open(clip) as container:
        video = container.streams.video[0]
        size_wh = (video.width, video.height)

    assert file_bytes(clip) == Media(uri=clip).gpu_memory_bytes() == stream_bytes("h264", size_wh)


def test_what_is_no_video_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes.mp4").write_text("nothing")

    assert file_bytes(str(tmp_path / "notes.mp4")) == file_bytes(str(tmp_path / "none.mp4")) == 0


def test_cameras_are_taken_for_full_hd_without_asking_them() -> None:
    assert Rtsp(uri="rtsp://10.255.255.1/main").gpu_memory_bytes() == stream_bytes("h264", (1920, 1080))
    assert Media(uri="udp://10.255.255.1:9").gpu_memory_bytes() == stream_bytes("h264", (1920, 1080))
