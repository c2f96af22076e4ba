"""`video` on a GPU: films that its encoder makes are those of the CPU, as near as encoders are; what it lacks the CPU
encodes, with one copy for a picture; and nothing stays behind.
"""

from __future__ import annotations

import dataclasses
import gc
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices.gpu.gpu import Gpu
from sightline.errors import DeviceUnavailable, GpuFailed, OutputError
from sightline.graph import RunsOn, Sink
from sightline.graph.messages import Message
from sightline.media import ColorMatrix, ColorRange, Frame, PixelFormat
from sightline.media.device_array import DeviceArray
from sightline.media.device_memory import DeviceStream
from sightline.testing import make_batches
from sightline.testing.gpu import DoubleDriver
from sightline.testing.gpu.double_memory import GpuMisuse
from sightline.testing.run import site_for
from sightline_plugins.encode.video import Video
from sightline_plugins.testing import ADA, NO_NVENC, NvdecDouble, NvencCaps, NvencDouble, NvencFaults, nvenc_double
from tests.integration.encode.clips import Readback, frames_at, psnr, read_back

MS = 1_000_000
CONSTANT = [index * 40 * MS for index in range(12)]
VARIABLE = [5_000 * MS + time for time in (0, 33 * MS, 50 * MS, 51 * MS, 400 * MS, 3_000 * MS, 9_999 * MS + 123_456)]
SIZE = (160, 64)
DENSE = (256, 64)


def nv12(times_ns: Sequence[int] = CONSTANT, **options: Any) -> list[Frame]:
    return frames_at(times_ns, **{"size_wh": SIZE, "pixel_format": PixelFormat.NV12, **options})


def on(gpu: Gpu | None, frame: Frame) -> Frame:
    return frame if gpu is None else dataclasses.replace(frame, surface=frame.surface.to_device(gpu).shared())


class Written:
    """What a step made of frames, which it was given one after another and which nobody kept."""

    def __init__(self, folder: Path, frames: Iterable[Frame], gpu: Gpu | None = None, **options: Any) -> None:
        self.messages: list[Message] = []
        self._path = folder / options.setdefault("path", "film.mp4")
        self._gpu = gpu
        video = Video.model_validate({"quality": 10, **options})
        self.writer: Sink = video.build(site_for("video-1", folder, self.messages, gpu=gpu))
        self._write(frames)

    def _write(self, frames: Iterable[Frame]) -> None:
        before: Frame | None = None
        try:
            for frame in frames:
                copied = dataclasses.replace(frame, surface=dataclasses.replace(frame.surface))
                self.writer.process(make_batches([on(self._gpu, copied)])[0])
                before = frame
            if before is not None:
                self.writer.end_stream(before.stream)
        finally:
            self.writer.close()

    @property
    def film(self) -> Readback:
        return read_back(self._path)

    @property
    def encoder(self) -> str:
        return str(self.writer.totals()["cam"]["encoder"])


def assert_alike(one: Readback, other: Readback) -> None:
    """The same times, and pictures that differ as encoders do."""
    assert one.times_ns() == other.times_ns()
    assert min(psnr(mine, its) for mine, its in zip(one.rgb, other.rgb, strict=True)) > 33


@pytest.fixture
def nvenc(gpu: Gpu) -> NvencDouble:
    return nvenc_double(gpu)


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_every_picture_comes_back_at_its_time_and_none_comes_down(
    tmp_path: Path, gpu: Gpu, nvenc: NvencDouble, codec: str, suffix: str
) -> None:
    options: dict[str, Any] = {"path": f"film.{suffix}", "codec": codec}
    expected = Written(tmp_path / "cpu", nv12(VARIABLE), **options)

    made = Written(tmp_path / "gpu", nv12(VARIABLE), gpu, **options)

    assert (made.encoder, made.writer.runs_on()) == ("NVENC on cuda:0", RunsOn("cuda:0"))
    assert made.film.codec == expected.film.codec
    assert_alike(made.film, expected.film)
    assert gpu.transfers.counts.device_to_host_copies == 0
    assert nvenc.open_count == 0


@pytest.mark.parametrize("size_wh", [SIZE, DENSE])
@pytest.mark.parametrize("pixel_format", [PixelFormat.NV12, PixelFormat.I420])
def test_rows_with_and_without_padding_are_encoded(
    tmp_path: Path, gpu: Gpu, nvenc: NvencDouble, pixel_format: PixelFormat, size_wh: tuple[int, int]
) -> None:
    frames = nv12(pixel_format=pixel_format, size_wh=size_wh)

    made = Written(tmp_path / "gpu", frames, gpu)

    assert [one["size"] for one in nvenc.made] == ["{}x{}".format(*size_wh)]
    assert_alike(made.film, Written(tmp_path / "cpu", frames).film)


def test_memory_that_is_lent_again_at_once_spoils_no_film(tmp_path: Path, gpu: Gpu, nvenc: NvencDouble) -> None:
    frames = nv12(size_wh=DENSE)

    made = Written(tmp_path / "gpu", frames, gpu)

    assert gpu.memory.allocated_bytes < len(frames) * DENSE[0] * DENSE[1] * 3 // 2
    assert_alike(made.film, Written(tmp_path / "cpu", frames).film)


def unawaited(array: DeviceArray, stream: DeviceStream) -> DeviceArray:
    """A mutant of `DeviceArray.on`: the stream does not wait for the content."""
    array.owner.used_on(stream)
    return array


def unguarded(array: DeviceArray, stream: DeviceStream) -> DeviceArray:
    """Another one: memory may be lent again before the stream is done with it."""
    if array.ready is not None:
        stream.wait(array.ready)
    return array


@pytest.mark.parametrize("mutant", [unawaited, unguarded])
def test_a_picture_that_is_not_waited_for_or_not_kept_would_be_noticed(
    tmp_path: Path, driver: DoubleDriver, monkeypatch: pytest.MonkeyPatch, mutant: Any
) -> None:
    gpu = Gpu(driver)
    nvenc_double(gpu)
    frames = nv12(size_wh=DENSE)
    expected = Written(tmp_path / "cpu", frames).film
    monkeypatch.setattr(DeviceArray, "on", mutant)

    with pytest.raises((GpuMisuse, AssertionError)):
        assert_alike(Written(tmp_path / "gpu", frames, gpu).film, expected)


def test_key_pictures_stand_where_they_do_on_the_cpu(tmp_path: Path, gpu: Gpu, nvenc: NvencDouble) -> None:
    made = Written(tmp_path / "gpu", nv12(), gpu, gop="120ms")

    assert made.film.key_ticks == Written(tmp_path / "cpu", nv12(), gop="120ms").film.key_ticks
    assert len(made.film.key_ticks) == 4


@pytest.mark.parametrize("codec", ["h264", "h265"])
@pytest.mark.parametrize(
    ("matrix", "color_range"), [(ColorMatrix.BT709, ColorRange.FULL), (ColorMatrix.BT601, ColorRange.LIMITED)]
)
def test_matrix_and_range_are_tagged_as_on_the_cpu(
    tmp_path: Path, gpu: Gpu, nvenc: NvencDouble, codec: str, matrix: ColorMatrix, color_range: ColorRange
) -> None:
    frames = nv12(CONSTANT[:5], matrix=matrix, color_range=color_range)

    made = Written(tmp_path / "gpu", frames, gpu, codec=codec).film

    expected = Written(tmp_path / "cpu", frames, codec=codec).film
    assert (made.matrix, made.range) == (expected.matrix, expected.range)
    assert_alike(made, expected)


def test_another_size_begins_another_film_with_an_encoder_of_its_own(
    tmp_path: Path, gpu: Gpu, nvenc: NvencDouble
) -> None:
    later = [frame for frame in nv12(size_wh=(192, 96)) if frame.pts_ns > CONSTANT[5]]

    made = Written(tmp_path, [*nv12(CONSTANT[:6]), *later], gpu)

    assert [one["size"] for one in nvenc.made] == ["160x64", "192x96"]
    assert made.film.times_ns() == CONSTANT[:6]
    assert len(read_back(tmp_path / "film-2.mp4").ticks) == len(later) == 6


def test_pictures_of_another_decoder_go_on_in_the_same_film(tmp_path: Path, gpu: Gpu, nvenc: NvencDouble) -> None:
    others = nv12(pixel_format=PixelFormat.I420)
    frames = [
        other if 4 <= index < 8 else frame for index, (frame, other) in enumerate(zip(nv12(), others, strict=True))
    ]

    made = Written(tmp_path / "gpu", frames, gpu)

    assert len(nvenc.made) == 1
    assert_alike(made.film, Written(tmp_path / "cpu", frames).film)


def test_settings_become_those_of_nvenc(tmp_path: Path, gpu: Gpu, nvenc: NvencDouble) -> None:
    Written(tmp_path, nv12(CONSTANT[:2]), gpu, preset="medium", quality=0, path="a.mp4")
    Written(tmp_path, nv12(CONSTANT[:2]), gpu, codec="h265", quality=None, bitrate="1.5M", path="b.mp4")

    by_quality, by_rate = nvenc.made
    assert (by_quality["preset"], by_quality["cq"], by_quality["bitrate"]) == ("P6", 1, 0)
    assert (by_rate["codec"], by_rate["bitrate"], by_rate["maxbitrate"]) == ("hevc", 1_500_000, 3_000_000)
    assert "cq" not in by_rate


LACKS: dict[str, tuple[dict[str, Any], str]] = {
    "4:4:4": ({"pixel_format": PixelFormat.I444}, "NVENC is given nv12 and i420, and these pictures are i444"),
    "odd": ({"size_wh": (161, 64)}, "NVENC takes pictures of even width and height, not 161x64"),
    "small": ({"size_wh": (96, 64)}, "h264: this GPU encodes pictures from 145x49 to 4096x4096, not 96x64"),
}


@pytest.mark.parametrize("kind", LACKS)
def test_what_nvenc_lacks_is_encoded_on_the_cpu_to_the_byte_and_the_report_says_why(
    tmp_path: Path, gpu: Gpu, nvenc: NvencDouble, kind: str
) -> None:
    options, reason = LACKS[kind]
    Written(tmp_path / "cpu", nv12(**options))

    made = Written(tmp_path / "gpu", nv12(**options), gpu)

    assert made.encoder == f"libx264 on the CPU ({reason})"
    assert made.writer.runs_on() == RunsOn("cpu", reason)
    assert [message.text for message in made.messages] == [f"films are encoded on the CPU: {reason}"]
    assert (tmp_path / "gpu" / "film.mp4").read_bytes() == (tmp_path / "cpu" / "film.mp4").read_bytes()


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
    tmp_path: Path, gpu: Gpu, caps: dict[str, NvencCaps], faults: NvencFaults, reason: str
) -> None:
    nvenc_double(gpu, caps=caps, faults=faults)

    made = Written(tmp_path, nv12(), gpu)

    assert re.fullmatch(rf"libx264 on the CPU \({reason}\)", made.encoder)
    assert len(made.film.ticks) == len(CONSTANT)


def test_without_the_library_the_cpu_encodes(tmp_path: Path, gpu: Gpu) -> None:
    made = Written(tmp_path, nv12(), gpu)

    assert made.encoder.startswith("libx264 on the CPU (")
    assert len(made.film.ticks) == len(CONSTANT)


def test_on_the_cpu_one_copy_comes_down_for_a_picture_and_is_under_way_while_another_is_encoded(
    tmp_path: Path, gpu: Gpu, driver: DoubleDriver
) -> None:
    writer = Video(path="film.mp4", encoder="cpu").build(site_for("video-1", tmp_path, gpu=gpu))
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


def test_pictures_in_host_memory_stay_there(tmp_path: Path, gpu: Gpu, nvenc: NvencDouble) -> None:
    writer = Video(path="film.mp4").build(site_for("video-1", tmp_path, gpu=gpu))
    for frame in nv12():
        writer.process(make_batches([frame])[0])
    writer.close()

    assert writer.runs_on() == RunsOn("cpu", "its pictures lie in host memory")
    assert gpu.transfers.counts.host_to_device_copies == 0


def test_who_asks_for_nvenc_gets_it_for_pictures_in_host_memory(tmp_path: Path, gpu: Gpu, nvenc: NvencDouble) -> None:
    writer = Video(path="film.mp4", encoder="nvenc").build(site_for("video-1", tmp_path, gpu=gpu))
    for frame in nv12():
        writer.process(make_batches([frame])[0])
    writer.close()

    assert writer.runs_on() == RunsOn("cuda:0")
    assert len(read_back(tmp_path / "film.mp4").ticks) == len(CONSTANT)


def test_who_asks_for_nvenc_where_there_is_none_is_told_before_anything_runs(tmp_path: Path, gpu: Gpu) -> None:
    with pytest.raises(DeviceUnavailable, match=r"encoder: nvenc can not be used: .*; write encoder: auto"):
        Written(tmp_path, nv12(), gpu, encoder="nvenc")


def test_who_asks_for_nvenc_for_what_it_lacks_is_told(tmp_path: Path, gpu: Gpu, nvenc: NvencDouble) -> None:
    with pytest.raises(OutputError, match=r"film.mp4: NVENC takes pictures of even .*; write encoder: auto"):
        Written(tmp_path, nv12(size_wh=(161, 64)), gpu, encoder="nvenc")


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (NvencFaults(fail_at=frozenset({8})), r"can not encode video to .*film\.mp4: EncodeFrame : Error code : 20"),
        (NvencFaults(lose=frozenset({8})), r"NVENC gave the picture 6 in the place of 5"),
        (NvencFaults(lose=frozenset({12})), r"NVENC gave 9 of 12 pictures"),
    ],
    ids=["fails", "loses one", "loses the last"],
)
def test_an_encoder_that_fails_is_told_of_and_leaves_a_film_that_can_be_read(
    tmp_path: Path, gpu: Gpu, faults: NvencFaults, message: str
) -> None:
    library = nvenc_double(gpu, faults=faults)

    with pytest.raises(OutputError, match=message):
        Written(tmp_path, nv12(), gpu, gop="80ms")

    times = read_back(tmp_path / "film.mp4").times_ns()
    assert 0 < len(times) <= 9
    assert times == CONSTANT[: len(times)]
    gc.collect()
    assert library.open_count == 0


def test_a_gpu_that_breaks_costs_the_pictures_that_were_on_their_way(tmp_path: Path, driver: DoubleDriver) -> None:
    gpu = Gpu(driver)

    def breaking() -> Iterable[Frame]:
        for index, frame in enumerate(nv12()):
            if index == 8:
                driver.fail_next("work", "CUDA_ERROR_ILLEGAL_ADDRESS")
            yield frame

    with pytest.raises(GpuFailed, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        Written(tmp_path, breaking(), gpu)

    assert read_back(tmp_path / "film.mp4").times_ns() == CONSTANT[:7]
    gpu.close()


def test_a_pipeline_from_file_to_film_leaves_every_picture_on_the_gpu(
    clips: dict[str, Path], tmp_path: Path, gpu: Gpu, nvdec: NvdecDouble, nvenc: NvencDouble
) -> None:
    sources = {name: str(path) for name, path in clips.items()}
    steps: list[Any] = [{"draw": {"clock": True}}, {"video": {"path": "{stream}.mp4", "quality": 10}}]
    Pipeline(sources=sources, steps=steps, outputs=tmp_path / "cpu").run()

    report = Pipeline(sources=sources, steps=steps, outputs=tmp_path / "gpu", gpu=gpu).run()

    assert report.transfers is not None
    assert report.transfers.device_to_host_copies == 0
    assert report.runs_on["video-1"] == "cuda:0"
    assert report.totals["video-1"]["gate"] == {"encoder": "NVENC on cuda:0"}
    for name in clips:
        assert_alike(read_back(tmp_path / "gpu" / f"{name}.mp4"), read_back(tmp_path / "cpu" / f"{name}.mp4"))
