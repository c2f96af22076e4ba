"""Changes and faults in mid-stream: another size, damage, a decoder that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import CudaFailed, SurfaceReleased
from sightline_plugins.decode.decoder import DecodeSettings
from sightline_plugins.decode.open_media import OpenOptions
from sightline_plugins.decode.video import VideoDecoder
from tests.fakes import FakeCudaDriver, fake_nvdec
from tests.fakes.nvdec import HOPPER, Caps, NvdecFaults
from tests.integration.sources.clips import SMALL, TALL, WIDE, write_changing, write_clip
from tests.reading import all_same, frames_of, media, reader_of

COUNT = 30
KEYS = 10


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", count=COUNT, key_every=KEYS)


@pytest.mark.parametrize("sizes_wh", [(SMALL, WIDE, SMALL), (WIDE, SMALL, TALL)])
def test_every_size_has_a_decoder_of_its_own_and_no_frame_is_lost(
    gpu: CudaDevice, tmp_path: Path, sizes_wh: tuple[tuple[int, int], ...]
) -> None:
    library = fake_nvdec(gpu)
    path = write_changing(tmp_path / "changing.ts", *sizes_wh)

    ours, reader = frames_of(path, gpu)

    theirs, on_cpu = frames_of(path)
    assert [frame.size_wh for frame in ours] == [size_wh for size_wh in sizes_wh for _ in range(COUNT)]
    assert all_same(ours, theirs)
    assert reader.damaged_packets == on_cpu.damaged_packets
    assert len(library.made) == len(sizes_wh)


def test_from_a_size_that_the_gpu_lacks_the_cpu_goes_on_and_no_frame_is_lost(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu, caps={"H264": Caps(HOPPER["H264"].depths, max_size_wh=(200, 200))})
    path = write_changing(tmp_path / "changing.ts", SMALL, WIDE, SMALL)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder == "cpu"
    assert reader.decoder_reason is not None
    assert "not 320x192" in reader.decoder_reason


@pytest.mark.parametrize("count", [1, 2, 3])
def test_images_that_had_not_come_out_when_the_cpu_goes_on_come_once(
    gpu: CudaDevice, tmp_path: Path, count: int
) -> None:
    fake_nvdec(gpu, caps={"H264": Caps(HOPPER["H264"].depths, max_size_wh=(200, 200))})
    path = write_changing(tmp_path / "changing.ts", SMALL, WIDE, count=count)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder == "cpu"


def test_the_same_parameter_sets_again_are_no_change(gpu: CudaDevice, tmp_path: Path) -> None:
    library = fake_nvdec(gpu)

    frames_of(write_changing(tmp_path / "changing.ts", SMALL, SMALL), gpu)

    assert len(library.made) == 1


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_where_nvdec_fails_before_its_first_image_the_cpu_begins_anew(
    gpu: CudaDevice, clip: Path, failing: int
) -> None:
    library = fake_nvdec(gpu, faults=NvdecFaults(fail_at=frozenset({failing})))

    ours, reader = frames_of(clip, gpu)

    assert all_same(ours, frames_of(clip)[0])
    assert reader.decoder_reason == "NVDEC failed: Error code : 719 Error Type : CUDA_ERROR_LAUNCH_FAILED"
    assert (reader.damaged_packets, library.open_count) == (0, 0)


def test_after_a_fault_another_decoder_goes_on_at_the_next_key_frame(gpu: CudaDevice, clip: Path) -> None:
    library = fake_nvdec(gpu, faults=NvdecFaults(fail_at=frozenset({15})))

    ours, reader = frames_of(clip, gpu)

    shown = [frame.luma - 16 for frame in ours]
    assert shown[-KEYS:] == list(range(2 * KEYS, COUNT))
    assert shown[:KEYS] == list(range(KEYS))
    assert reader.damaged_packets == COUNT // KEYS * KEYS - len(range(15)) - KEYS
    assert (reader.decoder, len(library.made)) == ("nvdec", 2)


def test_after_three_faults_in_a_row_the_cpu_goes_on(gpu: CudaDevice, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", count=60, key_every=KEYS)
    fake_nvdec(gpu, faults=NvdecFaults(fail_at=frozenset({15, 16, 17})))

    ours, reader = frames_of(path, gpu)

    assert [frame.luma - 16 for frame in ours][-KEYS:] == list(range(50, 60))
    assert reader.decoder_reason is not None
    assert reader.decoder_reason.startswith("NVDEC failed 3 times in a row: Error code : 719")


def test_faults_with_images_between_them_are_no_reason_to_leave_nvdec(gpu: CudaDevice, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", count=150, key_every=KEYS)
    library = fake_nvdec(gpu, faults=NvdecFaults(fail_at=frozenset({15, 35, 55, 75})))

    _, reader = frames_of(path, gpu)

    assert (reader.decoder, len(library.made)) == ("nvdec", 5)


def test_a_gpu_that_breaks_while_it_decodes_is_no_reason_to_go_on_with_the_cpu(
    gpu: CudaDevice, driver: FakeCudaDriver, clip: Path
) -> None:
    fake_nvdec(gpu, faults=NvdecFaults(fail_at=frozenset({1})))
    driver.fail_next("synchronize", "launch failure")

    with reader_of(media(clip), gpu) as reader:
        with pytest.raises(CudaFailed, match="launch failure"):
            list(reader.frames())
        assert reader.decoder_reason is None


@pytest.mark.parametrize("passed_over", [7, 158])
def test_a_packet_that_gives_no_image_is_damaged(gpu: CudaDevice, tmp_path: Path, passed_over: int) -> None:
    path = write_clip(tmp_path / "clip.mp4", count=160, b_frames=0, key_every=5)
    fake_nvdec(gpu, faults=NvdecFaults(pass_over=frozenset({passed_over})))

    ours, reader = frames_of(path, gpu)

    assert (len(ours), reader.damaged_packets) == (159, 1)


def test_a_packet_that_gives_no_image_is_counted_while_the_stream_runs(gpu: CudaDevice, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", count=160, b_frames=0, key_every=5)
    fake_nvdec(gpu, faults=NvdecFaults(pass_over=frozenset({7})))

    with reader_of(media(path), gpu) as reader:
        counted = [reader.damaged_packets for _ in reader.frames()]

    assert counted[140] == 1


def test_a_decoder_that_gives_nothing_is_at_fault(gpu: CudaDevice, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", count=100, key_every=25)
    fake_nvdec(gpu, faults=NvdecFaults(is_mute=True))

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder_reason == "NVDEC failed: no image for 64 packets"


def test_a_decoder_that_gives_nothing_for_a_short_clip_is_at_fault(gpu: CudaDevice, clip: Path) -> None:
    fake_nvdec(gpu, faults=NvdecFaults(is_mute=True))

    ours, reader = frames_of(clip, gpu)

    assert all_same(ours, frames_of(clip)[0])
    assert reader.decoder_reason == "NVDEC gave no image"


def test_images_that_do_not_lie_as_expected_are_not_taken(gpu: CudaDevice, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", count=COUNT)
    fake_nvdec(gpu, faults=NvdecFaults(is_padded=True))

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder_reason == "NVDEC failed: it gives images as NV12 of 192x96, not as NV12 of 160x96"


def test_an_image_is_gone_when_its_decoder_has_had_another_packet(gpu: CudaDevice, clip: Path) -> None:
    fake_nvdec(gpu)
    decoder = VideoDecoder(
        str(clip),
        stream="cam",
        options=OpenOptions(),
        decoding=DecodeSettings(gpu=gpu),
        warn=lambda text: None,
        on_damage=lambda: None,
    )
    images = decoder.images()
    next(images)  # it was compared, and is a copy
    second = next(images)
    next(images)

    with pytest.raises(SurfaceReleased, match="this image is gone"):
        second.surface()

    decoder.close()
