"""The double of a driver: what a real GPU would not forgive, it does not either."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from sightline.devices.cuda.driver import DriverError, Harm, Span
from tests.fakes import POISON, CudaMisuse, FakeCudaDriver, fake_cuda_device

Act = Callable[[FakeCudaDriver], object]


@pytest.fixture
def driver() -> FakeCudaDriver:
    return FakeCudaDriver(memory_bytes=2**20, pinned_bytes=2**20)


def content(driver: FakeCudaDriver, address: int, count: int) -> list[int]:
    """What memory holds, read by a stream of its own."""
    stream, pinned = driver.create_stream(), driver.allocate_pinned(count)
    driver.copy(Span(pinned, count, on_host=True), Span(address, count), width_bytes=count, rows=1, stream=stream)
    driver.synchronize(stream)
    arena = driver._arenas[True]
    found: list[int] = arena.rows(Span(pinned, count), width_bytes=count, rows=1)[0].tolist()
    driver.free_pinned(pinned)
    return found


def fill(driver: FakeCudaDriver, address: int, value: int, *, stream: int, count: int = 16) -> None:
    driver.fill(Span(address, count), value, width_bytes=count, rows=1, stream=stream)


def test_new_memory_holds_poison(driver: FakeCudaDriver) -> None:
    with driver.current():
        assert content(driver, driver.allocate(16), 16) == [POISON] * 16


def test_freed_memory_is_poisoned_and_lent_again_first(driver: FakeCudaDriver) -> None:
    with driver.current():
        stream = driver.create_stream()
        addresses = [driver.allocate(16) for _ in range(3)]
        for address in addresses:
            fill(driver, address, 7, stream=stream)
        driver.synchronize(stream)
        for address in addresses:
            driver.free(address)

        again = [driver.allocate(16) for _ in range(3)]

        assert again == addresses[::-1]
        assert [content(driver, address, 16) for address in again] == [[POISON] * 16] * 3


def freed_twice(driver: FakeCudaDriver) -> None:
    address = driver.allocate(16)
    driver.free(address)
    driver.free(address)


def freed_in_the_middle(driver: FakeCudaDriver) -> None:
    driver.free(driver.allocate(16) + 1)


def used_after_it_was_freed(driver: FakeCudaDriver) -> None:
    address = driver.allocate(16)
    driver.free(address)
    fill(driver, address, 1, stream=driver.create_stream())


def freed_before_it_is_used(driver: FakeCudaDriver) -> None:
    address, stream = driver.allocate(16), driver.create_stream()
    fill(driver, address, 1, stream=stream)
    driver.free(address)
    driver.synchronize(stream)


def written_beyond_the_end(driver: FakeCudaDriver) -> None:
    fill(driver, driver.allocate(16), 1, stream=driver.create_stream(), count=17)


def written_before_the_start(driver: FakeCudaDriver) -> None:
    fill(driver, driver.allocate(16) - 1, 1, stream=driver.create_stream())


def copied_from_pageable_memory(driver: FakeCudaDriver) -> None:
    array = np.zeros(16, np.uint8)
    source, target = Span(array.ctypes.data, 16, on_host=True), Span(driver.allocate(16), 16)
    driver.copy(target, source, width_bytes=16, rows=1, stream=driver.create_stream())


def rows_that_overlap(driver: FakeCudaDriver) -> None:
    driver.fill(Span(driver.allocate(64), 4), 1, width_bytes=8, rows=4, stream=driver.create_stream())


def a_stream_that_is_none(driver: FakeCudaDriver) -> None:
    driver.synchronize(5)


def a_stream_that_was_destroyed(driver: FakeCudaDriver) -> None:
    stream = driver.create_stream()
    driver.destroy_stream(stream)
    driver.synchronize(stream)


def the_default_stream(driver: FakeCudaDriver) -> None:
    fill(driver, driver.allocate(16), 1, stream=0)


def an_event_that_is_none(driver: FakeCudaDriver) -> None:
    driver.synchronize_event(5)


def a_kernel_that_is_none(driver: FakeCudaDriver) -> None:
    driver.function(5, "add")


def nothing_is_asked_for(driver: FakeCudaDriver) -> None:
    driver.allocate(0)


MISUSES: dict[Act, str] = {
    freed_twice: "was freed twice",
    freed_in_the_middle: "is no GPU memory that was allocated",
    used_after_it_was_freed: "is used after it was freed",
    freed_before_it_is_used: "was freed before work that uses it was done",
    written_beyond_the_end: "reach 1 bytes beyond the end of 16 bytes of GPU memory",
    written_before_the_start: "lies outside of all GPU memory that was allocated",
    copied_from_pageable_memory: "lies outside of all pinned memory that was allocated",
    rows_that_overlap: "a copy of 4 rows of 8 bytes, 4 apart",
    a_stream_that_is_none: "there is no stream 5",
    a_stream_that_was_destroyed: "there is no stream",
    the_default_stream: "there is no stream 0",
    an_event_that_is_none: "there is no event 5",
    a_kernel_that_is_none: "there is no module 5",
    nothing_is_asked_for: "0 bytes of GPU memory were asked for",
}


@pytest.mark.parametrize("act", MISUSES, ids=lambda act: act.__name__)
def test_misuse_raises_and_is_remembered(driver: FakeCudaDriver, act: Act) -> None:
    with driver.current(), pytest.raises(CudaMisuse, match=MISUSES[act]):
        act(driver)

    with pytest.raises(CudaMisuse, match=MISUSES[act]):
        driver.check()


def test_a_thread_without_a_context_can_do_nothing(driver: FakeCudaDriver) -> None:
    with pytest.raises(CudaMisuse, match="no context is current in this thread"):
        driver.allocate(16)


def test_a_closed_driver_can_do_nothing(driver: FakeCudaDriver) -> None:
    driver.close()

    with driver.current(), pytest.raises(CudaMisuse, match="used after it was closed"):
        driver.allocate(16)


def test_only_what_is_needed_is_done(driver: FakeCudaDriver) -> None:
    with driver.current():
        address, first, second = driver.allocate(16), driver.create_stream(), driver.create_stream()
        fill(driver, address, 1, stream=first)
        event = driver.create_event()
        driver.record(event, stream=first)
        fill(driver, address, 2, stream=first)
        driver.wait(second, event=event)

        driver.synchronize(second)

        assert driver.undone == 1
        assert content(driver, address, 16) == [1] * 16


def test_an_event_stands_for_the_point_at_which_it_was_waited_for(driver: FakeCudaDriver) -> None:
    with driver.current():
        address, first, second = driver.allocate(16), driver.create_stream(), driver.create_stream()
        event = driver.create_event()
        driver.record(event, stream=first)
        driver.wait(second, event=event)
        fill(driver, address, 2, stream=first)
        driver.record(event, stream=first)

        driver.synchronize(second)

        assert content(driver, address, 16) == [POISON] * 16


def test_who_asks_for_ever_sees_an_event_reached(driver: FakeCudaDriver) -> None:
    with driver.current():
        stream, event = driver.create_stream(), driver.create_event()
        fill(driver, driver.allocate(16), 1, stream=stream)
        driver.record(event, stream=stream)

        first = driver.is_done(event)
        while not driver.is_done(event):
            pass

        assert not first
        assert driver.undone == 0


def test_memory_ends(driver: FakeCudaDriver) -> None:
    with driver.current(), pytest.raises(DriverError) as raised:
        driver.allocate(2**21)

    assert raised.value.harm is Harm.MEMORY
    driver.check()


def test_a_large_piece_that_was_freed_serves_a_small_one_before_memory_ends(driver: FakeCudaDriver) -> None:
    with driver.current():
        large = driver.allocate(900_000)
        driver.free(large)

        assert driver.allocate(500_000) == large


def test_a_broken_device_answers_every_call_with_its_error(driver: FakeCudaDriver) -> None:
    driver.fail_next("work", "CUDA_ERROR_LAUNCH_FAILED")
    with driver.current():
        stream = driver.create_stream()
        fill(driver, driver.allocate(16), 1, stream=stream)

        for act in (lambda: driver.synchronize(stream), driver.create_event, lambda: driver.allocate(16)):
            with pytest.raises(DriverError, match="CUDA_ERROR_LAUNCH_FAILED") as raised:
                act()
            assert raised.value.harm is Harm.DEVICE


def misused_in_silence() -> None:
    with fake_cuda_device() as gpu, gpu.guard("trying") as driver, suppress(CudaMisuse):
        driver.synchronize(5)


def test_the_stand_in_tells_of_misuse_that_nobody_saw() -> None:
    with pytest.raises(CudaMisuse, match="no stream 5"):
        misused_in_silence()


def test_work_of_a_library_is_done_in_the_order_of_its_stream(driver: FakeCudaDriver) -> None:
    done = list[str]()
    with driver.current():
        stream, address = driver.create_stream(), driver.allocate(16)
        driver.queue(stream, lambda: done.append("work"), uses=[(address, 16)])
        before = list(done)
        driver.synchronize(stream)

    assert (before, done) == ([], ["work"])


def test_work_of_a_library_uses_only_memory_that_is_there(driver: FakeCudaDriver) -> None:
    with driver.current():
        stream, address = driver.create_stream(), driver.allocate(16)
        with pytest.raises(CudaMisuse, match="reach 1 bytes beyond the end"):
            driver.queue(stream, lambda: None, uses=[(address, 17)])
