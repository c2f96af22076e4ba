"""Graphs that cannot be captured or launched: whatever happens, plain work goes on."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Harm
from sightline.errors import CudaError, CudaFailed
from tests.fakes.cuda_driver import Verb
from tests.unit.devices.cuda.benches import Bench, make_bench
from tests.unit.devices.cuda.drivers import TestedDriver
from tests.unit.devices.cuda.programs import ADD

UNSUPPORTED = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
VERBS: tuple[Verb, ...] = ("begin_capture", "launch", "end_capture")


@pytest.fixture
def bench(gpu: CudaDevice) -> Bench:
    return make_bench(gpu)


@pytest.fixture
def breaking(driver: TestedDriver) -> Iterator[Bench]:
    """The same on a GPU that may break."""
    gpu = CudaDevice(driver)
    yield make_bench(gpu)
    gpu.close()


REFUSED: dict[str, tuple[Callable[[Bench], object], str]] = {
    "memory": (
        lambda bench: bench.gpu.empty((4,), np.uint8, stream=bench.stream),
        "arrays: no memory is lent while the graph 'refused' is captured",
    ),
    "an upload": (
        lambda bench: bench.gpu.upload_into([np.ones(10, np.uint8)], [bench.array], stream=bench.stream),
        "pinned memory for cuda:0: no memory is lent",
    ),
    "a download": (lambda bench: bench.array.to_host(), "pinned memory for cuda:0: no memory is lent"),
    "content of another stream": (
        lambda bench: bench.elsewhere.on(bench.stream),
        "the stream 'work' is captured as a graph and cannot wait for another stream's work",
    ),
    "waiting for the stream": (
        lambda bench: bench.stream.synchronize(),
        f"waiting for the stream 'work' failed: .*{UNSUPPORTED}",
    ),
    "waiting for an event": (lambda bench: bench.stream.record().wait(), f"waiting for work of .*{UNSUPPORTED}"),
    "asking for an event": (lambda bench: bench.stream.record().is_done, f"asking for work of .*{UNSUPPORTED}"),
    "loading a kernel": (
        lambda bench: bench.gpu.kernels(dataclasses.replace(ADD, name="other.cu")),
        f"loading other.cu failed: .*{UNSUPPORTED}",
    ),
    "another capture": (
        lambda bench: bench.gpu.capture(bench.gpu.stream("inner"), lambda: None, name="inner"),
        "the graph 'inner' cannot be captured while the graph 'refused' is",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_graph_can_not_hold_is_refused_and_nothing_is_queued(bench: Bench, what: str) -> None:
    act, said = REFUSED[what]

    with pytest.raises(CudaError, match=rf"^the graph 'refused' cannot be captured: .*{said}") as raised:
        bench.capture(lambda: act(bench), name="refused")

    assert not isinstance(raised.value, CudaFailed)
    assert bench.content == {1}


def test_a_graph_in_a_graph_is_refused(bench: Bench) -> None:
    graph = bench.capture()

    with pytest.raises(CudaError, match=f"launching the graph 'add' failed: .*{UNSUPPORTED}"):
        bench.capture(graph.launch)

    assert bench.content == {1}


def test_a_refusal_that_was_swallowed_spoils_the_graph_all_the_same(bench: Bench) -> None:
    def queue() -> None:
        with suppress(CudaError):
            bench.stream.synchronize()

    with pytest.raises(CudaError, match=r"capturing the graph 'add' failed: .*CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        bench.capture(queue)

    assert bench.content == {1}


def test_another_error_of_the_code_is_passed_on(bench: Bench) -> None:
    def queue() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.capture(queue)

    assert bench.content == {1}


def test_the_same_stream_is_captured_again_after_a_failure(bench: Bench) -> None:
    with pytest.raises(CudaError):
        bench.capture(bench.stream.synchronize)

    bench.capture().launch()

    assert bench.content == {5}


@pytest.mark.parametrize("verb", VERBS)
def test_a_refusal_by_cuda_leaves_the_stream_as_it_was(bench: Bench, driver: TestedDriver, verb: Verb) -> None:
    driver.fail_next(verb, "CUDA_ERROR_NOT_SUPPORTED", harm=Harm.NONE)

    with pytest.raises(CudaError, match=r"'add' .*CUDA_ERROR_NOT_SUPPORTED") as raised:
        bench.capture()
    bench.add(2)

    assert not isinstance(raised.value, CudaFailed)
    assert bench.content == {3}


@pytest.mark.parametrize("verb", VERBS)
def test_a_gpu_that_breaks_in_a_capture_is_broken(breaking: Bench, driver: TestedDriver, verb: Verb) -> None:
    driver.fail_next(verb, "CUDA_ERROR_LAUNCH_FAILED")

    with pytest.raises(CudaFailed, match="CUDA_ERROR_LAUNCH_FAILED"):
        breaking.capture()

    with pytest.raises(CudaFailed, match="CUDA_ERROR_LAUNCH_FAILED"):
        breaking.add(1)


def test_a_launch_that_is_refused_queues_and_counts_nothing(bench: Bench, driver: TestedDriver) -> None:
    pinned = bench.gpu.pinned.lease(10)
    graph = bench.capture(lambda: bench.gpu.copy_to_pinned(bench.array, pinned, stream=bench.stream))
    driver.fail_next("launch_graph", "CUDA_ERROR_INVALID_VALUE", harm=Harm.NONE)

    with pytest.raises(CudaError, match=r"^cuda:0: launching the graph 'add' failed: .*CUDA_ERROR_INVALID_VALUE$"):
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
        except CudaError as error:
            said.append(str(error))

    def beside() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    bench.capture(beside, name="first").launch()

    assert said == ["the graph 'late' cannot be captured while the graph 'first' is"]
    assert bench.content == {5}
