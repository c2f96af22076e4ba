"""Leases: who holds memory, when it goes back, and what becomes of those who use it later."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.memory import BorrowedMemory
from sightline.errors import SurfaceReleased
from sightline.media.device_array import DeviceArray
from tests.fakes.cuda import POISON
from tests.unit.devices.cuda.drivers import TestedDriver


def test_memory_goes_back_when_its_last_array_is_let_go_of(gpu: CudaDevice) -> None:
    pool = gpu.pool("images", limit_count=1)
    array = gpu.empty((4, 4), np.uint8, stream=gpu.main_stream, pool=pool)
    other = array

    del array
    assert pool.lent == 1
    del other

    assert pool.lent == 0


def test_use_after_release_raises(gpu: CudaDevice) -> None:
    pool = gpu.pool("images of gate", limit_count=1)
    buffer = pool.lease(16, stream=gpu.main_stream)
    array = DeviceArray(buffer.address, (16,), np.dtype(np.uint8), buffer)

    buffer.release()

    for use in (lambda: array.address, array.to_host, lambda: array.on(gpu.main_stream), array.__dlpack__):
        with pytest.raises(SurfaceReleased, match="images of gate: memory was used after it was given back"):
            use()


def test_releasing_twice_gives_memory_back_once(gpu: CudaDevice) -> None:
    pool = gpu.pool("images", limit_count=2)
    buffer = pool.lease(16, stream=gpu.main_stream)

    buffer.release()
    buffer.release()

    assert pool.lent == 0


@pytest.mark.fake_driver("the real driver leaves idle memory as it is")
def test_memory_is_spoiled_when_it_is_given_back(gpu: CudaDevice) -> None:
    pool = gpu.pool("images", limit_count=1)
    first = gpu.fill(gpu.empty((16,), np.uint8, stream=gpu.main_stream, pool=pool), 7, stream=gpu.main_stream)
    assert (first.to_host() == 7).all()
    address = first.address
    del first

    second = gpu.empty((16,), np.uint8, stream=gpu.main_stream, pool=pool)

    assert second.address == address
    assert (second.to_host() == POISON).all()


def test_the_next_holder_waits_for_the_work_of_the_one_before(gpu: CudaDevice) -> None:
    pool = gpu.pool("images", limit_count=1)
    reader, writer = gpu.stream("reader"), gpu.stream("writer")
    old = gpu.fill(gpu.empty((16,), np.uint8, stream=reader, pool=pool), 7, stream=reader)
    (kept,) = gpu.copy([old], [gpu.empty((16,), np.uint8, stream=reader)], stream=reader)
    del old

    new = gpu.fill(gpu.empty((16,), np.uint8, stream=writer, pool=pool), 9, stream=writer)

    assert (new.to_host() == 9).all()
    assert (kept.to_host() == 7).all()


def test_pinned_memory_is_kept_by_what_is_seen_of_it(gpu: CudaDevice) -> None:
    array = gpu.fill(gpu.empty((8, 8), np.uint8, stream=gpu.main_stream), 3, stream=gpu.main_stream)
    plane = array.to_host()

    assert gpu.pinned.lent == 1
    part = plane[2:4]
    del plane
    assert gpu.pinned.lent == 1
    del part

    assert gpu.pinned.lent == 0


def test_copies_to_the_host_are_read_only(gpu: CudaDevice) -> None:
    array = gpu.fill(gpu.empty((4, 4), np.uint8, stream=gpu.main_stream), 3, stream=gpu.main_stream)

    copy = array.to_host()

    with pytest.raises(ValueError, match="read-only"):
        copy[0, 0] = 1


def test_borrowed_memory_tells_when_its_users_are_done(gpu: CudaDevice) -> None:
    lender = gpu.fill(gpu.empty((16,), np.uint8, stream=gpu.main_stream), 5, stream=gpu.main_stream)
    borrowed = BorrowedMemory(gpu, lender.address, size_bytes=16, what="the decoder's image", keep=lender)
    view = DeviceArray(lender.address, (16,), np.dtype(np.uint8), borrowed, ready=lender.ready)
    stream = gpu.stream("reader")
    (copy,) = gpu.copy([view], [gpu.empty((16,), np.uint8, stream=stream)], stream=stream)

    uses = borrowed.release()

    assert [use.stream.handle for use in uses] == [stream.handle]
    assert (copy.to_host() == 5).all()
    with pytest.raises(SurfaceReleased, match="the decoder's image"):
        view.on(stream)


def test_all_memory_is_freed_when_the_last_holder_lets_go_of_a_closed_gpu(driver: TestedDriver) -> None:
    gpu = CudaDevice(driver)
    array = gpu.fill(gpu.empty((16,), np.uint8, stream=gpu.main_stream), 5, stream=gpu.main_stream)

    gpu.close()
    assert (array.to_host() == 5).all()
    before = driver.is_closed
    del array

    assert (before, driver.is_closed) == (False, True)
    assert driver.live_bytes == (0, 0)
    driver.check()


def test_a_gpu_that_is_garbage_together_with_its_memory_is_let_go_of(driver: TestedDriver) -> None:
    gpu = CudaDevice(driver)
    island = [gpu.upload([np.arange(16, dtype=np.uint8)]), gpu.stream("work"), gpu.pool("images")]
    island.append(island)

    del gpu, island
    before = driver.is_closed
    gc.collect()

    assert (before, driver.is_closed) == (False, True)
    driver.check()
