"""Every clip decoded on a GPU, against the CPU: every time, size and pixel. The GPU is a double; `tests/gpu` has a real
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import StreamError
from tests.fakes import fake_cuda_device, fake_nvdec
from tests.parity.decode.test_video_facts import CLIPS
from tests.reading import EVERYTHING, Seen, frames_of, media, reader_of, same

SAMPLES = ["dusk.mp4", "entrance.mp4", "gate.mp4", "street.mp4"]
MOST = 40
"""So many frames of a long clip are compared."""
ON_HOPPER = {
    "codec/av1_video.mkv": "av1, 4:2:0, 8 bits: this GPU does not decode it",
    "codec/bear-vp9-odd-dimensions.webm": "vp9, 4:2:0, 8 bits: this GPU decodes images from 128x128",
    "codec/h264_10bits.mp4": "h264, 4:2:0, 10 bits: this GPU does not decode it",
    "codec/h265_video.mp4": "hevc, 4:2:0, 8 bits: this GPU decodes images from 144x144",
    "codec/testsrc2_av1_10bit.mp4": "av1, 4:2:0, 10 bits: this GPU does not decode it",
    "codec/testsrc2_odd_width_444.mp4": "h264, 4:4:4, 8 bits: this GPU does not decode it",
}
"""Clips that an H200 does not decode, and why."""
NEVER = {
    "codec/interlaced_crop.mp4": "its images are interlaced",
    "codec/sample.avi": "is not used for mpeg4",
    "codec/sample_h262_mpeg_audio.ts": "is not used for mpeg2video",
    "codec/testsrc2_odd_height_and_width_mpeg2.mp4": "is not used for mpeg2video",
}
"""Clips that no GPU is given, and why."""


@pytest.fixture
def gpu() -> Iterator[CudaDevice]:
    with fake_cuda_device(memory_bytes=2**27, pinned_bytes=2**27) as gpu:
        yield gpu


def assert_as_on_the_cpu(path: Path, gpu: CudaDevice, *, rotate: object = "auto") -> str | None:
    """Compare all frames, or the first of many; returns why the CPU decoded the stream, None when it did not."""
    source = media(path, rotate=rotate)
    with reader_of(source, gpu) as ours, reader_of(source) as theirs:
        pairs = zip(islice(ours.frames(), MOST), islice(theirs.frames(), MOST), strict=True)
        for number, (frame, other) in enumerate(pairs):
            assert same(Seen.of(frame), Seen.of(other)), number
        assert ours.damaged_packets == theirs.damaged_packets
        return ours.decoder_reason


@pytest.mark.parametrize("name", CLIPS)
def test_a_clip_is_decoded_as_on_the_cpu(shared_data: Path, gpu: CudaDevice, name: str) -> None:
    fake_nvdec(gpu)

    reason = assert_as_on_the_cpu(shared_data / "videos" / name, gpu)

    expected = ON_HOPPER.get(name) or NEVER.get(name)
    assert (reason is None) == (expected is None)
    assert (expected or "") in (reason or "")


@pytest.mark.parametrize("name", ON_HOPPER)
def test_what_other_gpus_decode_is_decoded_as_on_the_cpu(shared_data: Path, gpu: CudaDevice, name: str) -> None:
    fake_nvdec(gpu, caps=EVERYTHING)

    assert assert_as_on_the_cpu(shared_data / "videos" / name, gpu) is None


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_decoded_as_on_the_cpu(repository: Path, gpu: CudaDevice, name: str) -> None:
    fake_nvdec(gpu)

    assert assert_as_on_the_cpu(repository / "sample_videos" / name, gpu) is None


@pytest.mark.parametrize("rotate", [90, 180, 270])
@pytest.mark.parametrize("name", ["codec/h265_10bits.mp4", "codec/testsrc2_odd_height_and_width_vp9.mp4"])
def test_images_are_turned_on_request_as_on_the_cpu(shared_data: Path, gpu: CudaDevice, name: str, rotate: int) -> None:
    fake_nvdec(gpu)

    assert assert_as_on_the_cpu(shared_data / "videos" / name, gpu, rotate=rotate) is None


def test_a_packet_that_does_not_decode_costs_what_it_costs_on_the_cpu(shared_data: Path, gpu: CudaDevice) -> None:
    fake_nvdec(gpu)
    path = shared_data / "videos/hostile/sample_with_invalid_nalu.mp4"

    assert assert_as_on_the_cpu(path, gpu) is None
    assert frames_of(path, gpu)[1].damaged_packets == 1


def test_times_and_damaged_packets_of_a_damaged_clip_are_those_of_the_cpu(shared_data: Path, gpu: CudaDevice) -> None:
    fake_nvdec(gpu)
    path = shared_data / "videos/hostile/corrupted.mp4"

    (ours, reader), (theirs, on_cpu) = frames_of(path, gpu), frames_of(path)

    assert [frame.pts_ns for frame in ours] == [frame.pts_ns for frame in theirs]
    assert reader.damaged_packets == on_cpu.damaged_packets == 1


@pytest.mark.parametrize("name", ["short-cenc.mp4", "invalid-bitstream.webm", "zero_empty_stsc.mp4"])
def test_what_the_cpu_can_not_decode_ends_with_the_same_words(shared_data: Path, gpu: CudaDevice, name: str) -> None:
    fake_nvdec(gpu)
    said = []
    for device in (gpu, None):
        with pytest.raises(StreamError) as raised:
            frames_of(shared_data / "videos/hostile" / name, device)
        said.append(str(raised.value))

    assert said[0] == said[1]
