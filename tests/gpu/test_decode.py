"""Decoding on a real GPU: what its double does is what NVDEC does, and both do what the CPU does."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.media import Memory
from sightline_plugins.codecs.sps import Crop
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.decode.nvdec_library import NvdecError, library_for
from sightline_plugins.decode.nvdec_surfaces import ImageSurfaces
from sightline_plugins.sources.live.rtsp import Rtsp
from tests.integration.sources.clips import SMALL, TALL, WIDE, write_changing, write_clip
from tests.integration.sources.cropped import Coding, write_changing_crop
from tests.parity.decode.test_nvdec import NEVER, SAMPLES, assert_as_on_the_cpu
from tests.parity.decode.test_video_facts import CLIPS
from tests.reading import all_same, frames_of, media, reader_of
from tests.unit.decode.nvdec.no_copy import surface_of_the_decoder
from tests.unit.decode.nvdec.test_decoder import held_while_100_others_are_decoded

pytestmark = pytest.mark.gpu
COUNT = 30
VISITS = 200
SLACK_BYTES = 64 * 2**20


@pytest.fixture(autouse=True)
def _nvdec(gpu: CudaDevice) -> None:
    try:
        library_for(gpu)
    except NvdecError as error:
        pytest.skip(str(error))


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip.mp4", count=110)


@pytest.mark.parametrize("name", CLIPS)
def test_a_clip_is_decoded_as_on_the_cpu(shared_data: Path, gpu: CudaDevice, name: str) -> None:
    reason = assert_as_on_the_cpu(shared_data / "videos" / name, gpu)

    assert NEVER.get(name, "") in (reason or "")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_decoded_by_nvdec_as_on_the_cpu(repository: Path, gpu: CudaDevice, name: str) -> None:
    assert assert_as_on_the_cpu(repository / "sample_videos" / name, gpu) is None


@pytest.mark.parametrize("rotate", [90, 180, 270])
def test_images_of_10_bits_are_turned_as_on_the_cpu(shared_data: Path, gpu: CudaDevice, rotate: int) -> None:
    assert_as_on_the_cpu(shared_data / "videos/codec/h265_10bits.mp4", gpu, rotate=rotate)


def test_a_held_frame_stays_what_it_was_while_100_others_are_decoded(gpu: CudaDevice, clip: Path) -> None:
    first, later = held_while_100_others_are_decoded(gpu, clip)

    assert later == first


def test_without_a_copy_a_held_frame_would_not_stay_what_it_was(
    gpu: CudaDevice, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageSurfaces, "surface", surface_of_the_decoder)

    first, later = held_while_100_others_are_decoded(gpu, clip)

    assert later != first


@pytest.mark.parametrize("sizes_wh", [(SMALL, WIDE, SMALL), (WIDE, SMALL, TALL)])
def test_a_size_that_changes_is_followed(
    gpu: CudaDevice, tmp_path: Path, sizes_wh: tuple[tuple[int, int], ...]
) -> None:
    path = write_changing(tmp_path / "changing.ts", *sizes_wh)

    ours, reader = frames_of(path, gpu)

    assert reader.decoder == "nvdec"
    assert [frame.size_wh for frame in ours] == [size_wh for size_wh in sizes_wh for _ in range(COUNT)]
    assert all_same(ours, frames_of(path)[0])


@pytest.mark.parametrize("b_frames", [0, 2])
def test_every_frame_of_a_camera_comes_in_order(gpu: CudaDevice, tmp_path: Path, b_frames: int) -> None:
    clip = load_clip(str(write_clip(tmp_path / "clip.mp4", count=COUNT, b_frames=b_frames)))
    options = CameraOptions(paced=False, passes=1, holds=not b_frames)
    with FakeCamera(clip, options=options) as camera:
        seen, reader = frames_of(Rtsp.model_validate({"uri": camera.url, "stall_timeout": "1s"}), gpu)

    assert [frame.luma - 16 for frame in seen] == list(range(COUNT))
    assert {frame.memory for frame in seen} == {Memory.CUDA}
    assert reader.decoder == "nvdec"


def test_200_decoders_leave_the_memory_of_the_gpu_as_it_was(gpu: CudaDevice, clip: Path) -> None:
    free = []
    for _ in range(VISITS):
        with reader_of(media(clip), gpu) as reader:
            for frame in islice(reader.frames(), 2):
                frame.surface.to_host()
        with gpu.guard("asking for its memory") as driver:
            free.append(driver.free_memory_bytes()[0])

    assert free[-1] >= free[5] - SLACK_BYTES


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_a_crop_at_left_and_top_that_changes_is_followed(gpu: CudaDevice, tmp_path: Path, codec: str) -> None:
    crops = [Crop(8), Crop(0, 0, 8), Crop(2, 6, 6, 2), Crop()]
    path = write_changing_crop(tmp_path / "clip.ts", *crops, coding=Coding(codec, size_wh=(320, 192)))

    ours, reader = frames_of(path, gpu)

    assert reader.decoder == "nvdec"
    assert all_same(ours, frames_of(path)[0])
