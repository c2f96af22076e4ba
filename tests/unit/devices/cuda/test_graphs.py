"""Graphs: work that is noted once and queued as often as wanted, in the memory that it was captured with."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.graphs import Graph
from sightline.devices.cuda.streams import CudaEvent, CudaStream
from sightline.media.device_array import DeviceArray
from tests.unit.devices.cuda.drivers import TestedDriver
from tests.unit.devices.cuda.programs import ADD


@pytest.fixture
def stream(gpu: CudaDevice) -> CudaStream:
    return gpu.stream("work")


@pytest.fixture
def array(gpu: CudaDevice, stream: CudaStream) -> DeviceArray:
    """Ten bytes, all 1."""
    return gpu.fill(gpu.empty((10,), np.uint8, stream=stream), 1, stream=stream)


def adding(gpu: CudaDevice, array: DeviceArray, amount: int, *, stream: CudaStream) -> Callable[[], None]:
    """Queues that a number is added to every byte."""
    add = gpu.kernels(ADD)["add"]
    return lambda: add(array, array.nbytes, amount, grid=1, block=32, stream=stream)


def added(gpu: CudaDevice, array: DeviceArray, amount: int, *, stream: CudaStream) -> Graph:
    """The same as a graph, which keeps the array."""
    return gpu.capture(stream, adding(gpu, array, amount, stream=stream), name=f"add {amount}", keep=array)


def content(array: DeviceArray, stream: CudaStream) -> set[int]:
    values: list[int] = array.written(stream.record()).to_host().tolist()
    return set(values)


def test_what_is_captured_is_not_done(gpu: CudaDevice, stream: CudaStream, array: DeviceArray) -> None:
    added(gpu, array, 4, stream=stream)

    assert content(array, stream) == {1}


def test_a_graph_is_done_at_each_launch(gpu: CudaDevice, stream: CudaStream, array: DeviceArray) -> None:
    graph = added(gpu, array, 4, stream=stream)

    graph.launch()
    graph.launch()

    assert content(array, stream) == {9}


def test_a_graph_computes_with_what_lies_in_its_memory_now(
    gpu: CudaDevice, stream: CudaStream, array: DeviceArray
) -> None:
    graph = added(gpu, array, 4, stream=stream)
    graph.launch()
    gpu.upload_into([np.full(10, 100, np.uint8)], [array], stream=stream)

    graph.launch()

    assert content(array, stream) == {104}


def test_the_first_rows_of_a_table_are_uploaded_in_place(gpu: CudaDevice, stream: CudaStream) -> None:
    table = gpu.fill(gpu.empty((4, 8), np.uint8, stream=stream), 9, stream=stream)

    (rows,) = gpu.upload_into([np.ones((2, 8), np.uint8)], [table.rows(0, 2)], stream=stream)

    assert rows.address == table.address
    assert table.written(stream.record()).to_host()[:, 0].tolist() == [1, 1, 9, 9]


def test_an_upload_in_place_waits_for_what_was_there_before(
    gpu: CudaDevice, stream: CudaStream, array: DeviceArray
) -> None:
    other = gpu.stream("other")

    (after,) = gpu.upload_into([np.full(10, 5, np.uint8)], [array], stream=other)
    other.synchronize()
    stream.synchronize()

    assert after.to_host().tolist() == [5] * 10


def test_two_graphs_take_turns_on_the_same_memory(gpu: CudaDevice, stream: CudaStream, array: DeviceArray) -> None:
    one, ten = added(gpu, array, 1, stream=stream), added(gpu, array, 10, stream=stream)

    for graph in (one, ten, one):
        graph.launch()

    assert content(array, stream) == {13}


def test_kernels_copies_and_a_copy_to_the_host_are_one_graph(
    gpu: CudaDevice, stream: CudaStream, array: DeviceArray
) -> None:
    other, pinned = gpu.empty((10,), np.uint8, stream=stream), gpu.pinned.lease(10)
    add_one, add_two = adding(gpu, array, 1, stream=stream), adding(gpu, other, 2, stream=stream)

    def queue() -> None:
        add_one()
        gpu.copy([array], [other], stream=stream)
        gpu.fill(array, 7, stream=stream)
        add_two()
        gpu.copy_to_pinned(other, pinned, stream=stream)

    graph = gpu.capture(stream, queue, name="all", keep=(array, other, pinned))
    found = list[set[int]]()
    for _ in range(2):
        graph.launch()
        stream.record().wait()
        found.append(set(pinned.array((10,)).tolist()))

    assert found == [{1 + 1 + 2}, {7 + 1 + 2}]


def test_copies_to_the_host_are_counted_at_each_launch(gpu: CudaDevice, stream: CudaStream, array: DeviceArray) -> None:
    pinned = gpu.pinned.lease(10)
    graph = gpu.capture(stream, lambda: gpu.copy_to_pinned(array, pinned, stream=stream), name="copy", keep=pinned)
    captured = gpu.transfers.counts

    for _ in range(3):
        graph.launch()

    launched = gpu.transfers.counts
    assert (captured.device_to_host_copies, captured.device_to_host_bytes) == (0, 0)
    assert (launched.device_to_host_copies, launched.device_to_host_bytes) == (3, 30)


def test_a_copy_to_pinned_memory_outside_of_a_graph_is_counted_at_once(
    gpu: CudaDevice, stream: CudaStream, array: DeviceArray
) -> None:
    pinned = gpu.pinned.lease(20)

    gpu.copy_to_pinned(array, pinned, stream=stream, offset_bytes=10)
    stream.record().wait()

    assert pinned.array((10,), offset_bytes=10).tolist() == [1] * 10
    assert gpu.transfers.counts.device_to_host_copies == 1


@pytest.mark.parametrize("offset", [-1, 2048])
def test_a_copy_beside_pinned_memory_is_refused(
    gpu: CudaDevice, stream: CudaStream, array: DeviceArray, offset: int
) -> None:
    pinned = gpu.pinned.lease(10)

    with pytest.raises(ValueError, match=r"10 bytes at .* do not fit into"):
        gpu.copy_to_pinned(array, pinned, stream=stream, offset_bytes=offset)


def test_an_event_asked_for_in_a_capture_is_the_point_before_it(
    gpu: CudaDevice, stream: CudaStream, array: DeviceArray
) -> None:
    events = list[CudaEvent]()
    add = adding(gpu, array, 1, stream=stream)

    def queue() -> None:
        add()
        events.append(stream.record())

    graph = gpu.capture(stream, queue, name="add")
    gpu.stream("other").wait(events[0])
    events[0].wait()
    graph.launch()

    assert content(array, stream) == {2}


def test_memory_that_is_given_back_while_a_graph_is_captured_can_be_lent_again(
    gpu: CudaDevice, stream: CudaStream, array: DeviceArray
) -> None:
    pool, other = gpu.pool("images", limit_count=1), gpu.stream("other")
    images = [gpu.fill(gpu.empty((10,), np.uint8, stream=stream, pool=pool), 3, stream=stream)]
    add = adding(gpu, array, 1, stream=stream)

    def queue() -> None:
        add()
        giving_back = threading.Thread(target=images.clear)
        giving_back.start()
        giving_back.join()

    gpu.capture(stream, queue, name="add", keep=array).launch()
    again = gpu.fill(gpu.empty((10,), np.uint8, stream=other, pool=pool), 5, stream=other)

    assert (set(again.to_host().tolist()), content(array, stream)) == ({5}, {2})


def test_an_event_that_was_caught_by_a_capture_just_beginning_is_recorded_before_it(
    gpu: CudaDevice, driver: TestedDriver, stream: CudaStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, begun, over = driver.record, threading.Event(), threading.Event()

    def queue() -> None:
        begun.set()
        over.wait(60)

    capturing = threading.Thread(target=lambda: gpu.capture(stream, queue, name="sudden"))

    def record_late(event: int, *, stream: int) -> None:
        monkeypatch.setattr(driver, "record", record)
        capturing.start()
        begun.wait(60)
        record(event, stream=stream)

    monkeypatch.setattr(driver, "record", record_late)
    event = stream.record()
    over.set()
    capturing.join()

    event.wait()
    assert event.is_done
