"""The life of graphs: they go when nobody holds them, and what they keep goes with them."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import CudaFailed
from tests.fakes.cuda import CudaMisuse
from tests.unit.devices.cuda.benches import Bench, make_bench
from tests.unit.devices.cuda.drivers import MakeDriver, TestedDriver


@pytest.fixture
def bench(gpu: CudaDevice) -> Bench:
    return make_bench(gpu)


def test_a_graph_that_nobody_holds_is_destroyed_at_the_next_chance(bench: Bench, driver: TestedDriver) -> None:
    kept, dropped = bench.capture(), bench.capture()
    before = driver.live_graphs

    dropped.launch()
    del dropped
    kept.launch()

    assert (before, driver.live_graphs) == (2, 1)
    assert bench.content == {9}


def test_no_graph_is_destroyed_by_a_thread_that_captures(bench: Bench, driver: TestedDriver) -> None:
    other = bench.gpu.capture(bench.gpu.stream("other"), lambda: None, name="other")
    dropped = [bench.capture()]
    counts = list[int]()

    def queue() -> None:
        dropped.clear()
        other.launch()
        counts.append(driver.live_graphs)

    graph = bench.capture(queue)
    graph.launch()

    assert (counts, driver.live_graphs) == ([2], 2)
    assert bench.content == {5}


def test_memory_that_a_thread_lets_go_of_while_it_captures_is_freed_behind_the_capture(
    bench: Bench, driver: TestedDriver
) -> None:
    pools = [bench.gpu.pool("of a decoder that is gone")]
    bench.gpu.empty((10,), np.uint8, stream=bench.stream, pool=pools[0])
    live = [driver.live_bytes]

    def queue() -> None:
        pools.clear()
        live.append(driver.live_bytes)
        bench.add(1)

    graph = bench.capture(queue)
    graph.launch()

    assert live[0] == live[1]
    assert driver.live_bytes[0] == live[0][0] - 256
    assert bench.content == {6}


def test_a_gpu_that_is_let_go_of_while_another_is_captured_is_closed_behind_the_capture(
    bench: Bench, make_driver: MakeDriver
) -> None:
    driver = make_driver(1)
    other = CudaDevice(driver)
    held = [other.empty((10,), np.uint8, stream=other.main_stream)]
    other.close()

    graph = bench.capture(held.clear)
    graph.launch()

    assert driver.is_closed
    driver.check()


def test_a_graph_keeps_the_memory_that_it_was_given_to_keep(bench: Bench) -> None:
    pool = bench.gpu.pool("scratch", limit_count=1)
    scratch = bench.gpu.empty((10,), np.uint8, stream=bench.stream, pool=pool)
    copy = functools.partial(bench.gpu.copy, [bench.array], [scratch], stream=bench.stream)
    graph = bench.gpu.capture(bench.stream, copy, name="copy", keep=scratch)

    del scratch, copy
    held = pool.lent
    del graph

    assert (held, pool.lent) == (1, 0)


@pytest.mark.fake_driver("the null driver does not know who holds memory of a pool")
def test_a_graph_whose_memory_was_given_back_is_found(driver: TestedDriver) -> None:
    bench = make_bench(CudaDevice(driver))
    graph = bench.gpu.capture(bench.stream, lambda: bench.add(1), name="careless")

    bench.array = bench.elsewhere

    with pytest.raises(CudaMisuse, match="was given back since a graph captured its use"):
        graph.launch()


def test_a_gpu_that_was_closed_goes_with_the_graph_that_keeps_its_memory(driver: TestedDriver) -> None:
    bench = make_bench(CudaDevice(driver))
    graphs = [bench.capture()]
    bench.gpu.close()

    graphs[0].launch()
    content = bench.content
    graphs.clear()
    bench.array = bench.elsewhere
    del bench

    assert content == {5}
    assert (driver.is_closed, driver.live_graphs) == (True, 0)


def test_a_gpu_that_closes_destroys_graphs_that_keep_nothing(driver: TestedDriver) -> None:
    gpu = CudaDevice(driver)
    graph = gpu.capture(gpu.main_stream, lambda: None, name="empty")

    gpu.close()

    assert (driver.is_closed, driver.live_graphs) == (True, 0)
    with pytest.raises(CudaFailed, match="cuda:0 was closed"):
        graph.launch()
