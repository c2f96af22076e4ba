"""The null driver finds what a real one forgives or punishes late, and fails as it is asked to."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from sightline.devices.cuda.cuda_driver import CudaDriver
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import DriverError, Harm, Span, pack_arguments
from tests.null_driver import NullCudaDriver, NullDriver, fresh_null_driver
from tests.unit.devices.cuda.programs import ADD
from tests.waiting import wait_until


@pytest.fixture
def null() -> NullDriver:
    return fresh_null_driver(gpus=2)


@pytest.fixture
def driver(null: NullDriver) -> Iterator[NullCudaDriver]:
    """Its context is current."""
    driver = NullCudaDriver()
    with driver.current():
        yield driver
    driver.close()


def test_calls_are_logged_in_their_order_with_what_they_are_about(null: NullDriver, driver: NullCudaDriver) -> None:
    begun = len(null.log)
    stream, event = driver.create_stream(), driver.create_event()
    driver.record(event, stream=stream)

    calls = [(call.name, call.first, call.second) for call in null.log[begun:]]

    assert calls == [
        ("cuStreamCreate", 1, 0),
        ("cuEventCreate", 3, 0),
        ("cuEventRecord", event, stream),
    ]


def test_what_is_left_behind_by_whoever_lets_go_of_the_context_is_found(null: NullDriver) -> None:
    driver = NullCudaDriver()
    with driver.current():
        driver.allocate(256)
    driver._live["cuMemFree"].clear()  # the driver forgets it

    driver.close()

    assert null.orphans == {"GPU memory": 1}
    with pytest.raises(AssertionError, match="destroyed only with its context"):
        null.check_nothing_left()


def test_gpus_have_contexts_of_their_own(null: NullDriver, driver: NullCudaDriver) -> None:
    other = NullCudaDriver(index=1)
    with other.current():
        stream = other.create_stream()
        with pytest.raises(DriverError, match="cuEventRecord: CUDA_ERROR_INVALID_HANDLE"):
            driver.record(driver_event(driver), stream=stream)
    other.close()

    assert null.live["contexts"] == 1


def driver_event(driver: NullCudaDriver) -> int:
    with driver.current():
        return driver.create_event()


def twice(act: Callable[[int], None], handle: int) -> None:
    act(handle)
    act(handle)


MISUSES: dict[str, tuple[Callable[[NullCudaDriver], object], str]] = {
    "memory freed twice": (
        lambda driver: twice(driver.free, driver.allocate(16)),
        "cuMemFree: CUDA_ERROR_INVALID_VALUE",
    ),
    "an event that was destroyed": (
        lambda driver: twice(driver.destroy_event, driver.create_event()),
        "cuEventDestroy: CUDA_ERROR_INVALID_HANDLE",
    ),
    "a copy beyond the end": (
        lambda driver: driver.fill(Span(driver.allocate(16), 16), 0, width_bytes=17, rows=1, stream=0),
        "cuMemsetD2D8Async: CUDA_ERROR_INVALID_VALUE",
    ),
    "memory that was never allocated": (
        lambda driver: driver.copy(Span(4096, 16), Span(driver.allocate(16), 16), width_bytes=16, rows=1, stream=0),
        "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE",
    ),
    "a kernel that is not in its module": (
        lambda driver: driver.function(driver.load(ADD), "subtract"),
        "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND",
    ),
    "more memory than there is": (
        lambda driver: driver.allocate(2**31),
        "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY",
    ),
}


@pytest.mark.parametrize("what", MISUSES)
def test_what_must_not_be_done_is_refused(driver: NullCudaDriver, what: str) -> None:
    act, said = MISUSES[what]

    with pytest.raises(DriverError, match=said) as raised:
        act(driver)

    assert raised.value.harm is not Harm.DEVICE


def test_without_a_context_nothing_is_done(null: NullDriver) -> None:
    driver = NullCudaDriver()

    with pytest.raises(DriverError, match="cuStreamCreate: CUDA_ERROR_INVALID_CONTEXT"):
        driver.create_stream()
    driver.close()


def test_a_call_fails_when_and_as_often_as_was_asked(null: NullDriver, driver: NullCudaDriver) -> None:
    null.fail("cuEventCreate", nth=2, times=2, code="CUDA_ERROR_OUT_OF_MEMORY")
    ends = list[bool]()

    for _ in range(5):
        try:
            driver.create_event()
            ends.append(True)
        except DriverError:
            ends.append(False)

    assert ends == [True, False, False, True, True]


def test_an_error_of_the_hardware_breaks_that_gpu_and_no_other(null: NullDriver, driver: NullCudaDriver) -> None:
    other = NullCudaDriver(index=1)
    null.fail("", code="CUDA_ERROR_LAUNCH_FAILED")

    for _ in range(2):
        with pytest.raises(DriverError, match="cuEventCreate: CUDA_ERROR_LAUNCH_FAILED") as raised:
            driver.create_event()
        assert raised.value.harm is Harm.DEVICE

    with other.current():
        other.destroy_event(other.create_event())
    other.close()


def test_a_context_that_another_library_destroyed_is_an_error_of_the_gpu(null: NullDriver) -> None:
    driver = NullCudaDriver()

    null.library.cuDevicePrimaryCtxReset_v2(0)

    with pytest.raises(DriverError, match="cuCtxPushCurrent: CUDA_ERROR_CONTEXT_IS_DESTROYED") as raised:
        driver.current().__enter__()
    assert raised.value.harm is Harm.DEVICE
    driver.close()


def test_an_event_of_a_gpu_that_hangs_is_not_reached_before_it_goes_on(
    null: NullDriver, driver: NullCudaDriver
) -> None:
    stream, event, context = driver.create_stream(), driver.create_event(), threading.Event()

    def wait() -> None:
        with driver.current():
            context.set()
            driver.synchronize_event(event)

    waiting = threading.Thread(target=wait)
    with null.hanging():
        driver.record(event, stream=stream)
        is_done = driver.is_done(event)
        waiting.start()
        context.wait()
        wait_until(lambda: null.counts["cuEventSynchronize"] == 1)
        is_waiting = waiting.is_alive()
    waiting.join()

    assert (is_done, is_waiting, driver.is_done(event)) == (False, True, True)


def test_whoever_waits_for_a_gpu_that_hangs_hears_that_it_broke(null: NullDriver, driver: NullCudaDriver) -> None:
    stream, said = driver.create_stream(), list[str]()

    def wait() -> None:
        with driver.current():
            try:
                driver.synchronize(stream)
            except DriverError as error:
                said.append(str(error))

    waiting = threading.Thread(target=wait)
    address = driver.allocate(16)
    with null.hanging():
        driver.fill(Span(address, 16), 0, width_bytes=16, rows=1, stream=stream)
        waiting.start()
        wait_until(lambda: null.counts["cuStreamSynchronize"] == 1)
        null.break_gpu(0)
        waiting.join()

    assert said == ["cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED"]


def test_kernels_that_nvrtc_compiled_are_counted_and_not_run(null: NullDriver) -> None:
    gpu = CudaDevice(CudaDriver(0))
    (array,) = gpu.upload([np.ones(10, np.uint8)])

    gpu.kernels(ADD)["add"](array, 10, 4, grid=1, block=32)

    assert set(array.to_host().tolist()) == {1}
    assert null.counts["cuLaunchKernel"] == 1
    del array
    gpu.close()


def test_kernels_that_nvrtc_did_not_compile_are_not_found(null: NullDriver) -> None:
    driver = CudaDriver(0)
    with driver.current(), pytest.raises(DriverError, match="cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"):
        driver.function(driver.load(ADD), "subtract")
    driver.close()


def test_a_graph_computes_with_the_arguments_that_it_was_captured_with(driver: NullCudaDriver) -> None:
    stream, address = driver.create_stream(), driver.allocate(16)
    driver.fill(Span(address, 16), 1, width_bytes=16, rows=1, stream=stream)
    function = driver.function(driver.load(ADD), "add")
    arguments = pack_arguments("add", parameters=ADD.kernels["add"], arguments=[np.uint64(address), 16, 2])

    driver.begin_capture(stream)
    driver.launch(function, arguments, grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0, stream=stream)
    graph = driver.end_capture(stream)
    del arguments
    for _ in range(3):
        driver.launch_graph(graph, stream=stream)

    pinned = driver.allocate_pinned(16)
    driver.copy(Span(pinned, 16, on_host=True), Span(address, 16), width_bytes=16, rows=1, stream=stream)
    assert ctypes.string_at(pinned, 16) == bytes([7] * 16)
