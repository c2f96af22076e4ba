"""A stream decoded on a GPU: surfaces that are ours, all frames, and the CPU for what NVDEC does not decode."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import CudaFailed
from sightline.media import Memory, Surface
from sightline_plugins.decode.nvdec_surfaces import ImageSurfaces
from tests.fakes import FakeCudaDriver, fake_nvdec
from tests.integration.sources.clips import write_clip
from tests.reading import SMALL, all_same, frames_of, media, reader_of
from tests.unit.decode.nvdec.no_copy import surface_of_the_decoder

COUNT = 110


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", count=COUNT)


def luma(surface: Surface) -> int:
    return int(surface.to_host().planes[0][0, 0])


def test_frames_lie_in_the_memory_of_the_gpu_and_the_stream_says_what_decodes_it(gpu: CudaDevice, clip: Path) -> None:
    fake_nvdec(gpu)

    seen, reader = frames_of(clip, gpu)

    assert {frame.memory for frame in seen} == {Memory.CUDA}
    assert (reader.decoder, reader.decoder_reason) == ("nvdec", None)
    assert gpu.transfers.counts.host_to_device_copies == 0


def test_the_last_frames_come_at_the_end(gpu: CudaDevice, clip: Path) -> None:
    fake_nvdec(gpu)

    seen, _ = frames_of(clip, gpu)

    assert [frame.luma for frame in seen] == [16 + number for number in range(COUNT)]


def held_while_100_others_are_decoded(gpu: CudaDevice, clip: Path) -> tuple[list[int], list[int]]:
    """What some frames show at once, and what they show 100 frames later."""
    with reader_of(media(clip), gpu) as reader:
        frames = reader.frames()
        held = [frame.surface for frame in islice(frames, 5)]
        for _ in islice(frames, 100):
            pass
        return list(range(16, 21)), [luma(surface) for surface in held]


def test_a_held_frame_stays_what_it_was_while_100_others_are_decoded(gpu: CudaDevice, clip: Path) -> None:
    fake_nvdec(gpu)

    first, later = held_while_100_others_are_decoded(gpu, clip)

    assert later == first


def test_without_a_copy_a_held_frame_would_not_stay_what_it_was(
    gpu: CudaDevice, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvdec(gpu)
    monkeypatch.setattr(ImageSurfaces, "surface", surface_of_the_decoder)

    first, later = held_while_100_others_are_decoded(gpu, clip)

    assert later != first


def test_frames_that_are_left_out_are_not_copied(gpu: CudaDevice, driver: FakeCudaDriver, clip: Path) -> None:
    fake_nvdec(gpu)

    with reader_of(media(clip, max_fps=1), gpu) as reader:
        kept = len(list(reader.frames()))
        made = gpu.handle_counts[1]

    assert (kept, kept + reader.skipped_frames) == (5, COUNT)
    assert made < COUNT


@pytest.mark.parametrize("options", [{"start": "1s"}, {"start": "1s", "duration": "1s"}, {"loop": 2, "max_fps": 10}])
def test_parts_and_passes_are_those_of_the_cpu(gpu: CudaDevice, clip: Path, options: dict[str, object]) -> None:
    fake_nvdec(gpu)

    ours, reader = frames_of(media(clip, **options), gpu)

    assert reader.decoder == "nvdec"
    assert all_same(ours, frames_of(media(clip, **options))[0])


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("clip.avi", "libx264", {}),  # B-frames without presentation times
        ("clip.h264", "libx264", {}),  # no times at all
        ("clip.ts", "libx264", {}),
        ("clip.mkv", "libx265", {}),
        ("clip.mp4", "libx264", {"stamps_ms": [5000 + 40 * n + n % 3 for n in range(30)]}),
    ],
)
def test_times_are_those_of_the_cpu(
    gpu: CudaDevice, tmp_path: Path, name: str, codec: str, options: dict[str, list[int]]
) -> None:
    fake_nvdec(gpu, caps=SMALL)
    path = write_clip(tmp_path / name, count=30, codec=codec, stamps_ms=options.get("stamps_ms"))

    ours, reader = frames_of(path, gpu)

    theirs, _ = frames_of(path)
    assert reader.decoder == "nvdec"
    assert [frame.pts_ns for frame in ours] == [frame.pts_ns for frame in theirs]
    assert all_same(ours, theirs)


def test_parameter_sets_that_stand_in_the_container_alone_are_given_to_the_decoder(
    gpu: CudaDevice, tmp_path: Path
) -> None:
    fake_nvdec(gpu)
    path = write_clip(tmp_path / "clip.avi", count=20, sets_outside=True)

    ours, reader = frames_of(path, gpu)

    assert reader.decoder == "nvdec"
    assert all_same(ours, frames_of(path)[0])


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_whoever_draws_on_a_frame_need_not_copy_it(gpu: CudaDevice, tmp_path: Path, codec: str) -> None:
    fake_nvdec(gpu)

    with reader_of(media(write_clip(tmp_path / "clip.mp4", count=5, codec=codec)), gpu) as reader:
        assert all(frame.surface.exclusive for frame in reader.frames())


def test_a_codec_that_is_not_for_nvdec_is_decoded_by_the_cpu_and_uploaded(gpu: CudaDevice, tmp_path: Path) -> None:
    library = fake_nvdec(gpu)
    path = write_clip(tmp_path / "clip.avi", count=5, codec="mpeg4")

    seen, reader = frames_of(path, gpu)

    assert {frame.memory for frame in seen} == {Memory.CUDA}
    assert reader.decoder == "cpu"
    assert reader.decoder_reason is not None
    assert "not used for mpeg4" in reader.decoder_reason
    assert gpu.transfers.counts.host_to_device_bytes == 5 * 160 * 96 * 3 // 2
    assert library.made == []


def test_what_the_gpu_does_not_decode_is_not_tried(gpu: CudaDevice, clip: Path) -> None:
    library = fake_nvdec(gpu, caps={})

    seen, reader = frames_of(clip, gpu)

    assert reader.decoder_reason == "h264, 4:2:0, 8 bits: this GPU does not decode it"
    assert (len(seen), library.made) == (COUNT, [])


def test_without_the_library_the_cpu_decodes(gpu: CudaDevice, clip: Path) -> None:
    seen, reader = frames_of(clip, gpu)

    assert (len(seen), reader.decoder) == (COUNT, "cpu")
    assert reader.decoder_reason is not None


def test_a_broken_gpu_ends_the_stream_with_its_first_cause(gpu: CudaDevice, driver: FakeCudaDriver, clip: Path) -> None:
    library = fake_nvdec(gpu)
    driver.fail_next("work", "illegal address")

    with pytest.raises(CudaFailed, match="illegal address"):
        frames_of(clip, gpu)

    assert len(library.made) == 1


def test_no_decoder_is_made_on_a_broken_gpu(gpu: CudaDevice, driver: FakeCudaDriver, clip: Path) -> None:
    library = fake_nvdec(gpu)
    driver.fail_next("synchronize", "launch failure")
    with pytest.raises(CudaFailed):
        gpu.main_stream.synchronize()

    with reader_of(media(clip), gpu) as reader, pytest.raises(CudaFailed, match="launch failure"):
        next(reader.frames())

    assert library.made == []
