"""Contexts: which one is current where, and how long one is retained."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sightline.devices.cuda import cuda_driver
from sightline.devices.cuda.driver import DriverError, Harm
from tests.unit.devices.cuda.bindings import CODES, Bindings, driver_with

PRIMARY = 0xC0
RELEASED = ("cuDevicePrimaryCtxRelease", 0)
GONE = (CODES.CUDA_ERROR_CONTEXT_IS_DESTROYED,)


@pytest.fixture
def cuda() -> Iterator[Bindings]:
    """In the end nothing stays behind in this thread."""
    cuda = Bindings()
    yield cuda
    assert (cuda.stack, cuda_driver._HERE.driver) == ([], None)


def test_a_block_within_one_of_the_same_gpu_changes_nothing(cuda: Bindings) -> None:
    driver = driver_with(cuda)

    with driver.current(), driver.current():
        assert cuda.stack == [PRIMARY]

    assert cuda.names() == ["cuCtxPushCurrent", "cuCtxPopCurrent"]


def test_a_block_within_one_of_another_gpu_makes_its_own_context_current(cuda: Bindings) -> None:
    one, other = driver_with(cuda, context=0xA), driver_with(cuda, context=0xB)
    seen = []

    with one.current(), other.current():
        seen.append(cuda.stack[-1])
        with one.current():
            seen.append(cuda.stack[-1])
        seen.append(cuda.stack[-1])

    assert seen == [0xB, 0xA, 0xB]


def test_a_context_that_is_gone_ends_the_work_of_its_gpu(cuda: Bindings) -> None:
    driver = driver_with(cuda)
    cuda.answers["cuCtxPushCurrent"] = GONE

    with pytest.raises(DriverError, match="cuCtxPushCurrent: CUDA_ERROR_CONTEXT_IS_DESTROYED") as raised:
        driver.current().__enter__()

    assert raised.value.harm is Harm.DEVICE


def test_a_context_that_goes_within_a_block_ends_the_work_of_its_gpu(cuda: Bindings) -> None:
    driver = driver_with(cuda)

    gone = pytest.raises(DriverError, match="cuCtxPopCurrent: CUDA_ERROR_CONTEXT_IS_DESTROYED")
    with gone as raised, driver.current():
        cuda.answers["cuCtxPopCurrent"] = GONE
    cuda.stack.pop()

    assert raised.value.harm is Harm.DEVICE


def test_a_driver_releases_the_primary_context_once(cuda: Bindings) -> None:
    driver = driver_with(cuda)

    driver.close()
    driver.close()

    assert cuda.calls.count(RELEASED) == 1
    assert cuda.calls[-1] == RELEASED


def test_the_context_of_another_library_is_neither_retained_nor_released(cuda: Bindings) -> None:
    retained = list[str]()
    cuda.answers["cuDevicePrimaryCtxRetain"] = AssertionError("the primary context was asked for")
    driver = driver_with(cuda, context=0xF00)

    with driver.current():
        retained = [hex(context) for context in cuda.stack]
    driver.close()

    assert retained == ["0xf00"]
    assert RELEASED not in cuda.calls


def test_a_context_of_another_gpu_is_refused_and_left_as_it_is(cuda: Bindings) -> None:
    cuda.answers["cuCtxGetDevice"] = (CODES.CUDA_SUCCESS, 1)

    with pytest.raises(DriverError, match="the given context is one of cuda:1, not of cuda:0"):
        driver_with(cuda, context=0xF00)

    assert RELEASED not in cuda.calls


def test_a_driver_that_does_not_open_keeps_no_context(cuda: Bindings) -> None:
    cuda.answers["cuStreamCreate"] = (CODES.CUDA_ERROR_OUT_OF_MEMORY, None)

    with pytest.raises(DriverError, match="cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY") as raised:
        driver_with(cuda)

    assert raised.value.harm is Harm.MEMORY
    assert cuda.calls[-1] == RELEASED


def test_a_driver_whose_context_is_gone_closes_all_the_same(cuda: Bindings) -> None:
    driver = driver_with(cuda)
    cuda.answers["cuCtxPushCurrent"] = GONE

    driver.close()

    assert cuda.calls[-1] == RELEASED
    assert "cuStreamDestroy" not in cuda.names()


def test_a_closed_driver_lets_no_thread_in(cuda: Bindings) -> None:
    driver = driver_with(cuda)
    driver.close()

    with pytest.raises(DriverError, match="cuda:0 was closed") as raised:
        driver.current().__enter__()

    assert raised.value.harm is Harm.DEVICE


def test_a_driver_that_is_closed_within_its_own_block_releases_the_context_behind_it(cuda: Bindings) -> None:
    driver = driver_with(cuda)

    with driver.current():
        driver.close()
        released_within = RELEASED in cuda.calls

    assert not released_within
    assert cuda.calls[-1] == RELEASED


def test_the_context_stays_while_another_thread_works_in_it(cuda: Bindings) -> None:
    driver, is_in, may_leave = driver_with(cuda), threading.Event(), threading.Event()

    def work() -> None:
        with driver.current():
            is_in.set()
            may_leave.wait()

    working = threading.Thread(target=work)
    working.start()
    is_in.wait()
    driver.close()
    released_meanwhile = RELEASED in cuda.calls
    may_leave.set()
    working.join()

    assert not released_meanwhile
    assert cuda.calls.count(RELEASED) == 1
