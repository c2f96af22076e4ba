"""Surfaces in GPU memory: no copy that is not asked for and counted, none that is made twice, none that shows late."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.media import ColorMatrix, ColorRange, Memory, PixelFormat, Surface
from sightline.testing import make_frames
from tests.fakes.cuda_driver import FakeCudaDriver

SIZES = [(16, 8), (15, 7), (300, 2)]


def image(pixel_format: PixelFormat = PixelFormat.NV12, size_wh: tuple[int, int] = (16, 8)) -> Surface:
    (frame,) = make_frames(
        1, size_wh=size_wh, pixel_format=pixel_format, matrix=ColorMatrix.BT709, color_range=ColorRange.FULL
    )
    return frame.surface


def assert_same(first: Surface, second: Surface) -> None:
    for one, other in zip(first.planes, second.planes, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size_wh", SIZES)
@pytest.mark.parametrize("pixel_format", list(PixelFormat))
def test_an_image_survives_the_way_there_and_back(
    gpu: CudaDevice, pixel_format: PixelFormat, size_wh: tuple[int, int]
) -> None:
    surface = image(pixel_format, size_wh)

    there = surface.to_device(gpu)
    back = there.to_host()

    assert (there.memory, back.memory) == (Memory.CUDA, Memory.HOST)
    assert (back.format, back.size_wh, back.matrix, back.range) == (pixel_format, size_wh, "bt709", "full")
    assert_same(back, surface)


def test_both_ways_are_counted(gpu: CudaDevice) -> None:
    surface = image(size_wh=(15, 7))

    surface.to_device(gpu).to_host()

    counts = gpu.transfers.counts
    assert (counts.host_to_device_bytes, counts.device_to_host_bytes) == (15 * 7 + 16 * 4, 15 * 7 + 16 * 4)


def test_several_takers_pay_once(gpu: CudaDevice) -> None:
    surface = image()
    there = surface.to_device(gpu)
    takers = [there, there.shared(), dataclasses.replace(there, owner="another")]

    hosts = {id(taker.to_host()) for taker in takers}

    assert surface.to_device(gpu) is there
    assert len(hosts) == 1
    assert gpu.transfers.counts.device_to_host_bytes == 16 * 8 * 3 // 2


def test_takers_in_several_threads_pay_once(gpu: CudaDevice) -> None:
    surface = image().to_device(gpu)
    start = threading.Barrier(4)
    hosts: list[Surface] = []

    def take() -> None:
        start.wait()
        hosts.append(surface.to_host())

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({id(host) for host in hosts}) == 1
    assert gpu.transfers.counts.device_to_host_copies == 1


@pytest.mark.parametrize(
    ("pixel_format", "size_wh", "copies"),
    [
        (PixelFormat.NV12, (300, 2), 1),
        (PixelFormat.I444, (300, 2), 1),
        (PixelFormat.RGB24, (15, 7), 1),
        (PixelFormat.NV12, (15, 8), 2),
        (PixelFormat.I420, (16, 8), 3),
    ],
)
def test_planes_whose_rows_are_alike_come_down_in_one_copy(
    gpu: CudaDevice, pixel_format: PixelFormat, size_wh: tuple[int, int], copies: int
) -> None:
    image(pixel_format, size_wh).to_device(gpu).to_host()

    assert gpu.transfers.counts.device_to_host_copies == copies


def test_a_copy_that_is_begun_is_waited_for_by_whoever_wants_the_image(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    surface = image()
    there = surface.to_device(gpu)

    coming = there.begin_to_host()
    undone = driver.undone
    back = coming.wait()

    assert undone > driver.undone
    assert there.to_host() is there.begin_to_host().wait() is back
    assert gpu.transfers.counts.device_to_host_copies == 1
    assert_same(back, surface)


def test_an_image_on_its_way_down_holds_no_memory_of_the_gpu(gpu: CudaDevice) -> None:
    surface = image()
    coming = surface.to_device(gpu).begin_to_host()
    surface = image()  # its twin in GPU memory goes with it

    held = gpu.memory.lent

    assert held == 0
    assert_same(coming.wait(), surface)


def test_where_it_is_already_nothing_is_copied(gpu: CudaDevice) -> None:
    surface = image()
    there = surface.to_device(gpu)

    assert surface.to_host() is surface
    assert there.to_device(gpu) is there


def test_the_wrong_memory_is_answered_with_the_way_to_the_right_one(gpu: CudaDevice) -> None:
    surface = image()
    there = surface.to_device(gpu)

    with pytest.raises(TypeError, match=r"lie in a GPU's memory: to_host\(\)"):
        there.planes  # noqa: B018
    with pytest.raises(TypeError, match=r"lie in host memory: to_device\(gpu\)"):
        surface.arrays  # noqa: B018
    with pytest.raises(TypeError, match=r"NumPy cannot read: to_host\(\)"):
        np.asarray(there.arrays[0])


def test_a_shared_surface_is_copied_on_the_gpu_before_it_is_written_to(gpu: CudaDevice) -> None:
    there = image().to_device(gpu)
    stream = gpu.stream("drawing")
    before = gpu.transfers.counts

    drawn = there.writable(stream=stream)
    for array in drawn.arrays_on(stream):
        gpu.fill(array, 9, stream=stream)
    drawn = drawn.written(stream.record())

    assert gpu.transfers.counts == before
    assert drawn.exclusive
    assert all((plane == 9).all() for plane in drawn.to_host().planes)
    assert_same(there.to_host(), image())


def test_an_exclusive_surface_is_written_to_in_place_behind_its_readers(gpu: CudaDevice) -> None:
    reader, writer = gpu.stream("reader"), gpu.stream("writer")
    surface = dataclasses.replace(image().to_device(gpu), exclusive=True)
    copy = gpu.duplicate(surface.arrays_on(reader), stream=reader)

    drawn = surface.writable(stream=writer)
    for array in drawn.arrays_on(writer):
        gpu.fill(array, 9, stream=writer)
    drawn = drawn.written(writer.record())

    assert [array.base_address for array in drawn.arrays] == [array.base_address for array in surface.arrays]
    assert all((plane == 9).all() for plane in drawn.to_host().planes)
    np.testing.assert_array_equal(copy[0].to_host(), image().planes[0])


def test_what_was_copied_to_the_host_before_is_not_taken_for_what_was_drawn_later(gpu: CudaDevice) -> None:
    stream = gpu.stream("drawing")
    surface = gpu.new_surface(PixelFormat.GRAY8, size_wh=(8, 8), stream=stream)
    (array,) = surface.arrays_on(stream)
    early = surface.written(gpu.fill(array, 1, stream=stream).ready or stream.record())
    first = early.to_host()

    (again,) = early.writable(stream=stream).arrays_on(stream)
    late = early.written(gpu.fill(again, 2, stream=stream).ready or stream.record())

    assert (first.planes[0] == 1).all()
    assert (late.to_host().planes[0] == 2).all()


def test_a_host_surface_that_was_copied_to_the_gpu_is_copied_again_after_it_was_drawn_on(gpu: CudaDevice) -> None:
    surface = image(PixelFormat.GRAY8).writable()
    surface.to_device(gpu)

    drawn = surface.writable()
    drawn.planes[0][:] = 7

    assert (drawn.to_device(gpu).to_host().planes[0] == 7).all()


def test_a_surface_that_is_replaced_with_other_pixels_has_no_copies_yet(gpu: CudaDevice) -> None:
    surface = image(PixelFormat.GRAY8)
    surface.to_device(gpu)

    other = dataclasses.replace(surface, pixels=(np.full((8, 16), 7, np.uint8),))

    assert (other.to_device(gpu).to_host().planes[0] == 7).all()


def test_memory_goes_back_with_the_last_surface(gpu: CudaDevice) -> None:
    pool = gpu.pool("images of gate", limit_count=1)
    surface = gpu.new_surface(PixelFormat.NV12, size_wh=(16, 8), stream=gpu.main_stream, pool=pool)
    frames = [surface, surface.shared()]
    del surface

    assert pool.lent == 1
    frames.clear()

    assert pool.lent == 0


def test_rows_start_at_multiples_of_256_bytes_and_chroma_behind_luma(gpu: CudaDevice) -> None:
    luma, chroma = gpu.new_surface(PixelFormat.NV12, size_wh=(300, 10), stream=gpu.main_stream).arrays

    assert (luma.address % 256, luma.strides, chroma.strides) == (0, (512, 1), (512, 2, 1))
    assert chroma.address == luma.address + 10 * 512


def test_the_whole_image_is_one_array_with_chroma_below_luma(gpu: CudaDevice) -> None:
    surface = image()

    whole = surface.to_device(gpu).whole

    assert whole.shape == (12, 16)
    np.testing.assert_array_equal(
        whole.to_host(), np.concatenate([surface.planes[0], surface.planes[1].reshape(4, 16)])
    )


def test_planes_that_are_not_one_array_are_not_passed_for_one(gpu: CudaDevice) -> None:
    surface = image(size_wh=(15, 7)).to_device(gpu)

    with pytest.raises(ValueError, match="are not one array"):
        surface.whole  # noqa: B018


def test_samples_of_16_bits_become_8_in_host_memory(gpu: CudaDevice) -> None:
    stream = gpu.stream("decoding")
    surface = gpu.new_surface(PixelFormat.NV12, size_wh=(4, 2), stream=stream, is_wide=True)
    samples = np.array([[0, 127, 128, 256], [0x80FF, 0xFF00, 0xFF7F, 0xFFFF]], np.uint16)
    sources = gpu.upload([samples, np.full((1, 2, 2), 0x8000, np.uint16)], stream=stream)
    gpu.copy(sources, surface.arrays, stream=stream)

    host = surface.written(stream.record()).to_host()

    assert surface.is_wide
    assert host.planes[0].tolist() == [[0, 0, 1, 1], [129, 255, 255, 255]]
    assert host.planes[1].dtype == np.uint8
    assert (host.planes[1] == 128).all()


def test_nothing_is_left_when_all_surfaces_are_gone(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    for _ in range(3):
        image().to_device(gpu).writable().to_host()

    gpu.close()

    assert gpu.is_closed
    assert driver.live_bytes == (0, 0)
