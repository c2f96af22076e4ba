"""Random pipelines that wait, fail and are ended at any moment: every run ends, nothing is left, nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable

import pytest

from sightline.errors import OperatorError, SightlineError, StreamError
from sightline.testing import assert_accounted
from tests.integration.runtime.chaos import Record
from tests.integration.runtime.scenarios import Scenario, make

LIMIT_SECONDS = 300
RUNS_A_TEST = 20
ENDED_EARLY = ("stop", "abort", "break", "raise", "close", "with", "with-raise", "cancel")


class Left(Exception):
    """What the body of a loop raises."""


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Planted faults of listeners are logged; that is not of interest here."""
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("first", range(0, 160, RUNS_A_TEST))
def test_pipelines_with_faults_end_and_account_for_everything(first: int) -> None:
    for seed in range(first, first + RUNS_A_TEST):
        within_limit(lambda seed=seed: run_and_check(make(seed)), f"seed {seed}")  # type: ignore[misc]


@pytest.mark.parametrize("first", range(1000, 1080, RUNS_A_TEST))
def test_pipelines_without_faults_lose_nothing(first: int) -> None:
    for seed in range(first, first + RUNS_A_TEST):
        within_limit(lambda seed=seed: run_and_check(make(seed, faults=False)), f"seed {seed}")  # type: ignore[misc]


def test_many_pipelines_live_in_one_process() -> None:
    scenarios = [make(seed) for seed in range(2000, 2024)]
    failures: list[BaseException] = []

    def work(scenario: Scenario) -> None:
        try:
            run_and_check(scenario, alone=False)
        except BaseException as error:  # noqa: BLE001  whatever it was
            failures.append(error)

    def work_all() -> None:
        threads = [threading.Thread(target=work, args=(scenario,)) for scenario in scenarios]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    within_limit(work_all, "many")
    assert not failures, failures


def within_limit(work: Callable[[], None], name: str) -> None:
    """Do the work in a thread; when it does not end (something waits in vain, or a thread is left), fail with the
    stacks of all threads.
    """
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  raised again below
            raised.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(LIMIT_SECONDS)
    if thread.is_alive():
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        stacks = [
            f"{names.get(ident)}\n{''.join(traceback.format_stack(frame))}"
            for ident, frame in sys._current_frames().items()
        ]
        pytest.fail(f"{name} did not end in {LIMIT_SECONDS} s\n" + "\n".join(stacks))
    if raised:
        raise AssertionError(f"{name}: {raised[0]}") from raised[0]


def run_and_check(scenario: Scenario, *, alone: bool = True) -> None:
    before = set(threading.enumerate())
    error: BaseException | None = None
    try:
        execute(scenario)
    except (SightlineError, Left) as raised:
        error = raised
    if alone:
        for thread in set(threading.enumerate()) - before:
            thread.join()  # an input that answers late is left behind, and ends when it does
    check(scenario, error)


def execute(scenario: Scenario) -> None:
    pipeline = scenario.pipeline
    if scenario.ending == "run":
        pipeline.run()
    elif scenario.ending == "wait":
        pipeline.start()
        pipeline.wait()
    elif scenario.ending in ("stop", "abort"):
        interrupt(scenario)
    elif scenario.ending in ("with", "with-raise"):
        with pipeline:
            scenario.world.moment.wait(0.05)
            if scenario.ending == "with-raise":
                raise Left
    elif scenario.ending in ("async", "cancel"):
        asyncio.run(iterate_in_a_loop(scenario))
    else:
        iterate(scenario)


def interrupt(scenario: Scenario) -> None:
    """Stop or abort from another thread, at a moment in the middle; wait twice."""
    pipeline, moment = scenario.pipeline, scenario.world.moment
    act = pipeline.stop if scenario.ending == "stop" else pipeline.abort

    def later() -> None:
        moment.wait(LIMIT_SECONDS)
        act()

    thread = threading.Thread(target=later)
    thread.start()
    try:
        pipeline.start()
        try:
            pipeline.wait()
        finally:
            moment.set()
            thread.join()
        pipeline.wait()
    finally:
        moment.set()
        thread.join()


def iterate(scenario: Scenario) -> None:
    if scenario.ending == "close":
        frames = iter(scenario.pipeline)
        for _, _ in zip(range(scenario.leave_after + 1), frames, strict=False):
            pass
        frames.close()  # type: ignore[attr-defined]
        return
    for number, _ in enumerate(scenario.pipeline):
        if scenario.ending == "slow" and number % 16 == 0:
            threading.Event().wait(0.001)
        if number == scenario.leave_after:
            if scenario.ending == "raise":
                raise Left
            if scenario.ending == "break":
                break


async def iterate_in_a_loop(scenario: Scenario) -> None:
    """Iterate in a task; cancel it, at a moment in the middle, where that is the ending."""
    seen = 0

    async def consume() -> None:
        nonlocal seen
        async for _ in scenario.pipeline:
            seen += 1

    task = asyncio.ensure_future(consume())
    while scenario.ending == "cancel" and seen < scenario.leave_after and not task.done():
        await asyncio.sleep(0)
    if scenario.ending == "cancel":
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        raise Left from None


def check(scenario: Scenario, error: BaseException | None) -> None:
    world, report = scenario.world, scenario.pipeline.report
    for element_id, record in world.built.items():
        assert not record.wrong, f"{element_id}: {record.wrong}"
        assert record.closed == 1, f"{element_id} was closed {record.closed} times"
    while world.readers_opened != world.readers_closed:
        threading.Event().wait(0.001)
    check_error(scenario, error)
    if report is None:
        assert not world.built or any("build" in place for place in world.failed)
        return
    stopped = bool(world.failed) or scenario.ending in ENDED_EARLY
    assert_accounted(report, stopped=stopped)
    for element_id, order in scenario.orders.items():
        assert not order.wrong, f"{element_id}: {order.wrong}"
        check_frames(scenario, element_id, world.built[element_id], whole=not stopped)
    if not stopped:
        for order in scenario.orders.values():
            order.check(report)


def check_error(scenario: Scenario, error: BaseException | None) -> None:
    failed = scenario.world.failed
    if isinstance(error, Left):
        return
    if isinstance(error, OperatorError):
        assert any(f"planted at {place}" in str(error) for place in failed), f"{error} is none of {failed}"
        return
    assert not failed or scenario.ending in ("break", "close"), f"{failed} was not raised, but {error!r}"
    if error is not None:
        assert isinstance(error, StreamError), error
        assert all(one.fault in ("unreadable", "lost", "broken") for one in scenario.inputs.values())


def check_frames(scenario: Scenario, element_id: str, record: Record, *, whole: bool) -> None:
    """An operator saw the beginning of each of its streams without a gap; all of it when nothing stopped the run."""
    own = scenario.streams_of(element_id)
    assert set(record.frames) <= own, f"{element_id} got {set(record.frames)}, not {own}"
    for name in own:
        source, seen = scenario.inputs[name], record.frames.get(name, [])
        if source.camera:
            assert seen == sorted(set(seen))
            continue
        assert seen == list(range(len(seen))), f"{element_id}, {name}: {seen}"
        if whole:
            expected = source.frames
            if source.fault in ("unreadable", "lost", "broken"):
                expected = min(expected, source.fault_at)
            assert len(seen) == expected, f"{element_id}, {name}: {len(seen)} of {expected}"
    if whole:
        assert sorted(record.ended) == sorted(name for name in own if record.frames.get(name))
        assert record.drained == 1
