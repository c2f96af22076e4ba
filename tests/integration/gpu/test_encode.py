"""`video` on a GPU: videos that its encoder makes are those of the CPU, as near as encoders are; what it lacks the CPU
encodes, with one copy for an image; and nothing stays behind.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.errors import DeviceUnavailable, OutputError
from sightline.graph import RunsOn
from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.device_array import DeviceArray, DeviceStream
from sightline.testing import make_batches
from sightline.testing.run import site_for
from sightline_plugins.sinks.video import Video
from tests.fakes import FakeCudaDriver, FakeNvdec, FakeNvenc, NvencFaults, fake_nvenc
from tests.fakes.cuda import CudaMisuse
from tests.integration.encode.clips import read_back
from tests.integration.gpu.videos import CONSTANT, DENSE, MS, SIZE, VARIABLE, Written, assert_alike, nv12, on


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_every_image_comes_back_at_its_time_and_none_comes_down(
    tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc, codec: str, suffix: str
) -> None:
    options: dict[str, Any] = {"path": f"video.{suffix}", "codec": codec}
    expected = Written(tmp_path / "cpu", nv12(VARIABLE), **options)

    made = Written(tmp_path / "gpu", nv12(VARIABLE), gpu, **options)

    assert (made.encoder, made.writer.runs_on()) == ("NVENC on cuda:0", RunsOn("cuda:0"))
    assert made.video.codec == expected.video.codec
    assert_alike(made.video, expected.video)
    assert gpu.transfers.counts.device_to_host_copies == 0
    assert nvenc.open_count == 0


@pytest.mark.parametrize("size_wh", [SIZE, DENSE])
@pytest.mark.parametrize("pixel_format", [PixelFormat.NV12, PixelFormat.I420])
def test_rows_with_and_without_padding_are_encoded(
    tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc, pixel_format: PixelFormat, size_wh: tuple[int, int]
) -> None:
    frames = nv12(pixel_format=pixel_format, size_wh=size_wh)

    made = Written(tmp_path / "gpu", frames, gpu)

    assert [one["size"] for one in nvenc.made] == ["{}x{}".format(*size_wh)]
    assert_alike(made.video, Written(tmp_path / "cpu", frames).video)


def test_memory_that_is_lent_again_at_once_spoils_no_video(tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc) -> None:
    frames = nv12(size_wh=DENSE)

    made = Written(tmp_path / "gpu", frames, gpu)

    assert gpu.memory.allocated_bytes < len(frames) * DENSE[0] * DENSE[1] * 3 // 2
    assert_alike(made.video, Written(tmp_path / "cpu", frames).video)


def unawaited(surface: Surface, stream: DeviceStream) -> tuple[DeviceArray, ...]:
    """A mutant of `Surface.arrays_on`: the stream does not wait for the content."""
    for array in surface.arrays:
        array.owner.used_on(stream)
    return surface.arrays


def unguarded(surface: Surface, stream: DeviceStream) -> tuple[DeviceArray, ...]:
    """Another one: memory may be lent again before the stream is done with it."""
    for array in surface.arrays:
        if array.ready is not None:
            stream.wait(array.ready)
    return surface.arrays


@pytest.mark.parametrize("mutant", [unawaited, unguarded])
def test_an_image_that_is_not_waited_for_or_not_kept_would_be_noticed(
    tmp_path: Path, driver: FakeCudaDriver, monkeypatch: pytest.MonkeyPatch, mutant: Any
) -> None:
    gpu = CudaDevice(driver)
    fake_nvenc(gpu)
    frames = nv12(size_wh=DENSE)
    expected = Written(tmp_path / "cpu", frames).video
    monkeypatch.setattr(Surface, "arrays_on", mutant)

    with pytest.raises((CudaMisuse, AssertionError)):
        assert_alike(Written(tmp_path / "gpu", frames, gpu).video, expected)


def test_key_frames_stand_where_they_do_on_the_cpu(tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc) -> None:
    made = Written(tmp_path / "gpu", nv12(), gpu, gop="120ms")

    assert made.video.key_ticks == Written(tmp_path / "cpu", nv12(), gop="120ms").video.key_ticks
    assert len(made.video.key_ticks) == 4


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize(
    ("matrix", "color_range"), [(ColorMatrix.BT709, ColorRange.FULL), (ColorMatrix.BT601, ColorRange.LIMITED)]
)
def test_matrix_and_range_are_tagged_as_on_the_cpu(
    tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc, codec: str, matrix: ColorMatrix, color_range: ColorRange
) -> None:
    frames = nv12(CONSTANT[:5], matrix=matrix, color_range=color_range)

    made = Written(tmp_path / "gpu", frames, gpu, codec=codec).video

    expected = Written(tmp_path / "cpu", frames, codec=codec).video
    assert (made.matrix, made.range) == (expected.matrix, expected.range)
    assert_alike(made, expected)


def test_another_size_begins_another_video_with_an_encoder_of_its_own(
    tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc
) -> None:
    later = [frame for frame in nv12(size_wh=(192, 96)) if frame.pts_ns > CONSTANT[5]]

    made = Written(tmp_path, [*nv12(CONSTANT[:6]), *later], gpu)

    assert [one["size"] for one in nvenc.made] == ["160x64", "192x96"]
    assert made.video.times_ns() == CONSTANT[:6]
    assert len(read_back(tmp_path / "video-2.mp4").ticks) == len(later) == 6


def test_images_of_another_decoder_go_on_in_the_same_video(tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc) -> None:
    others = nv12(pixel_format=PixelFormat.I420)
    frames = [
        other if 4 <= index < 8 else frame for index, (frame, other) in enumerate(zip(nv12(), others, strict=True))
    ]

    made = Written(tmp_path / "gpu", frames, gpu)

    assert len(nvenc.made) == 1
    assert_alike(made.video, Written(tmp_path / "cpu", frames).video)


def test_nvenc_is_told_how_many_images_a_second_share_the_bits(
    tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc
) -> None:
    writer = Video.model_validate({"path": "video.mp4", "bitrate": "1M"}).build(site_for("video", tmp_path, gpu=gpu))
    for frame in nv12([index * 100 * MS for index in range(5)]):
        writer.process(make_batches([on(gpu, frame)])[0])

    (rate,) = [encoder.rate for encoder in nvenc.open]
    writer.close()

    assert (rate.frameRateNum, rate.frameRateDen) == (10, 1)


def test_settings_become_those_of_nvenc(tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc) -> None:
    Written(tmp_path, nv12(CONSTANT[:2]), gpu, preset="medium", quality=0, path="a.mp4")
    Written(tmp_path, nv12(CONSTANT[:2]), gpu, codec="h265", quality=None, bitrate="1.5M", path="b.mp4")

    by_quality, by_rate = nvenc.made
    assert (by_quality["preset"], by_quality["cq"], by_quality["bitrate"]) == ("P6", 1, 0)
    assert (by_rate["codec"], by_rate["bitrate"], by_rate["maxbitrate"]) == ("hevc", 1_500_000, 3_000_000)
    assert "cq" not in by_rate


def test_who_asks_for_nvenc_gets_it_for_images_in_host_memory(
    tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc
) -> None:
    writer = Video(path="video.mp4", encoder="nvenc").build(site_for("video-1", tmp_path, gpu=gpu))
    for frame in nv12():
        writer.process(make_batches([frame])[0])
    writer.close()

    assert writer.runs_on() == RunsOn("cuda:0")
    assert len(read_back(tmp_path / "video.mp4").ticks) == len(CONSTANT)


def test_who_asks_for_nvenc_where_there_is_none_is_told_before_anything_runs(tmp_path: Path, gpu: CudaDevice) -> None:
    with pytest.raises(DeviceUnavailable, match=r"encoder: nvenc cannot be used: .*; write encoder: auto"):
        Written(tmp_path, nv12(), gpu, encoder="nvenc")


def test_who_asks_for_nvenc_for_what_it_lacks_is_told(tmp_path: Path, gpu: CudaDevice, nvenc: FakeNvenc) -> None:
    with pytest.raises(OutputError, match=r"video.mp4: NVENC takes images of even .*; write encoder: auto"):
        Written(tmp_path, nv12(size_wh=(161, 64)), gpu, encoder="nvenc")


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (NvencFaults(fail_at=frozenset({8})), r"cannot encode video to .*video\.mp4: EncodeFrame : Error code : 20"),
        (NvencFaults(lose=frozenset({8})), r"NVENC gave the image 6 in the place of 5"),
        (NvencFaults(lose=frozenset({12})), r"NVENC gave 9 of 12 images"),
    ],
    ids=["fails", "loses one", "loses the last"],
)
def test_an_encoder_that_fails_is_told_of_and_leaves_a_video_that_can_be_read(
    tmp_path: Path, gpu: CudaDevice, faults: NvencFaults, message: str
) -> None:
    library = fake_nvenc(gpu, faults=faults)

    with pytest.raises(OutputError, match=message):
        Written(tmp_path, nv12(), gpu, gop="80ms")

    times = read_back(tmp_path / "video.mp4").times_ns()
    assert 0 < len(times) <= 9
    assert times == CONSTANT[: len(times)]
    gc.collect()
    assert library.open_count == 0


def test_a_pipeline_from_file_to_video_leaves_every_image_on_the_gpu(
    clips: dict[str, Path], tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec, nvenc: FakeNvenc
) -> None:
    sources = {name: str(path) for name, path in clips.items()}
    steps: list[Any] = [{"draw": {"clock": True}}, {"video": {"path": "{stream}.mp4", "quality": 10}}]
    Pipeline(sources=sources, steps=steps, outputs=tmp_path / "cpu").run()

    report = Pipeline(sources=sources, steps=steps, outputs=tmp_path / "gpu", gpu=gpu).run()

    assert report.transfers is not None
    assert report.transfers.device_to_host_copies == len(clips)  # first frames are compared with the CPU's
    assert report.runs_on["video-1"] == "cuda:0"
    assert report.totals["video-1"]["gate"] == {"encoder": "NVENC on cuda:0"}
    for name in clips:
        assert_alike(read_back(tmp_path / "gpu" / f"{name}.mp4"), read_back(tmp_path / "cpu" / f"{name}.mp4"))
