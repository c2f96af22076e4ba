"""The journal of the double: an order of calls that a test can state."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Harm
from sightline.errors import CudaError
from tests.fakes import FakeCudaDriver
from tests.unit.devices.cuda.programs import ADD


@pytest.fixture
def driver() -> FakeCudaDriver:
    return FakeCudaDriver(memory_bytes=2**20, pinned_bytes=2**20)


@pytest.fixture
def gpu(driver: FakeCudaDriver) -> Iterator[CudaDevice]:
    gpu = CudaDevice(driver)
    yield gpu
    gpu.close()
    driver.check()


def test_calls_are_noted_in_their_order_by_the_names_of_streams(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    work, other = gpu.stream("work"), gpu.stream("other")
    with driver.journaling(work=work, other=other) as journal:
        array = gpu.fill(gpu.empty((10,), np.uint8, stream=work), 1, stream=work)
        gpu.kernels(ADD)["add"](array, 10, 1, grid=1, block=32, stream=other)
        other.synchronize()

    assert journal.lines == [
        "allocate 256 bytes",
        "fill 10 bytes on work",
        "create_event",
        "record on work",
        "load add.cu",
        "function add",
        "wait for work on other",
        "launch add on other",
        "synchronize on other",
    ]


def test_copies_say_where_they_go(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    work = gpu.stream("work")
    array, pinned = gpu.empty((2, 3), np.float32, stream=work), gpu.pinned.lease(24)

    with driver.journaling(work=work) as journal:
        gpu.upload_into([np.zeros((2, 3), np.float32)], [array], stream=work)
        gpu.copy([array], [array], stream=work)
        gpu.copy_to_pinned(array, pinned, stream=work)

    assert journal.of("copy") == [
        "copy 24 bytes from host on work",
        "copy 24 bytes on work",
        "copy 24 bytes to host on work",
    ]


def test_a_graph_is_noted_where_it_is_captured_and_is_one_call_when_launched(
    gpu: CudaDevice, driver: FakeCudaDriver
) -> None:
    work = gpu.stream("work")
    add, array = gpu.kernels(ADD)["add"], gpu.fill(gpu.empty((10,), np.uint8, stream=work), 1, stream=work)

    with driver.journaling(work=work) as journal:
        graph = gpu.capture(work, lambda: add(array, 10, 1, grid=1, block=32, stream=work), name="add")
        graph.launch()

    assert journal.lines[-4:] == [
        "begin_capture on work",
        "launch add on work",
        "end_capture on work",
        "launch_graph 1 on work",
    ]


def test_work_of_libraries_is_noted_by_its_name(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    work = gpu.stream("work")

    with driver.journaling(work=work) as journal, gpu.guard("inferring"):
        driver.queue(work.handle, lambda: None, uses=[], what="detector")

    assert journal.lines == ["queue detector on work"]


def test_who_waits_for_an_event_is_noted_with_its_stream(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    work = gpu.stream("work")

    with driver.journaling(work=work) as journal:
        event = work.record()
        event.wait()
        assert event.is_done

    assert journal.of("synchronize", "is_done") == ["synchronize event on work", "is_done on work"]


def test_a_stream_without_a_name_is_told_by_its_number(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    work = gpu.stream("work")

    with driver.journaling() as journal:
        work.synchronize()

    assert journal.lines == [f"synchronize on stream {work.handle}"]


def test_calls_of_all_threads_are_noted_and_none_outside_of_the_block(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    work = gpu.stream("work")

    work.synchronize()
    with driver.journaling(work=work) as journal:
        thread = threading.Thread(target=work.synchronize)
        thread.start()
        thread.join()
    work.synchronize()

    assert journal.lines == ["synchronize on work"]


def test_a_call_that_fails_at_once_is_not_noted(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    work = gpu.stream("work")
    driver.fail_next("synchronize", "CUDA_ERROR_INVALID_VALUE", harm=Harm.NONE)

    with driver.journaling(work=work) as journal, pytest.raises(CudaError):
        work.synchronize()

    assert journal.lines == []
