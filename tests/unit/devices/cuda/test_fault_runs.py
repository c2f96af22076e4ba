"""Whatever call of CUDA fails: one error that names it, and a GPU that is closed with nothing left on it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import DriverError
from sightline.errors import CudaError, CudaFailed, GpuOutOfMemory
from tests.null_driver import NullCudaDriver, NullDriver, fresh_null_driver
from tests.unit.devices.cuda.programs import ADD
from tests.waiting import wait_until

IMAGE = np.arange(60, dtype=np.uint8).reshape(6, 10)
EXPECTED = [value + 3 for value in range(60)]
ALLOCATIONS = ("cuMemAlloc", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuModuleLoadData")
CLOSING = ("cuGraphDestroy", "cuModuleUnload", "cuStreamDestroy", "cuCtxPushCurrent", "cuStreamQuery")
"""What fails where nobody can try again: the driver destroys what it has, and releases the context."""
OPENING = 6
"""How many calls there are until the context is retained."""
NOT_READY = 600


def work(gpu: CudaDevice) -> list[int]:
    """Upload, compute, compute in a graph, copy, and download."""
    stream, other = gpu.stream("work"), gpu.stream("other")
    pool = gpu.pool("images", limit_count=2)
    (image,) = gpu.upload([IMAGE], stream=stream)
    array = gpu.copy([image], [gpu.empty((6, 10), np.uint8, stream=stream, pool=pool)], stream=stream)[0]
    add = gpu.kernels(ADD)["add"]
    add(array, array.nbytes, 1, grid=1, block=64, stream=stream)
    graph = gpu.capture(
        stream, lambda: add(array, array.nbytes, 2, grid=1, block=64, stream=stream), name="add", keep=array
    )
    graph.launch()
    (copy,) = gpu.duplicate([array.written(stream.record())], stream=other)
    values: list[int] = copy.to_host().ravel().tolist()
    return values


@dataclass
class Run:
    """How a GPU was opened, worked and closed."""

    error: Exception | None
    values: list[int] | None
    warnings: list[str]
    failed_call: str
    """The first call that failed; "" if none did."""


def run(null: NullDriver, caplog: pytest.LogCaptureFixture) -> Run:
    """Open a GPU, work, and close it."""
    error, values, gpu = None, None, None
    caplog.clear()
    try:
        gpu = CudaDevice(NullCudaDriver())
        values = work(gpu)
    except (CudaError, DriverError) as raised:
        error = raised.with_traceback(None)
        error.__context__ = error.__cause__ = None  # they keep memory of the GPU
    if gpu is not None:
        gpu.close()
        assert gpu.is_closed
    failed = [call.name for call in null.log if call.result not in (0, NOT_READY)]
    return Run(error, values, caplog.messages, failed[0] if failed else "")


@pytest.fixture
def null() -> NullDriver:
    return fresh_null_driver()


@pytest.fixture
def calls(null: NullDriver, caplog: pytest.LogCaptureFixture) -> Iterator[range]:
    """The numbers of all calls of a run in which none fails."""
    healthy = run(null, caplog)
    assert (healthy.error, healthy.values, healthy.warnings) == (None, EXPECTED, [])
    null.check_nothing_left()
    yield range(1, len(null.log) + 1)
    null.reset()


@pytest.mark.parametrize(
    "code", ["CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_UNKNOWN"]
)
def test_whatever_call_fails_once_is_named_once_and_leaves_nothing(
    null: NullDriver, calls: range, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    for number in calls:
        null.reset()
        null.fail("", nth=number, code=code)

        found = run(null, caplog)

        assert_one_message(code, number, found)
        assert (found.values == EXPECTED) is (found.error is None), (number, found)
        assert_nothing_left(null, number, found)


def assert_one_message(code: str, number: int, found: Run) -> None:
    """None where the failure does no harm: memory that goes back is kept for the end."""
    messages = [*found.warnings, *([str(found.error)] if found.error else [])]
    assert len(messages) <= 1, (number, messages)
    assert all(f"{found.failed_call}: {code}" in message for message in messages), (number, found)


def assert_nothing_left(null: NullDriver, number: int, found: Run) -> None:
    """What cannot be destroyed because that very call failed goes with the context."""
    released = null.log[-1].name == "cuDevicePrimaryCtxRelease" and null.log[-1].result != 0
    assert not null.live or released, (number, found, null.live)
    assert not null.orphans or found.failed_call in CLOSING, (number, found, null.orphans)


@pytest.mark.parametrize("call", ALLOCATIONS)
def test_no_memory_at_any_allocation_is_one_error_that_says_what_to_do(
    null: NullDriver, calls: range, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    for number in range(1, null.counts[call] + 1):
        null.reset()
        null.fail(call, nth=number, code="CUDA_ERROR_OUT_OF_MEMORY")

        found = run(null, caplog)

        assert found.failed_call == call
        assert found.warnings == []
        if found.error is not None:  # at the start the driver itself fails, and where memory goes back nobody does
            assert isinstance(found.error, GpuOutOfMemory | DriverError)
            assert "CUDA_ERROR_OUT_OF_MEMORY" in str(found.error)
        null.check_nothing_left()


def test_a_gpu_that_is_lost_is_named_once_and_asked_for_nothing_more_than_its_release(
    null: NullDriver, calls: range, caplog: pytest.LogCaptureFixture
) -> None:
    for number in calls:
        null.reset()
        null.fail("", nth=number, code="CUDA_ERROR_UNKNOWN", times=-1)

        found = run(null, caplog)

        assert_one_message("CUDA_ERROR_UNKNOWN", number, found)
        if number > OPENING:
            assert null.log[-1].name == "cuDevicePrimaryCtxRelease", (number, found)


def test_a_context_that_another_library_destroyed_is_named_once(
    null: NullDriver, caplog: pytest.LogCaptureFixture
) -> None:
    gpu = CudaDevice(NullCudaDriver())
    (array,) = gpu.upload([IMAGE])

    null.library.cuDevicePrimaryCtxReset_v2(0)

    for use in (array.to_host, lambda: gpu.stream("late"), lambda: gpu.upload([IMAGE])):
        with pytest.raises(CudaFailed, match=r"^cuda:0 cannot be used any more: .*CUDA_ERROR_CONTEXT_IS_DESTROYED"):
            use()
    del array
    gpu.close()
    assert (gpu.is_closed, caplog.messages) == (True, [])
    assert null.live == {}


def test_a_gpu_that_hangs_and_then_breaks_ends_whoever_waits_for_it(null: NullDriver) -> None:
    gpu = CudaDevice(NullCudaDriver())
    arrays = gpu.upload([IMAGE])
    said = list[str]()

    def wait() -> None:
        try:
            arrays[0].to_host()
        except CudaFailed as error:
            said.append(str(error))

    waiting = [threading.Thread(target=wait) for _ in range(3)]
    with null.hanging():
        for thread in waiting:
            thread.start()
        wait_until(lambda: null.counts["cuEventSynchronize"] == 3)
        null.break_gpu(0)
        for thread in waiting:
            thread.join()
    arrays.clear()
    gpu.close()

    assert len(said) == 3
    assert len(set(said)) == 1
    assert (
        "waiting for work of the stream 'to the host' failed: cuEventSynchronize: CUDA_ERROR_LAUNCH_FAILED" in said[0]
    )
    assert null.live == {}


def test_a_gpu_goes_on_when_memory_is_free_again(null: NullDriver) -> None:
    gpu = CudaDevice(NullCudaDriver())
    null.fail("cuMemAlloc", code="CUDA_ERROR_OUT_OF_MEMORY")

    with pytest.raises(GpuOutOfMemory, match="use fewer streams or smaller batches"):
        work(gpu)

    assert work(gpu) == EXPECTED
    gc.collect()
    gpu.close()
    null.check_nothing_left()
