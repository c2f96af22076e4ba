"""Graphs that can not be captured or launched, and what becomes of graphs: whatever happens, plain work goes on."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest

from sightline.devices.gpu.driver import Harm
from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.graphs import Graph
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import GpuError, GpuFailed
from sightline.media.device_array import DeviceArray
from sightline.testing.gpu.double import DoubleDriver
from sightline.testing.gpu.double_calls import Verb
from sightline.testing.gpu.double_memory import GpuMisuse
from tests.unit.devices.gpu.programs import ADD

VERBS: tuple[Verb, ...] = ("begin_capture", "launch", "end_capture")


@dataclass
class Bench:
    """Ten bytes, all 1 at first, that are ready on the stream `work`, and ten that are ready on another."""

    gpu: Gpu
    stream: GpuStream
    array: DeviceArray
    elsewhere: DeviceArray

    def add(self, amount: int) -> None:
        self.gpu.kernels(ADD)["add"](self.array, 10, amount, grid=1, block=32, stream=self.stream)

    def capture(self, queue: Callable[[], object] = lambda: None, *, name: str = "add") -> Graph:
        """A graph that adds 4, and of what `queue` queues."""

        def both() -> None:
            self.add(4)
            queue()

        return self.gpu.capture(self.stream, both, name=name, keep=self.array)

    @property
    def content(self) -> set[int]:
        values: list[int] = self.array.written(self.stream.record()).to_host().tolist()
        return set(values)


def make_bench(gpu: Gpu) -> Bench:
    stream, other = gpu.stream("work"), gpu.stream("other")
    arrays = [gpu.fill(gpu.empty((10,), np.uint8, stream=one), 1, stream=one) for one in (stream, other)]
    bench = Bench(gpu, stream, *arrays)
    bench.add(0)
    return bench


@pytest.fixture
def bench(gpu: Gpu) -> Bench:
    return make_bench(gpu)


@pytest.fixture
def breaking(driver: DoubleDriver) -> Bench:
    """The same on a GPU that may break."""
    return make_bench(Gpu(driver))


REFUSED: dict[str, tuple[Callable[[Bench], object], str]] = {
    "memory": (
        lambda bench: bench.gpu.empty((4,), np.uint8, stream=bench.stream),
        "memory of cuda:0: no memory is lent while the graph 'refused' is captured",
    ),
    "an upload": (
        lambda bench: bench.gpu.upload_into([np.ones(10, np.uint8)], [bench.array], stream=bench.stream),
        "pinned memory for cuda:0: no memory is lent",
    ),
    "a download": (lambda bench: bench.array.to_host(), "pinned memory for cuda:0: no memory is lent"),
    "content of another stream": (
        lambda bench: bench.elsewhere.on(bench.stream),
        "the stream 'work' is captured as a graph and can not wait for another stream's work",
    ),
    "waiting for the stream": (
        lambda bench: bench.stream.synchronize(),
        "waiting for the stream 'work' failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: synchronize",
    ),
    "waiting for an event": (lambda bench: bench.stream.record().wait(), "synchronize in a thread that captures"),
    "asking for an event": (lambda bench: bench.stream.record().is_done, "is_done in a thread that captures"),
    "loading a kernel": (
        lambda bench: bench.gpu.kernels(dataclasses.replace(ADD, name="other.cu")),
        "load in a thread that captures",
    ),
    "another capture": (
        lambda bench: bench.gpu.capture(bench.gpu.stream("inner"), lambda: None, name="inner"),
        "the graph 'inner' can not be captured while the graph 'refused' is",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_graph_can_not_hold_is_refused_and_nothing_is_queued(bench: Bench, what: str) -> None:
    act, said = REFUSED[what]

    with pytest.raises(GpuError, match=rf"^the graph 'refused' can not be captured: .*{said}") as raised:
        bench.capture(lambda: act(bench), name="refused")

    assert not isinstance(raised.value, GpuFailed)
    assert bench.content == {1}


def test_a_graph_in_a_graph_is_refused(bench: Bench) -> None:
    graph = bench.capture()

    with pytest.raises(GpuError, match="launch_graph of a stream that is captured"):
        bench.capture(graph.launch)

    assert bench.content == {1}


def test_a_refusal_that_was_swallowed_spoils_the_graph_all_the_same(bench: Bench) -> None:
    def queue() -> None:
        with suppress(GpuError):
            bench.stream.synchronize()

    with pytest.raises(GpuError, match=r"capturing the graph 'add' failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        bench.capture(queue)

    assert bench.content == {1}


def test_another_error_of_the_code_is_passed_on(bench: Bench) -> None:
    def queue() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.capture(queue)

    assert bench.content == {1}


def test_the_same_stream_is_captured_again_after_a_failure(bench: Bench) -> None:
    with pytest.raises(GpuError):
        bench.capture(bench.stream.synchronize)

    bench.capture().launch()

    assert bench.content == {5}


@pytest.mark.parametrize("verb", VERBS)
def test_a_refusal_by_cuda_leaves_the_stream_as_it_was(bench: Bench, driver: DoubleDriver, verb: Verb) -> None:
    driver.fail_next(verb, "CUDA_ERROR_NOT_SUPPORTED", harm=Harm.NONE)

    with pytest.raises(GpuError, match=r"'add' .*CUDA_ERROR_NOT_SUPPORTED") as raised:
        bench.capture()
    bench.add(2)

    assert not isinstance(raised.value, GpuFailed)
    assert bench.content == {3}


@pytest.mark.parametrize("verb", VERBS)
def test_a_gpu_that_breaks_in_a_capture_is_broken(breaking: Bench, driver: DoubleDriver, verb: Verb) -> None:
    driver.fail_next(verb, "CUDA_ERROR_LAUNCH_FAILED")

    with pytest.raises(GpuFailed, match="CUDA_ERROR_LAUNCH_FAILED"):
        breaking.capture()

    with pytest.raises(GpuFailed, match="CUDA_ERROR_LAUNCH_FAILED"):
        breaking.add(1)


def test_a_launch_that_is_refused_queues_and_counts_nothing(bench: Bench, driver: DoubleDriver) -> None:
    pinned = bench.gpu.pinned.lease(10)
    graph = bench.capture(lambda: bench.gpu.copy_to_pinned(bench.array, pinned, stream=bench.stream))
    driver.fail_next("launch_graph", "CUDA_ERROR_INVALID_VALUE", harm=Harm.NONE)

    with pytest.raises(GpuError, match=r"^cuda:0: launching the graph 'add' failed: CUDA_ERROR_INVALID_VALUE$"):
        graph.launch()

    assert bench.gpu.transfers.counts.device_to_host_copies == 0
    assert bench.content == {1}


def test_other_threads_work_on_while_a_graph_is_captured(bench: Bench) -> None:
    gpu, found = bench.gpu, list[list[int]]()

    def work() -> None:
        stream = gpu.stream("beside")
        found.append(gpu.fill(gpu.empty((3,), np.uint8, stream=stream), 8, stream=stream).to_host().tolist())

    def beside() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    bench.capture(beside).launch()

    assert (found, bench.content) == ([[8, 8, 8]], {5})


def test_another_thread_can_not_capture_the_same_stream_meanwhile(bench: Bench) -> None:
    said = list[str]()

    def work() -> None:
        try:
            bench.capture(name="late")
        except GpuError as error:
            said.append(str(error))

    def beside() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    bench.capture(beside, name="first").launch()

    assert said == ["the graph 'late' can not be captured while the graph 'first' is"]
    assert bench.content == {5}


def test_a_graph_that_nobody_holds_is_destroyed_at_the_next_chance(bench: Bench, driver: DoubleDriver) -> None:
    kept, dropped = bench.capture(), bench.capture()
    before = driver.live_graphs

    dropped.launch()
    del dropped
    kept.launch()

    assert (before, driver.live_graphs) == (2, 1)
    assert bench.content == {9}


def test_a_graph_keeps_the_memory_that_it_was_given_to_keep(bench: Bench) -> None:
    pool = bench.gpu.pool("scratch", limit_count=1)
    scratch = bench.gpu.empty((10,), np.uint8, stream=bench.stream, pool=pool)
    copy = functools.partial(bench.gpu.copy, [bench.array], [scratch], stream=bench.stream)
    graph = bench.gpu.capture(bench.stream, copy, name="copy", keep=scratch)

    del scratch, copy
    held = pool.lent
    del graph

    assert (held, pool.lent) == (1, 0)


def test_a_graph_whose_memory_was_given_back_is_found(driver: DoubleDriver) -> None:
    bench = make_bench(Gpu(driver))
    graph = bench.gpu.capture(bench.stream, lambda: bench.add(1), name="careless")

    bench.array = bench.elsewhere

    with pytest.raises(GpuMisuse, match="was given back since a graph captured its use"):
        graph.launch()


def test_a_gpu_that_was_closed_goes_with_the_graph_that_keeps_its_memory(driver: DoubleDriver) -> None:
    bench = make_bench(Gpu(driver))
    graphs = [bench.capture()]
    bench.gpu.close()

    graphs[0].launch()
    content = bench.content
    graphs.clear()
    bench.array = bench.elsewhere
    del bench

    assert content == {5}
    assert (driver.is_closed, driver.live_graphs) == (True, 0)


def test_a_gpu_that_closes_destroys_graphs_that_keep_nothing(driver: DoubleDriver) -> None:
    gpu = Gpu(driver)
    graph = gpu.capture(gpu.main_stream, lambda: None, name="empty")

    gpu.close()

    assert (driver.is_closed, driver.live_graphs) == (True, 0)
    with pytest.raises(GpuFailed, match="cuda:0 was closed"):
        graph.launch()
