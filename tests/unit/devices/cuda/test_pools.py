"""Pools: bounded, shared by threads, and never lending what is still held."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from sightline.devices.cuda import pools
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Harm
from sightline.errors import GpuOutOfMemory
from tests.unit.devices.cuda.drivers import TestedDriver


def test_a_pool_lends_no_more_than_its_limit(gpu: CudaDevice) -> None:
    pool = gpu.pool("images of gate", limit_count=2)
    held = [pool.lease(100, stream=gpu.main_stream) for _ in range(2)]

    with pytest.raises(GpuOutOfMemory, match=r"images of gate: no memory .* 2 buffers are held, the limit is 2"):
        pool.lease(100, stream=gpu.main_stream, timeout_seconds=0)

    assert len(held) == pool.lent == 2


def test_what_a_pool_can_never_lend_is_refused_at_once(gpu: CudaDevice) -> None:
    pool = gpu.pool("arrays", limit_bytes=1024)

    with pytest.raises(GpuOutOfMemory, match=r"arrays: 1.0 MiB are asked for, and 0.0 MiB is all that it lends"):
        pool.lease(2**20, stream=gpu.main_stream, timeout_seconds=600)


def test_who_waits_gets_what_comes_back(gpu: CudaDevice) -> None:
    pool = gpu.pool("images", limit_count=1)
    held = pool.lease(100, stream=gpu.main_stream)
    address, got = held.address, threading.Event()
    addresses: list[int] = []

    def wait() -> None:
        addresses.append(pool.lease(100, stream=gpu.main_stream, timeout_seconds=60).address)
        got.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    held.release()

    assert got.wait(60)
    waiting.join()
    assert addresses == [address]


def test_memory_is_used_again_for_what_is_a_little_smaller_or_larger(gpu: CudaDevice) -> None:
    pool = gpu.pool("arrays")
    first = pool.lease(1_000_000, stream=gpu.main_stream)
    address = first.address
    first.release()

    again = pool.lease(1_040_000, stream=gpu.main_stream)

    assert again.address == address
    assert again.size_bytes <= 1_000_000 * 9 / 8


@pytest.mark.parametrize("wanted_bytes", [0, 1, 255, 256, 257, 4095, 4097, 65_537, 3_110_400, 2**32 + 1])
def test_no_more_than_an_eighth_is_lent_beyond_what_is_asked_for(wanted_bytes: int) -> None:
    lent = pools._rounded(wanted_bytes)

    assert lent % 256 == 0
    assert wanted_bytes <= lent <= max(wanted_bytes * 9 / 8, wanted_bytes + 256)


def test_idle_memory_of_another_size_makes_room(gpu: CudaDevice, driver: TestedDriver) -> None:
    pool = gpu.pool("arrays", limit_bytes=1024)
    pool.lease(1024, stream=gpu.main_stream).release()

    small = pool.lease(256, stream=gpu.main_stream)

    assert small.size_bytes == 256
    assert driver.live_bytes[0] == 256


def test_a_pool_that_nobody_holds_frees_its_memory(gpu: CudaDevice, driver: TestedDriver) -> None:
    pool = gpu.pool("images", limit_count=4)
    held = [pool.lease(512, stream=gpu.main_stream) for _ in range(4)]
    del held
    assert driver.live_bytes[0] == 4 * 512

    del pool

    assert driver.live_bytes[0] == 0


def test_memory_that_comes_back_to_a_closed_pool_is_freed(gpu: CudaDevice, driver: TestedDriver) -> None:
    pool = gpu.pool("images", limit_count=4)
    array = gpu.fill(gpu.empty((512,), np.uint8, stream=gpu.main_stream, pool=pool), 1, stream=gpu.main_stream)

    pool.close()
    assert driver.live_bytes[0] == 512
    del array

    assert driver.live_bytes[0] == 0


def test_a_gpu_without_memory_says_what_to_do(gpu: CudaDevice, driver: TestedDriver) -> None:
    driver.fail_next("allocate", "CUDA_ERROR_OUT_OF_MEMORY", harm=Harm.MEMORY)

    with pytest.raises(GpuOutOfMemory, match="CUDA_ERROR_OUT_OF_MEMORY; use fewer streams or smaller batches"):
        gpu.empty((16,), np.uint8, stream=gpu.main_stream)

    assert gpu.memory.lent == 0
    assert gpu.empty((16,), np.uint8, stream=gpu.main_stream).nbytes == 16


def test_threads_share_a_pool(gpu: CudaDevice) -> None:
    pool = gpu.pool("images", limit_count=3)
    wrong: list[int] = []

    def work(number: int) -> None:
        stream = gpu.stream(str(number))
        for turn in range(20):
            value = (number * 20 + turn) % 200
            array = gpu.fill(gpu.empty((64,), np.uint8, stream=stream, pool=pool), value, stream=stream)
            if set(array.to_host().tolist()) != {value}:
                wrong.append(value)
            del array  # a thread that held it while it asks for another would wait for itself

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert pool.lent == 0
