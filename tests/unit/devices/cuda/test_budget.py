"""The budget of a GPU's memory: pools share it, make room for each other, and say who has what."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from sightline.devices.cuda.budget import FRACTION_VARIABLE, limit_of
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Harm
from sightline.errors import ConfigurationError, CudaFailed, GpuOutOfMemory
from tests.fakes.cuda_driver import FakeCudaDriver

MIB = 2**20


@pytest.fixture
def driver() -> FakeCudaDriver:
    return FakeCudaDriver(memory_bytes=64 * MIB, pinned_bytes=10 * MIB)


@pytest.fixture
def gpu(driver: FakeCudaDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaDevice]:
    """A GPU of which 8 MiB may be used."""
    monkeypatch.setenv(FRACTION_VARIABLE, "0.125")
    device = CudaDevice(driver)
    yield device
    device.close()


def break_down(device: CudaDevice, driver: FakeCudaDriver) -> None:
    array = device.empty((4,), np.uint8, stream=device.main_stream)
    driver.fail_next("work", "CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(CudaFailed):
        device.fill(array, 1, stream=device.main_stream).to_host()


def test_four_fifths_of_the_free_memory_are_for_pools(driver: FakeCudaDriver) -> None:
    with driver.current():
        address = driver.allocate(14 * MIB)
    device = CudaDevice(driver)

    assert device.budget.limit_bytes == 40 * MIB
    with driver.current():
        driver.free(address)
    device.close()


def test_the_environment_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FRACTION_VARIABLE, "0.5")

    assert limit_of(100) == 50


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "half", "nan", "inf"])
def test_a_part_that_is_none_is_one_error(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(FRACTION_VARIABLE, given)

    with pytest.raises(ConfigurationError, match=rf"^SIGHTLINE_GPU_MEMORY_FRACTION={given}: .* above 0 and at most 1"):
        limit_of(100)


def test_pools_together_have_no_more_than_the_budget(gpu: CudaDevice) -> None:
    first, second = gpu.pool("images of gate"), gpu.pool("images of yard")
    held = first.lease(5 * MIB, stream=gpu.main_stream)

    with pytest.raises(GpuOutOfMemory) as raised:
        second.lease(4 * MIB, stream=gpu.main_stream, timeout_seconds=0)

    assert "images of yard: no memory of 4.0 MiB came back" in str(raised.value)
    assert "5.0 MiB of the 8.0 MiB that Sightline may use of cuda:0 are used" in str(raised.value)
    assert "most of it: images of gate 5.0 MiB" in str(raised.value)
    assert held.size_bytes == 5 * MIB


def test_what_the_budget_can_never_give_is_refused_at_once(gpu: CudaDevice) -> None:
    with pytest.raises(GpuOutOfMemory, match=r"9.0 MiB are asked for, and 8.0 MiB is all that it lends"):
        gpu.pool("images").lease(9 * MIB, stream=gpu.main_stream, timeout_seconds=600)


def test_idle_memory_of_one_pool_makes_room_for_another(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    first, second = gpu.pool("images of gate"), gpu.pool("images of yard")
    leases = [first.lease(MIB, stream=gpu.main_stream) for _ in range(6)]
    del leases

    held = second.lease(4 * MIB, stream=gpu.main_stream, timeout_seconds=0)

    assert first.allocated_bytes == 4 * MIB  # no more than needed was freed
    assert driver.live_bytes[0] == gpu.budget.use().used_bytes == 8 * MIB
    assert held.size_bytes == 4 * MIB


def test_who_waits_for_the_budget_gets_what_another_pool_lets_go_of(gpu: CudaDevice) -> None:
    first, second = gpu.pool("images of gate"), gpu.pool("images of yard")
    held = first.lease(5 * MIB, stream=gpu.main_stream)
    got: list[int] = []

    def wait() -> None:
        got.append(second.lease(5 * MIB, stream=gpu.main_stream, timeout_seconds=60).size_bytes)

    waiting = threading.Thread(target=wait)
    waiting.start()
    held.release()
    waiting.join()

    assert got == [5 * MIB]


def test_a_gpu_without_memory_is_asked_once_more_when_idle_memory_is_free(
    gpu: CudaDevice, driver: FakeCudaDriver
) -> None:
    idle = gpu.pool("images of gate")
    idle.lease(MIB, stream=gpu.main_stream).release()
    driver.fail_next("allocate", "CUDA_ERROR_OUT_OF_MEMORY", harm=Harm.MEMORY)

    held = gpu.pool("images of yard").lease(256, stream=gpu.main_stream)

    assert held.size_bytes == 256
    assert idle.allocated_bytes == 0
    assert gpu.budget.use().retries == 1


def test_a_gpu_without_memory_says_who_has_it(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    held = gpu.pool("images of gate").lease(2 * MIB, stream=gpu.main_stream)
    driver.fail_next("allocate", "CUDA_ERROR_OUT_OF_MEMORY", harm=Harm.MEMORY)

    with pytest.raises(GpuOutOfMemory, match=r"use fewer streams .*\(2.0 MiB of the 8.0 MiB .*images of gate 2.0 MiB"):
        gpu.pool("images of yard").lease(256, stream=gpu.main_stream)

    assert gpu.budget.use().used_bytes == held.size_bytes


def test_pinned_memory_has_a_budget_of_its_own(gpu: CudaDevice) -> None:
    held = gpu.pinned.lease(MIB)

    assert gpu.budget.use().used_bytes == 0
    assert held.size_bytes == MIB


def test_use_counts_what_is_lent_what_is_idle_and_the_most(gpu: CudaDevice) -> None:
    pool = gpu.pool("images of gate")
    first, second = (pool.lease(MIB, stream=gpu.main_stream) for _ in range(2))
    second.release()

    use = gpu.budget.use()

    assert (use.used_bytes, use.idle_bytes, use.peak_bytes) == (2 * MIB, MIB, 2 * MIB)
    assert use.by_pool == {"images of gate": 2 * MIB}
    del first, second, pool
    assert gpu.budget.use().to_json() == {
        "limit_bytes": 8 * MIB,
        "used_bytes": 0,
        "idle_bytes": 0,
        "peak_bytes": 2 * MIB,
        "retries": 0,
        "by_pool": {},
    }


def test_memory_of_a_broken_gpu_does_not_stay_in_the_budget(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    lease = gpu.pool("images").lease(MIB, stream=gpu.main_stream)
    break_down(gpu, driver)

    lease.release()

    assert "images" not in gpu.budget.use().by_pool
    assert gpu.budget.use().used_bytes == sum(gpu.budget.use().by_pool.values())


def test_threads_of_many_pools_share_a_budget(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    def work(number: int) -> None:
        pool, stream = gpu.pool(f"images {number}"), gpu.stream(str(number))
        for _ in range(30):
            held = [pool.lease(MIB, stream=stream, timeout_seconds=60) for _ in range(2)]
            del held

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    use = gpu.budget.use()
    assert 0 < use.peak_bytes <= use.limit_bytes
    assert use.used_bytes == driver.live_bytes[0] == 0
