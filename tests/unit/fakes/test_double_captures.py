"""Captures of the double: what CUDA refuses meanwhile, and what that does to the capture."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from sightline.devices.cuda.driver import DriverError, Harm
from tests.fakes import FakeCudaDriver
from tests.fakes.cuda_driver import Verb
from tests.unit.devices.cuda.programs import ADD
from tests.unit.fakes.captures import Captured


@pytest.fixture
def captured() -> Iterator[Captured]:
    captured = Captured()
    with captured.driver.current():
        yield captured


def by_another_thread(act: Callable[[], object], driver: FakeCudaDriver) -> BaseException | None:
    """What it raises there."""
    raised = list[BaseException]()

    def run() -> None:
        try:
            with driver.current():
                act()
        except DriverError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None


def test_what_was_captured_and_abandoned_is_forgotten(captured: Captured) -> None:
    captured.work("a")

    captured.driver.abandon_capture(captured.stream)
    captured.work("b")
    captured.driver.synchronize(captured.stream)

    assert captured.done == ["b"]


def test_an_event_of_the_same_capture_orders_nothing_more(captured: Captured) -> None:
    driver = captured.driver
    driver.record(captured.event, stream=captured.stream)
    driver.wait(captured.stream, event=captured.event)
    captured.work("a")

    driver.launch_graph(driver.end_capture(captured.stream), stream=captured.stream)
    driver.synchronize(captured.stream)

    assert captured.done == ["a"]


SPOILING: dict[str, tuple[Callable[[Captured], object], str]] = {
    "memory": (lambda on: on.driver.allocate(16), "UNSUPPORTED: allocate"),
    "pinned memory": (lambda on: on.driver.allocate_pinned(16), "UNSUPPORTED: allocate_pinned"),
    "memory is freed": (lambda on: on.driver.free(on.address), "UNSUPPORTED: free"),
    "a graph is destroyed": (lambda on: on.driver.destroy_graph(1), "UNSUPPORTED: destroy_graph"),
    "a module": (lambda on: on.driver.load(ADD), "UNSUPPORTED: load"),
    "waiting for the stream": (lambda on: on.driver.synchronize(on.stream), "UNSUPPORTED: synchronize"),
    "waiting for another stream": (lambda on: on.driver.synchronize(on.other), "UNSUPPORTED: synchronize"),
    "waiting for an event": (lambda on: on.driver.synchronize_event(on.outside), "UNSUPPORTED: synchronize"),
    "asking for an event": (lambda on: on.driver.is_done(on.outside), "UNSUPPORTED: is_done"),
    "an event from outside": (lambda on: on.driver.wait(on.stream, event=on.outside), "ISOLATION: a wait across"),
    "an event that leaves": (lambda on: leaving(on), "ISOLATION: a wait across"),
    "the stream is destroyed": (lambda on: on.driver.destroy_stream(on.stream), "UNSUPPORTED: destroy_stream"),
}


def leaving(on: Captured) -> None:
    on.driver.record(on.event, stream=on.stream)
    on.driver.wait(on.other, event=on.event)


@pytest.mark.parametrize("what", SPOILING)
def test_what_is_forbidden_is_refused_and_spoils_the_capture(captured: Captured, what: str) -> None:
    act, said = SPOILING[what]
    driver = captured.driver

    with pytest.raises(DriverError, match=f"CUDA_ERROR_STREAM_CAPTURE_{said}") as raised:
        act(captured)
    with pytest.raises(DriverError, match="CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        captured.work("more")
    with pytest.raises(DriverError, match="CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        driver.end_capture(captured.stream)

    assert raised.value.harm is Harm.NONE
    captured.work("plain")
    driver.synchronize(captured.stream)
    assert captured.done == ["plain"]


@pytest.mark.parametrize("what", SPOILING)
def test_a_spoiled_capture_can_be_abandoned(captured: Captured, what: str) -> None:
    with pytest.raises(DriverError):
        SPOILING[what][0](captured)

    captured.driver.abandon_capture(captured.stream)

    captured.driver.begin_capture(captured.stream)


REFUSED: dict[str, tuple[Callable[[Captured], object], str]] = {
    "begun twice": (lambda on: on.driver.begin_capture(on.stream), "ILLEGAL_STATE: the stream is captured already"),
    "ended without begin": (lambda on: on.driver.end_capture(on.other), "ILLEGAL_STATE: the stream is not captured"),
    "abandoned without begin": (
        lambda on: on.driver.abandon_capture(on.other),
        "ILLEGAL_STATE: the stream is not captured",
    ),
    "a default stream": (lambda on: on.driver.begin_capture(1), "STREAM_CAPTURE_UNSUPPORTED: a default stream"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused_and_the_capture_goes_on(captured: Captured, what: str) -> None:
    act, said = REFUSED[what]

    with pytest.raises(DriverError, match=f"CUDA_ERROR_{said}") as raised:
        act(captured)

    assert raised.value.harm is Harm.NONE
    assert captured.driver.end_capture(captured.stream)


def test_a_capture_is_ended_by_the_thread_that_began_it(captured: Captured) -> None:
    driver = captured.driver

    for act in (driver.end_capture, driver.abandon_capture):
        raised = by_another_thread(partial(act, captured.stream), driver)
        assert "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" in str(raised)

    assert driver.end_capture(captured.stream)


def test_another_thread_may_do_all_that_the_capturing_one_may_not(captured: Captured) -> None:
    driver = captured.driver

    def act() -> None:
        driver.free(driver.allocate(16))
        driver.synchronize(captured.other)
        driver.synchronize_event(captured.outside)

    raised = by_another_thread(act, driver)

    assert raised is None
    assert driver.end_capture(captured.stream)


def test_another_thread_that_waits_for_the_stream_spoils_the_capture(captured: Captured) -> None:
    raised = by_another_thread(lambda: captured.driver.synchronize(captured.stream), captured.driver)

    assert "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" in str(raised)
    with pytest.raises(DriverError, match="CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        captured.driver.end_capture(captured.stream)


def test_an_event_of_a_capture_is_never_reached(captured: Captured) -> None:
    driver = captured.driver
    driver.record(captured.event, stream=captured.stream)
    driver.end_capture(captured.stream)

    for act in (driver.synchronize_event, driver.is_done):
        with pytest.raises(DriverError, match="CUDA_ERROR_CAPTURED_EVENT"):
            act(captured.event)
    with pytest.raises(DriverError, match="CUDA_ERROR_STREAM_CAPTURE_ISOLATION"):
        driver.wait(captured.other, event=captured.event)


def test_an_event_of_a_capture_is_an_ordinary_one_when_it_is_recorded_again(captured: Captured) -> None:
    driver = captured.driver
    driver.record(captured.event, stream=captured.stream)
    driver.end_capture(captured.stream)

    driver.record(captured.event, stream=captured.other)
    driver.synchronize_event(captured.event)

    assert captured.done == ["before"]


@pytest.mark.parametrize("verb", ["begin_capture", "end_capture"])
def test_a_capture_that_fails_by_itself_is_over(captured: Captured, verb: Verb) -> None:
    driver = captured.driver
    driver.abandon_capture(captured.stream)
    driver.fail_next(verb, "CUDA_ERROR_NOT_SUPPORTED", harm=Harm.NONE)

    def capture() -> None:
        driver.begin_capture(captured.stream)
        driver.end_capture(captured.stream)

    with pytest.raises(DriverError, match="CUDA_ERROR_NOT_SUPPORTED"):
        capture()

    capture()
