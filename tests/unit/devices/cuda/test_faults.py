"""When a GPU fails: one clear message, and never more work for a GPU that is broken."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Harm
from sightline.errors import CudaError, CudaFailed, GpuOutOfMemory
from tests.unit.devices.cuda.drivers import TestedDriver


@pytest.fixture
def breaking(driver: TestedDriver) -> Iterator[CudaDevice]:
    gpu = CudaDevice(driver)
    yield gpu
    gpu.close()


@pytest.mark.fake_driver("the null driver reports failed work at the next call, before somebody waits")
def test_after_an_error_of_the_device_every_call_names_the_first_cause(
    breaking: CudaDevice, driver: TestedDriver
) -> None:
    stream = breaking.stream("work")
    array = breaking.empty((4,), np.uint8, stream=stream)
    driver.fail_next("work", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access")
    filled = breaking.fill(array, 1, stream=stream)
    said = r"^cuda:0 cannot be used any more: .*waiting for work .* failed: .*CUDA_ERROR_ILLEGAL_ADDRESS"

    for use in (filled.to_host, stream.record, lambda: breaking.empty((4,), np.uint8, stream=stream)):
        with pytest.raises(CudaFailed, match=said):
            use()


def test_a_call_that_is_refused_breaks_nothing(breaking: CudaDevice, driver: TestedDriver) -> None:
    stream = breaking.stream("work")
    array = breaking.empty((4,), np.uint8, stream=stream)
    driver.fail_next("fill", "CUDA_ERROR_INVALID_VALUE", harm=Harm.NONE)

    with pytest.raises(CudaError, match=r"^cuda:0: filling memory failed: .*CUDA_ERROR_INVALID_VALUE$"):
        breaking.fill(array, 1, stream=stream)

    assert breaking.fill(array, 2, stream=stream).to_host().tolist() == [2] * 4


def test_a_lack_of_pinned_memory_breaks_nothing(breaking: CudaDevice, driver: TestedDriver) -> None:
    driver.fail_next("allocate_pinned", "CUDA_ERROR_OUT_OF_MEMORY", harm=Harm.MEMORY)

    with pytest.raises(GpuOutOfMemory, match=r"allocating .* for pinned memory for cuda:0 failed"):
        breaking.upload([np.zeros(4, np.uint8)])

    assert breaking.upload([np.ones(4, np.uint8)])[0].to_host().tolist() == [1] * 4


def test_memory_of_which_nobody_knows_whether_it_is_free_is_not_held_for_ever(
    breaking: CudaDevice, driver: TestedDriver
) -> None:
    stream = breaking.stream("work")
    pool = breaking.pool("images", limit_count=1)
    breaking.fill(breaking.empty((256,), np.uint8, stream=stream, pool=pool), 1, stream=stream)
    driver.fail_next("is_done", "CUDA_ERROR_INVALID_HANDLE", harm=Harm.NONE)

    with pytest.raises(CudaError, match="looking for memory of images failed"):
        pool.lease(256, stream=breaking.stream("other work"))

    assert (pool.lent, pool.allocated_bytes) == (0, 0)
    assert pool.lease(256, stream=stream).size_bytes == 256


def test_a_broken_gpu_is_let_go_of_in_silence(breaking: CudaDevice, driver: TestedDriver) -> None:
    array = breaking.empty((4,), np.uint8, stream=breaking.main_stream)
    driver.fail_next("fill", "CUDA_ERROR_LAUNCH_FAILED")
    with pytest.raises(CudaFailed):
        breaking.fill(array, 1, stream=breaking.main_stream)

    del array
    breaking.close()

    assert driver.is_closed


def test_a_closed_gpu_says_so(driver: TestedDriver) -> None:
    gpu = CudaDevice(driver)
    gpu.close()

    with pytest.raises(CudaFailed, match="cuda:0 was closed: the run that used it is over"):
        gpu.stream("late")
