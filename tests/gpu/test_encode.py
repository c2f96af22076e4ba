"""Encoding on a real GPU: what its double does is what NVENC does; where the GPU has none, the CPU encodes as ever."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline.testing import make_batches, make_frames
from sightline.testing.run import site_for
from sightline_plugins.encode.nvenc_library import NvencLibrary, library_for
from sightline_plugins.encode.settings import EncoderError
from sightline_plugins.sinks.video import Video
from tests.integration.encode.clips import read_back
from tests.integration.gpu.videos import CONSTANT, MS, VARIABLE, Written, assert_alike, nv12, on

pytestmark = pytest.mark.gpu
PADDED, DENSE = (352, 192), (512, 192)
VISITS = 100
SLACK_BYTES = 64 * 2**20


@pytest.fixture
def nvenc(gpu: CudaDevice) -> NvencLibrary:
    try:
        return library_for(gpu)
    except EncoderError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_every_image_comes_back_at_its_time_and_none_comes_down(
    tmp_path: Path, gpu: CudaDevice, nvenc: NvencLibrary, codec: str, suffix: str
) -> None:
    options: dict[str, Any] = {"path": f"video.{suffix}", "codec": codec}
    frames = nv12(VARIABLE, size_wh=PADDED)

    made = Written(tmp_path / "gpu", frames, gpu, **options)

    assert made.encoder == "NVENC on cuda:0"
    assert_alike(made.video, Written(tmp_path / "cpu", frames, **options).video)
    assert gpu.transfers.counts.device_to_host_copies == 0


@pytest.mark.parametrize("size_wh", [PADDED, DENSE])
@pytest.mark.parametrize("pixel_format", [PixelFormat.NV12, PixelFormat.I420])
def test_rows_with_and_without_padding_are_encoded(
    tmp_path: Path, gpu: CudaDevice, nvenc: NvencLibrary, pixel_format: PixelFormat, size_wh: tuple[int, int]
) -> None:
    frames = nv12(pixel_format=pixel_format, size_wh=size_wh)

    made = Written(tmp_path / "gpu", frames, gpu)

    assert_alike(made.video, Written(tmp_path / "cpu", frames).video)


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize(
    ("matrix", "color_range"), [(ColorMatrix.BT709, ColorRange.FULL), (ColorMatrix.BT601, ColorRange.LIMITED)]
)
def test_matrix_and_range_are_tagged_as_on_the_cpu(
    tmp_path: Path, gpu: CudaDevice, nvenc: NvencLibrary, codec: str, matrix: ColorMatrix, color_range: ColorRange
) -> None:
    frames = nv12(CONSTANT[:5], size_wh=PADDED, matrix=matrix, color_range=color_range)

    made = Written(tmp_path / "gpu", frames, gpu, codec=codec).video

    expected = Written(tmp_path / "cpu", frames, codec=codec).video
    assert (made.matrix, made.range) == (expected.matrix, expected.range)


def test_key_frames_stand_where_they_do_on_the_cpu(tmp_path: Path, gpu: CudaDevice, nvenc: NvencLibrary) -> None:
    frames = nv12(size_wh=PADDED)

    made = Written(tmp_path / "gpu", frames, gpu, gop="120ms")

    assert made.video.key_ticks == Written(tmp_path / "cpu", frames, gop="120ms").video.key_ticks


def test_a_bit_rate_is_kept_at_a_low_frame_rate(tmp_path: Path, gpu: CudaDevice, nvenc: NvencLibrary) -> None:
    frames = [frame for number in range(4) for frame in make_frames(25, size_wh=PADDED, seed=number)]
    times = [index * 100 * MS for index in range(len(frames))]
    writer = Video.model_validate({"path": "video.mp4", "bitrate": "1M"}).build(site_for("video", tmp_path, gpu=gpu))
    for frame, blank in zip(nv12(times, size_wh=PADDED), frames, strict=True):
        noisy = dataclasses.replace(frame, surface=blank.surface)
        writer.process(make_batches([on(gpu, noisy)])[0])
    writer.close()

    bits_a_second = (tmp_path / "video.mp4").stat().st_size * 8 / (len(frames) / 10)
    assert 0.7e6 < bits_a_second < 1.4e6


def test_a_pipeline_from_file_to_video_leaves_every_image_on_the_gpu(
    gpu: CudaDevice, nvenc: NvencLibrary, repository: Path, tmp_path: Path
) -> None:
    source = {"street": str(repository / "sample_videos" / "street.mp4")}
    steps: list[Any] = [{"draw": {"clock": True}}, {"video": {"path": "{stream}.mp4", "quality": 10}}]
    Pipeline(sources=source, steps=steps, outputs=tmp_path / "cpu").run(frames=100)

    report = Pipeline(sources=source, steps=steps, outputs=tmp_path / "gpu", gpu=gpu).run(frames=100)

    assert report.transfers is not None
    assert report.transfers.device_to_host_copies == 1  # the first frame is compared with the CPU's
    assert_alike(read_back(tmp_path / "gpu" / "street.mp4"), read_back(tmp_path / "cpu" / "street.mp4"))
    assert gpu.memory.lent == 0


def test_100_encoders_leave_the_memory_of_the_gpu_as_it_was(
    tmp_path: Path, gpu: CudaDevice, nvenc: NvencLibrary
) -> None:
    free = []
    for number in range(VISITS):
        Written(tmp_path, nv12(CONSTANT[:2], size_wh=PADDED), gpu, path=f"{number}.mp4")
        with gpu.guard("asking for its memory") as driver:
            free.append(driver.free_memory_bytes()[0])

    assert free[-1] >= free[5] - SLACK_BYTES


def test_a_gpu_without_an_encoder_says_so_and_the_cpu_encodes_to_the_byte(tmp_path: Path, gpu: CudaDevice) -> None:
    try:
        library_for(gpu)
    except EncoderError as error:
        reason = str(error)
    else:
        pytest.skip("this GPU has NVENC")
    Written(tmp_path / "cpu", nv12())

    made = Written(tmp_path / "gpu", nv12(), gpu)

    assert made.encoder == f"libx264 on the CPU ({reason})"
    assert (tmp_path / "gpu" / "video.mp4").read_bytes() == (tmp_path / "cpu" / "video.mp4").read_bytes()
    assert gpu.transfers.counts.device_to_host_copies == len(CONSTANT)


def test_asking_for_an_encoder_costs_no_memory_and_little_time(gpu: CudaDevice) -> None:
    def free_bytes() -> int:
        with gpu.guard("asking for its memory") as driver:
            return driver.free_memory_bytes()[0]

    before, started = free_bytes(), time.perf_counter()
    for _ in range(10):
        try:
            library_for(gpu)
        except EncoderError:
            continue

    assert free_bytes() >= before - SLACK_BYTES
    assert time.perf_counter() - started < 10
