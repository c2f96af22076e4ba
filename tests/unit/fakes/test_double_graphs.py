"""Graphs of the double: captured work, done at each launch, in memory that must still be there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from sightline.devices.cuda.driver import Span, pack_arguments
from tests.fakes import CudaMisuse
from tests.unit.devices.cuda.programs import ADD
from tests.unit.fakes.captures import Captured


@pytest.fixture
def captured() -> Iterator[Captured]:
    captured = Captured()
    with captured.driver.current():
        yield captured


def test_captured_work_is_done_at_launch_and_never_before(captured: Captured) -> None:
    driver = captured.driver
    captured.work("a")
    captured.work("b")
    graph = driver.end_capture(captured.stream)
    driver.synchronize(captured.stream)
    before = list(captured.done)

    for _ in range(2):
        driver.launch_graph(graph, stream=captured.stream)
    launched = list(captured.done)
    driver.synchronize(captured.stream)

    assert (before, launched, captured.done) == ([], [], ["a", "b", "a", "b"])


def test_launches_of_one_graph_follow_each_other_on_any_streams(captured: Captured) -> None:
    driver = captured.driver
    captured.work("a")
    graph = driver.end_capture(captured.stream)
    driver.launch_graph(graph, stream=captured.stream)
    driver.launch_graph(graph, stream=captured.other)

    driver.synchronize(captured.other)

    assert captured.done == ["before", "a", "a"]


def test_kernels_count_as_launched_with_their_graph(captured: Captured) -> None:
    driver = captured.driver
    driver.abandon_capture(captured.stream)
    function = driver.function(driver.load(ADD), "add")
    arguments = pack_arguments("add", parameters=ADD.kernels["add"], arguments=[np.uint64(captured.address), 16, 1])
    driver.begin_capture(captured.stream)
    driver.launch(function, arguments, grid=(1, 1, 1), block=(16, 1, 1), shared_bytes=0, stream=captured.stream)
    graph = driver.end_capture(captured.stream)
    before = list(driver.launched)

    driver.launch_graph(graph, stream=captured.stream)

    assert (before, driver.launched) == ([], ["add"])


def captured_fill(captured: Captured) -> int:
    span = Span(captured.address, 16)
    captured.driver.fill(span, 1, width_bytes=16, rows=1, stream=captured.stream)
    return captured.driver.end_capture(captured.stream)


def memory_was_freed(captured: Captured) -> None:
    graph = captured_fill(captured)
    captured.driver.synchronize(captured.other)
    captured.driver.free(captured.address)
    captured.driver.launch_graph(graph, stream=captured.stream)


def memory_was_freed_and_is_anothers(captured: Captured) -> None:
    graph = captured_fill(captured)
    captured.driver.synchronize(captured.other)
    captured.driver.free(captured.address)
    assert captured.driver.allocate(16) == captured.address
    captured.driver.launch_graph(graph, stream=captured.stream)


def memory_was_given_back(captured: Captured) -> None:
    graph = captured_fill(captured)
    captured.driver.retire(captured.address, 16, after=[captured.outside])
    captured.driver.launch_graph(graph, stream=captured.stream)


def memory_is_given_back_too_early(captured: Captured) -> None:
    graph = captured_fill(captured)
    captured.driver.launch_graph(graph, stream=captured.stream)
    captured.driver.retire(captured.address, 16, after=[])
    captured.driver.synchronize(captured.stream)


def memory_is_freed_before_the_graph_is_done(captured: Captured) -> None:
    graph = captured_fill(captured)
    captured.driver.launch_graph(graph, stream=captured.stream)
    captured.driver.free(captured.address)
    captured.driver.synchronize(captured.stream)


def a_graph_that_was_destroyed(captured: Captured) -> None:
    graph = captured.driver.end_capture(captured.stream)
    captured.driver.destroy_graph(graph)
    captured.driver.launch_graph(graph, stream=captured.stream)


def destroyed_twice(captured: Captured) -> None:
    graph = captured.driver.end_capture(captured.stream)
    captured.driver.destroy_graph(graph)
    captured.driver.destroy_graph(graph)


MISUSES: dict[Callable[[Captured], None], str] = {
    memory_was_freed: "was given back since a graph captured its use",
    memory_was_freed_and_is_anothers: "was given back since a graph captured its use",
    memory_was_given_back: "was given back since a graph captured its use",
    memory_is_given_back_too_early: "was given to another before work that uses it was done",
    memory_is_freed_before_the_graph_is_done: "was freed before work that uses it was done",
    a_graph_that_was_destroyed: "there is no graph",
    destroyed_twice: "there is no graph",
}


@pytest.mark.parametrize("act", MISUSES, ids=lambda act: act.__name__)
def test_misuse_raises_and_is_remembered(captured: Captured, act: Callable[[Captured], None]) -> None:
    with pytest.raises(CudaMisuse, match=MISUSES[act]):
        act(captured)

    with pytest.raises(CudaMisuse, match=MISUSES[act]):
        captured.driver.check()


def test_a_graph_that_is_destroyed_is_still_done_where_it_was_launched(captured: Captured) -> None:
    captured.work("a")
    graph = captured.driver.end_capture(captured.stream)
    captured.driver.launch_graph(graph, stream=captured.stream)

    captured.driver.destroy_graph(graph)
    captured.driver.synchronize(captured.stream)

    assert captured.done == ["a"]
