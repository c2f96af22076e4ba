"""The first image of NVDEC is compared with the CPU's, and the CPU goes on where they differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from av.video.frame import VideoFrame

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Message, MessageKind
from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline_plugins.codecs.sps import Crop
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.decode.nvdec_verification import compare
from sightline_plugins.decode.orientation import UPRIGHT
from sightline_plugins.sources.live.rtsp import Rtsp
from tests.fakes import fake_nvdec
from tests.fakes.nvdec import NvdecFaults
from tests.integration.sources.clips import write_clip
from tests.integration.sources.cropped import Coding, write_changing_crop, write_cropped
from tests.reading import EVERYTHING, Seen, all_same, frames_of, media, same

ALWAYS = range(10_000)
COUNT, KEYS = 20, 10
ONCE = CameraOptions(paced=False, passes=1)
CODINGS = [
    Coding("libx264"),
    Coding("libx264", b_frames=2),
    Coding("libx264", size_wh=(150, 90)),
    Coding("libx265", b_frames=2),
    Coding("libx265", parameters="open-gop=1", b_frames=3),
    Coding("libx265", pixel_format="yuv420p10le"),
    Coding("libx265", pixel_format="yuv444p"),
]


def padding(coding: Coding) -> Crop:
    """The crop that every encoder writes: what a size lacks to a multiple of 16."""
    width, height = coding.size_wh
    return Crop(0, 0, -width % 16, -height % 16)


@pytest.mark.parametrize("suffix", ["mp4", "ts"])
@pytest.mark.parametrize("coding", CODINGS, ids=str)
def test_from_a_first_image_that_differs_the_cpu_decodes_and_no_frame_is_lost(
    gpu: CudaDevice, tmp_path: Path, coding: Coding, suffix: str
) -> None:
    library = fake_nvdec(gpu, caps=EVERYTHING, faults=NvdecFaults(shifted=ALWAYS))
    path = write_cropped(tmp_path / f"clip.{suffix}", padding(coding), coding=coding)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder == "cpu"
    assert (reader.decoder_reason or "").startswith("NVDEC's image differs from the CPU's: 9")
    assert (reader.damaged_packets, len(library.made), library.open_count) == (0, 1, 0)


@pytest.mark.parametrize("coding", CODINGS, ids=str)
def test_images_that_are_the_same_stay_with_nvdec(gpu: CudaDevice, tmp_path: Path, coding: Coding) -> None:
    fake_nvdec(gpu, caps=EVERYTHING)
    path = write_cropped(tmp_path / "clip.mp4", padding(coding), coding=coding)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert (reader.decoder, reader.decoder_reason) == ("nvdec", None)


def test_one_frame_of_a_stream_is_compared_and_no_more(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu)
    path = write_cropped(tmp_path / "clip.mp4", Crop(), count=50)

    report = Pipeline(sources={"gate": path}, steps=[], gpu=gpu).run()

    assert report.transfers is not None
    assert report.transfers.device_to_host_bytes == 160 * 96 * 3 // 2


def test_on_request_nothing_is_compared(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu, faults=NvdecFaults(shifted=ALWAYS))
    path = write_cropped(tmp_path / "clip.mp4", Crop())

    ours, reader = frames_of(media(path, verify_nvdec=False), gpu)

    theirs, _ = frames_of(path)
    assert reader.decoder == "nvdec"
    assert [frame.pts_ns for frame in ours] == [frame.pts_ns for frame in theirs]
    assert not any(map(same, ours, theirs))


@pytest.mark.parametrize("b_frames", [0, 2])
def test_the_first_image_after_a_change_of_format_is_compared(gpu: CudaDevice, tmp_path: Path, b_frames: int) -> None:
    library = fake_nvdec(gpu, faults=NvdecFaults(shifted=range(COUNT + 2, 10_000)))
    coding = Coding("libx264", b_frames=b_frames)
    path = write_changing_crop(tmp_path / "clip.ts", Crop(), Crop(0, 0, 8), Crop(), coding=coding)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert (reader.decoder, len(library.made)) == ("cpu", 2)


def test_an_image_without_detail_is_not_the_last_to_be_compared(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu, faults=NvdecFaults(shifted=ALWAYS))
    path = dark_at_first(tmp_path)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder == "cpu"


def test_images_without_detail_are_no_reason_to_leave_nvdec(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu)
    path = dark_at_first(tmp_path)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert (reader.decoder, reader.decoder_reason) == ("nvdec", None)


@pytest.mark.parametrize("late_by", [1, 2, 3])
def test_images_without_detail_stay_in_their_order(gpu: CudaDevice, tmp_path: Path, late_by: int) -> None:
    fake_nvdec(gpu, faults=NvdecFaults(late_by=late_by))
    path = write_clip(tmp_path / "flat.ts", count=COUNT, key_every=KEYS, b_frames=2)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder == "nvdec"


def dark_at_first(folder: Path) -> Path:
    """A clip of two key frames without detail, then two with, which has no other parameter sets."""
    first = write_clip(folder / "first.ts", count=COUNT, key_every=KEYS, b_frames=0)
    stamps = COUNT * 40
    second = write_cropped(folder / "second.ts", Crop(), first_ms=stamps)
    path = folder / "clip.ts"
    path.write_bytes(first.read_bytes() + second.read_bytes())
    return path


def test_a_key_frame_whose_image_does_not_come_is_left_to_the_cpu(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu, faults=NvdecFaults(is_untimed=True))
    path = write_cropped(tmp_path / "clip.mp4", Crop(), count=50)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder_reason == "NVDEC gives no image of a key frame"


@pytest.mark.parametrize("count", [1, 2, 8])
def test_the_same_of_a_short_clip(gpu: CudaDevice, tmp_path: Path, count: int) -> None:
    fake_nvdec(gpu, faults=NvdecFaults(is_untimed=True))
    path = write_cropped(tmp_path / "clip.mp4", Crop(), count=count)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder_reason == "NVDEC gives no image of a key frame"


def as_seen(frames: list[Seen]) -> list[tuple[bytes, ...]]:
    return [tuple(plane.tobytes() for plane in frame.planes) for frame in frames]


@pytest.mark.parametrize(("shifted", "made", "decoder"), [(range(1), 2, "nvdec"), (ALWAYS, 3, "cpu")])
def test_a_camera_is_given_to_nvdec_again_at_its_next_key_frame_twice(
    gpu: CudaDevice, tmp_path: Path, shifted: range, made: int, decoder: str
) -> None:
    library = fake_nvdec(gpu, faults=NvdecFaults(shifted=shifted))
    clip = load_clip(str(write_cropped(tmp_path / "clip.mp4", Crop(), count=5 * KEYS)))
    with FakeCamera(clip, options=ONCE) as camera:
        ours, reader = frames_of(Rtsp(uri=camera.url), gpu)
        theirs, _ = frames_of(Rtsp(uri=camera.url))

    assert len(ours) == 5 * KEYS
    assert as_seen(ours) == as_seen(theirs)
    assert (reader.decoder, len(library.made)) == (decoder, made)


def test_why_the_cpu_decodes_is_reported_once(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu, faults=NvdecFaults(shifted=ALWAYS))
    path = write_cropped(tmp_path / "clip.mp4", Crop())
    messages: list[Message] = []
    pipeline = Pipeline(sources={"gate": path}, steps=[], gpu=gpu)
    pipeline.on_message(messages.append)

    report = pipeline.run().to_json()

    [warning] = [one.text for one in messages if one.kind is MessageKind.WARNING]
    assert warning.startswith("it is decoded by the CPU: NVDEC's image differs from the CPU's: 9")
    assert report["streams"]["gate"]["decoder"].startswith("cpu (NVDEC's image differs from the CPU's: 9")


NOISE = np.random.default_rng(3).integers(16, 235, (36, 16), np.uint8)


def surface_of(planes: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> Surface:
    return Surface(
        PixelFormat.I420,
        (16, 24),
        (planes[:24], planes[24:30].reshape(12, 8), planes[30:].reshape(12, 8)),
        ColorMatrix.BT601,
        ColorRange.LIMITED,
    )


def reference_of(planes: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> VideoFrame:
    return VideoFrame.from_ndarray(np.ascontiguousarray(planes), "yuv420p")


@pytest.mark.parametrize("offset", [0, 1, -1])
def test_rounding_by_another_dither_is_no_difference(offset: int) -> None:
    verdict = compare(
        surface_of(NOISE), reference_of((NOISE.astype(np.int16) + offset).astype(np.uint8)), orientation=UPRIGHT
    )

    assert (verdict.difference, verdict.is_telling) == (None, True)


@pytest.mark.parametrize("row", [0, 25, 35])
def test_one_sample_of_any_plane_is_a_difference(row: int) -> None:
    planes = NOISE.copy()
    planes[row, 5] ^= 128

    verdict = compare(surface_of(planes), reference_of(NOISE), orientation=UPRIGHT)

    assert verdict.difference == "0.2% of its samples, by up to 128 levels"


def test_another_size_is_a_difference() -> None:
    reference = VideoFrame.from_ndarray(np.zeros((24, 16), np.uint8), "yuv420p")

    assert compare(surface_of(NOISE), reference, orientation=UPRIGHT).difference == "16x24 instead of 16x16"


def test_an_image_without_detail_tells_nothing() -> None:
    planes = np.full((36, 16), 16, np.uint8)

    verdict = compare(surface_of(planes), reference_of(planes), orientation=UPRIGHT)

    assert (verdict.difference, verdict.is_telling) == (None, False)
