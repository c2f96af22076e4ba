"""Each image is paired with its packet."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.devices import Device, DeviceKind
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Site
from sightline_plugins.decode.decoder import DecodeSettings, Image
from sightline_plugins.decode.nvdec_session import ANY_COMPARISON, LONGEST_STAY, Submission, Submitted
from sightline_plugins.decode.open_media import OpenOptions
from sightline_plugins.decode.video import VideoDecoder
from tests.fakes import fake_nvdec
from tests.integration.sources.clips import write_clip
from tests.reading import media, reader_of


def packet(pts: int | None, *, dts: int | None = None, number: int | None = None) -> Submission:
    return Submission(pts, dts, is_discard=False, number=number)


def test_images_come_out_in_another_order_than_packets_go_in() -> None:
    submitted = Submitted(reorder_depth=2)
    for number, pts in enumerate((0, 120, 40, 80)):
        submitted.put(packet(pts, number=number))

    assert [submitted.take(pts).number for pts in (0, 40, 80, 120)] == [0, 2, 3, 1]


def test_packets_with_the_same_time_are_told_apart_by_their_order() -> None:
    submitted = Submitted(reorder_depth=0)
    marks = [submitted.put(packet(40, number=number)) for number in (7, 8)]

    assert [submitted.take(mark).number for mark in marks] == [7, 8]


def test_packets_without_a_time_carry_marks_of_their_own() -> None:
    submitted = Submitted(reorder_depth=0)
    marks = [submitted.put(packet(None, number=number)) for number in (7, 8)]

    taken = [submitted.take(mark) for mark in reversed(marks)]

    assert [(one.pts, one.number) for one in taken] == [(None, 8), (None, 7)]


def test_a_time_that_no_packet_carried_says_nothing() -> None:
    submitted = Submitted(reorder_depth=0)
    submitted.put(packet(40, number=7))

    assert submitted.take(41) == packet(None)._replace(comparison=ANY_COMPARISON)


def test_negative_times_are_times() -> None:
    submitted = Submitted(reorder_depth=0)

    assert submitted.take(submitted.put(packet(-1024, number=7))) == packet(-1024, number=7)


def test_packets_that_give_no_image_are_overdue_at_last_and_counted_once() -> None:
    submitted = Submitted(reorder_depth=0)
    submitted.put(packet(0))
    found = []
    for pts in range(1, 3 * LONGEST_STAY):
        submitted.take(submitted.put(packet(pts)))
        found.append(submitted.overdue())

    assert sum(found) == 1
    assert submitted.left() == 0


def test_packets_without_an_image_are_left_at_the_end() -> None:
    submitted = Submitted(reorder_depth=0)
    marks = [submitted.put(packet(pts)) for pts in (0, 40, 80)]
    submitted.take(marks[0])

    assert submitted.left() == 2


def test_a_time_before_that_of_an_earlier_packet_shows_that_there_are_b_frames() -> None:
    submitted = Submitted(reorder_depth=0)
    for pts in (0, 40, None, 80):
        submitted.put(packet(pts))
    assert not submitted.is_reordered

    submitted.put(packet(60))

    assert submitted.is_reordered


@pytest.mark.parametrize("b_frames", [0, 2])
def test_images_without_a_presentation_time_have_the_decoding_time_that_the_cpu_s_have(
    gpu: CudaDevice, tmp_path: Path, b_frames: int
) -> None:
    fake_nvdec(gpu)
    path = write_clip(tmp_path / "clip.mp4", count=40, b_frames=b_frames)

    assert times_without_pts(path, gpu) == times_without_pts(path, None)


def times_without_pts(path: Path, gpu: CudaDevice | None) -> list[tuple[int | None, int | None]]:
    """Times of the images of a clip whose packets have lost their presentation times."""
    decoder = VideoDecoder(
        str(path),
        stream="cam",
        options=OpenOptions(),
        decoding=DecodeSettings(gpu=gpu),
        warn=lambda text: None,
        on_damage=lambda: None,
    )
    images: list[Image] = []
    for packet in decoder.packets():
        packet.pts = None
        images += decoder.decode(packet)
    decoder.close()
    return [(image.pts, image.dts) for image in images]


def test_frames_know_the_numbers_of_their_packets_as_on_the_cpu(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu)
    path = write_clip(tmp_path / "clip.mp4", count=20)

    found = numbers(path, gpu)

    assert sorted(found) == list(range(1, 21))
    assert found == numbers(path, None)


def numbers(path: Path, gpu: CudaDevice | None) -> list[int]:
    """The packets of the frames of a file, with somebody who wants them kept."""
    device = Device() if gpu is None else Device(DeviceKind.CUDA, gpu.index)
    site = Site(device=device, gpu=gpu)
    site.packets.want(None, duration_ns=10**10, limit_bytes=10**6)
    with reader_of(media(path), site=site) as reader:
        return [frame.packet for frame in reader.frames() if frame.packet is not None]
