"""Contexts, by cuda-bindings over the null driver: which one is current where, and how long one is retained."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator

import pytest

from sightline.devices.cuda import cuda_driver
from sightline.devices.cuda.cuda_driver import CudaDriver
from sightline.devices.cuda.driver import DriverError, Harm
from tests.null_driver import NullDriver, fresh_null_driver
from tests.unit.devices.cuda.bindings import CUDA

RETAIN, RELEASE = "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease"


@pytest.fixture
def null() -> Iterator[NullDriver]:
    """Two GPUs. In the end no context is left, and none is current in this thread."""
    null = fresh_null_driver(gpus=2)
    yield null
    assert current() == 0
    assert cuda_driver._HERE.driver is None
    null.check_nothing_left()


def current() -> int:
    """The context that is current in this thread; 0 for none."""
    _, context = CUDA.cuCtxGetCurrent()
    return int(context)


def context_of_another_library(null: NullDriver, index: int = 0) -> int:
    """A context that is not the primary one, current in no thread."""
    null.library.cuInit(0)
    context = ctypes.c_uint64()
    assert null.library.cuCtxCreate_v2(ctypes.byref(context), 0, index) == 0
    assert null.library.cuCtxPopCurrent_v2(None) == 0
    return context.value


def destroy(null: NullDriver, context: int) -> None:
    assert null.library.cuCtxDestroy_v2(ctypes.c_uint64(context)) == 0


def test_a_block_within_one_of_the_same_gpu_changes_nothing(null: NullDriver) -> None:
    driver = CudaDriver(0)

    with null.counting() as calls, driver.current():
        outer = current()
        with driver.current():
            inner = current()
    driver.close()

    assert outer == inner != 0
    assert (calls["cuCtxPushCurrent"], calls["cuCtxPopCurrent"]) == (1, 1)


def test_a_block_within_one_of_another_gpu_makes_its_own_context_current(null: NullDriver) -> None:
    one, other = CudaDriver(0), CudaDriver(1)

    with one.current():
        seen = [current()]
        with other.current():
            seen.append(current())
            with one.current():
                seen.append(current())
            seen.append(current())
        seen.append(current())
    one.close()
    other.close()

    assert seen[0] != seen[1]
    assert seen == [seen[0], seen[1], seen[0], seen[1], seen[0]]


def test_a_driver_releases_the_primary_context_once(null: NullDriver) -> None:
    with null.counting() as calls:
        driver = CudaDriver(0)
        driver.close()
        driver.close()

    assert (calls[RETAIN], calls[RELEASE]) == (1, 1)


def test_two_drivers_of_a_gpu_share_its_context_until_both_are_closed(null: NullDriver) -> None:
    one, other = CudaDriver(0), CudaDriver(0)

    one.close()
    left = null.live["contexts"]
    with other.current():
        other.free(other.allocate(100))
    other.close()

    assert left == 1


def test_the_context_of_another_library_is_used_and_left_to_it(null: NullDriver) -> None:
    context = context_of_another_library(null)

    with null.counting() as calls:
        driver = CudaDriver(0, context)
        with driver.current():
            seen = current()
            driver.allocate(100)
        driver.close()
    left = null.live
    destroy(null, context)

    assert seen == context
    assert (calls[RETAIN], calls[RELEASE], calls["cuCtxDestroy"]) == (0, 0, 0)
    assert left == {"contexts": 1}


def test_a_context_of_another_gpu_is_refused(null: NullDriver) -> None:
    context = context_of_another_library(null, 1)

    with pytest.raises(DriverError, match="the given context is one of cuda:1, not of cuda:0"):
        CudaDriver(0, context)

    destroy(null, context)


def test_a_number_that_is_no_context_is_refused(null: NullDriver) -> None:
    with pytest.raises(DriverError, match="cuCtxPushCurrent: CUDA_ERROR_"):
        CudaDriver(0, 12345)


@pytest.mark.parametrize("call", ["cuCtxPushCurrent", "cuStreamCreate", "cuCtxPopCurrent"])
def test_a_driver_that_does_not_open_keeps_nothing(null: NullDriver, call: str) -> None:
    null.fail(call, code="CUDA_ERROR_OUT_OF_MEMORY")

    with null.counting() as calls, pytest.raises(DriverError, match=f"{call}: CUDA_ERROR_OUT_OF_MEMORY"):
        CudaDriver(0)
    if call == "cuCtxPopCurrent":  # it stayed current, since popping failed
        null.library.cuCtxPopCurrent_v2(None)

    assert null.live == {}
    assert calls[RELEASE] == 1


def test_a_closed_driver_lets_no_thread_in(null: NullDriver) -> None:
    driver = CudaDriver(0)
    driver.close()

    with pytest.raises(DriverError, match="cuda:0 was closed") as raised:
        driver.current().__enter__()

    assert raised.value.harm is Harm.DEVICE


def test_a_driver_that_is_closed_within_its_own_block_releases_the_context_behind_it(null: NullDriver) -> None:
    driver = CudaDriver(0)

    with driver.current():
        driver.close()
        within = null.live
    behind = null.live

    assert (within, behind) == ({"contexts": 1}, {})


def test_the_context_stays_while_another_thread_works_in_it(null: NullDriver) -> None:
    driver, is_in, may_leave = CudaDriver(0), threading.Event(), threading.Event()

    def work() -> None:
        with driver.current():
            is_in.set()
            may_leave.wait()

    working = threading.Thread(target=work)
    working.start()
    is_in.wait()
    driver.close()
    meanwhile = null.live
    may_leave.set()
    working.join()

    assert (meanwhile, null.live) == ({"contexts": 1}, {})
