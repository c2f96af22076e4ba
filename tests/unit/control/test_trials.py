"""Changes of running pipelines that do not prove themselves: they are taken back, and the run goes on."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sightline import Pipeline
from sightline.config import source_from
from sightline.errors import ChangeReverted, OperatorError
from sightline.graph import MessageKind, Parallel, PipelineDescription, SourceElement, Step, Tee
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted
from tests.unit.control.running import (
    LIMIT_SECONDS,
    Broken,
    BrokenLater,
    BrokenSink,
    Choosy,
    Stuck,
    described,
    endless,
    running,
    to_steps,
    with_source,
    with_step,
)
from tests.unit.runtime.conftest import drivers, gpus
from tests.unit.runtime.elements import Find, Gated, Remark, Synthetic, Tallied, Tally, UntilTold
from tests.unit.runtime.several_gpus import Gpus
from tests.waiting import wait_until

__all__ = ["drivers", "gpus"]

LONG = "1h"
"""A probation that no test waits out."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Tallied.built.clear()
    Stuck.released.clear()
    threads = set(threading.enumerate())
    yield
    Stuck.released.set()
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive(), thread.name


def seen() -> int:
    return len(Tallied.built["t"].frames)


def reverted(pipeline: Pipeline, edit: Callable[[PipelineDescription], PipelineDescription], **options: str) -> str:
    """What is raised for a change that does not prove itself."""
    change = pipeline.change(edit, **{"prove": LONG, **options})
    with pytest.raises(ChangeReverted) as error:
        change.wait(LIMIT_SECONDS)
    assert change.applied.done
    return str(error.value)


def goes_on(pipeline: Pipeline) -> bool:
    there = seen()
    wait_until(lambda: seen() > there + 20)
    return {status.state for status in pipeline.status()} == {"live"}


def report_of(pipeline: Pipeline) -> Report:
    pipeline.stop()
    report = pipeline.wait()
    assert_accounted(report, stopped=True, reverted=True)
    return report


T = Tally(id="t")
PLACES: dict[str, tuple[Step, ...]] = {
    "first": (Broken(), Find(), T),
    "last": (Find(), T, Broken()),
    "in front of a pending step": (Broken(), T, Find()),
    "pending": (Find(), BrokenLater(), T),
    "pending and last": (Find(), T, BrokenLater()),
    "a sink in its thread": (Find(), BrokenSink(), T),
    "in a tee": (Find(), Tee(branches={"a": (Remark(), Broken()), "b": (Remark(),)}), T),
    "in a branch": (Parallel(branches={"a": (Broken(), Remark()), "b": (Find(), T)}), Remark()),
    "behind a branch": (Parallel(branches={"a": (Find(),), "b": (T,)}), Broken(), Remark()),
    "in front of branches": (Broken(), Parallel(branches={"a": (Find(),), "b": (T,)})),
    "pending in a branch of a branch": (
        Parallel(branches={"a": (Parallel(branches={"c": (BrokenLater(),), "d": (Remark(),)}),), "b": (T,)}),
        Find(),
    ),
}


@pytest.mark.parametrize("steps", PLACES.values(), ids=PLACES)
def test_a_step_that_fails_is_taken_back_wherever_it_stands(steps: tuple[Step, ...]) -> None:
    order = FrameOrder()
    with running(Find(), T, order=order) as (pipeline, messages):
        wait_until(lambda: seen() > 20)
        before, kept = pipeline.description, Tallied.built["t"]

        text = reverted(pipeline, to_steps(*steps))

        assert "the change is reverted, and everything is as it was before: element 'broken" in text
        assert "ValueError: this step is broken" in text
        assert goes_on(pipeline)
        assert pipeline.description == before
        assert Tallied.built["t"] is kept
        assert [one.text for one in messages if one.kind is MessageKind.REVERTED] == [text]
        report = report_of(pipeline)

    order.check(report)
    failed = [one for one in report.elements if one.name.startswith("broken")]
    assert [bool(one.failures["ValueError"]) for one in failed] == [True]
    assert all(sum(one.dropped.values()) < 100 for one in report.streams)


@pytest.mark.parametrize("where", ["process close", "process drain totals", "process totals", "end_stream process"])
def test_a_step_that_fails_on_its_way_out_as_well_does_not_end_the_run(where: str) -> None:
    with running(T) as (pipeline, _):
        reverted(pipeline, with_step(Broken(where=where, first=30)))

        assert goes_on(pipeline)
        report_of(pipeline)


def test_a_file_loses_the_frames_that_met_the_error_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    UntilTold.over.clear()
    with running(T, yard=UntilTold(), gate=UntilTold()) as (pipeline, _):
        text = reverted(pipeline, with_step(Broken()))
        UntilTold.over.set()
        report = pipeline.wait()

    assert_accounted(report, reverted=True)
    lost = sum(one.dropped["reverted"] for one in report.streams)
    assert lost > 0
    assert f"{lost} frames that met the error were dropped" in text
    received = sum(one.received for one in report.streams)
    assert len(Tallied.built["t"].frames) == received
    assert sum(one.processed for one in report.streams) == received - lost


def test_a_change_that_is_well_is_proven_when_its_time_is_over() -> None:
    with running(T) as (pipeline, _):
        began = time.monotonic()
        change = pipeline.change(with_step(Remark()), prove=0.3)
        change.applied.wait(LIMIT_SECONDS)
        assert not pipeline.configuration.is_proven

        change.wait(LIMIT_SECONDS)

        assert time.monotonic() - began >= 0.3
        assert pipeline.configuration.is_proven


def test_an_error_after_the_probation_ends_the_run_as_ever() -> None:
    pipeline = Pipeline.from_description(described(T, yard=Synthetic(frames=None)))
    pipeline.start()
    wait_until(lambda: "t" in Tallied.built and seen())
    pipeline.change(with_step(Tally(id="late", fail_at=10**9)), prove=0.05).wait(LIMIT_SECONDS)

    pipeline.change(with_step(Broken(first=50)), prove=0).wait(LIMIT_SECONDS)

    with pytest.raises(OperatorError, match="this step is broken"):
        pipeline.wait()


def test_a_step_that_cannot_be_built_changes_nothing() -> None:
    with running(T) as (pipeline, messages):
        before = pipeline.configuration
        change = pipeline.change(with_step(Gated(gate=lambda: None, error=lambda: OSError("the port is taken"))))

        with pytest.raises(OperatorError, match="the port is taken"):
            change.wait(LIMIT_SECONDS)
        with pytest.raises(OperatorError, match="the port is taken"):
            change.applied.wait(LIMIT_SECONDS)

        assert pipeline.configuration == before
        assert [one.kind for one in messages if one.kind in (MessageKind.RELOADED, MessageKind.REVERTED)] == []
        assert goes_on(pipeline)


def test_a_step_that_may_be_skipped_is_taken_back_when_it_fails_on_every_frame() -> None:
    with running(T, yard=endless()) as (pipeline, _):
        text = reverted(pipeline, with_step(Broken(on_error="skip")))

        assert "this step is broken" in text
        assert goes_on(pipeline)
        assert report_of(pipeline).streams[0].dropped["reverted"] == 0


def test_a_few_frames_on_which_a_step_fails_without_exception_are_enough() -> None:
    slow = source_from({"pattern": "counter", "size": [16, 16], "fps": 10, "frames": None, "realtime": True})
    with running(T, yard=slow) as (pipeline, _):
        text = reverted(pipeline, with_step(Broken(on_error="skip")), prove="800ms")

        assert "a step fails on every frame: element 'broken-1' failed on stream 'yard'" in text
        assert pipeline.description.steps == (T,)


def test_a_step_that_may_be_skipped_and_sometimes_fails_is_well() -> None:
    with running(T, yard=endless()) as (pipeline, _):
        pipeline.change(with_step(Tally(id="x", on_error="skip", fail_at=0)), prove=0.2).wait(LIMIT_SECONDS)

        assert goes_on(pipeline)


@pytest.mark.parametrize(
    ("source", "prove", "why"),
    [
        (Synthetic(frames=None, unreadable_at=0), LONG, "'bad' has failed \\(there is no video in it\\)"),
        (Synthetic(frames=None, camera=True, lost_at=0), "500ms", "did not come within 0.5 s.*the camera went away"),
        (Synthetic(frames=None, broken_at=0), LONG, "'bad' has failed \\(ZeroDivisionError: a fault of the reader"),
    ],
    ids=["no video", "a camera that never comes", "a reader that fails"],
)
@pytest.mark.parametrize("name", ["bad", "gate"])
def test_a_stream_that_does_not_come_is_taken_back(source: SourceElement, prove: str, why: str, name: str) -> None:
    with running(T, yard=endless(), gate=endless()) as (pipeline, _):
        wait_until(lambda: {name for name, _ in Tallied.built["t"].frames} == {"yard", "gate"})
        before = pipeline.description

        text = reverted(pipeline, with_source(name, source), prove=prove)

        assert_matches(why.replace("'bad'", f"'{name}'"), text)
        assert pipeline.description == before
        wait_until(lambda: [one.state for one in pipeline.status()] == ["live", "live"])
        report_of(pipeline)


def assert_matches(pattern: str, text: str) -> None:
    assert re.search(pattern, text), text


def test_a_step_that_was_there_before_and_fails_on_a_new_stream_lets_the_stream_go() -> None:
    with running(Tally(id="t"), Choosy(), yard=endless()) as (pipeline, _):
        text = reverted(pipeline, with_source("bad", endless()))

        assert "element 'choosy-1' failed" in text
        assert set(pipeline.description.sources) == {"yard"}
        assert goes_on(pipeline)
        report_of(pipeline)


def test_changes_after_the_one_that_fails_are_taken_back_with_it_and_those_before_stay() -> None:
    with running(T) as (pipeline, messages):
        first = pipeline.change(with_step(Remark(id="first")), prove=LONG)
        first.applied.wait(LIMIT_SECONDS)
        second = pipeline.change(with_step(Broken(id="second", first=2000)), prove=LONG)
        second.applied.wait(LIMIT_SECONDS)
        third = pipeline.change(with_step(Remark(id="third")), prove=0)

        with pytest.raises(ChangeReverted, match=r"^the change is reverted.*'second' failed"):
            second.wait(LIMIT_SECONDS)
        with pytest.raises(ChangeReverted, match=r"^it was made after a change that failed; .*'second' failed"):
            third.wait(LIMIT_SECONDS)

        assert [name for name, _ in pipeline.description.elements()] == ["t", "first"]
        assert not first.done
        assert [one.kind for one in messages].count(MessageKind.REVERTED) == 1
        assert goes_on(pipeline)


def test_streams_that_come_while_a_change_is_on_probation_stay_when_it_is_taken_back() -> None:
    with running(T, yard=endless()) as (pipeline, _):
        change = pipeline.change(with_step(Broken(first=3000)), prove=LONG)
        change.applied.wait(LIMIT_SECONDS)
        pipeline.add_source("guest", endless())

        with pytest.raises(ChangeReverted):
            change.wait(LIMIT_SECONDS)

        assert set(pipeline.description.sources) == {"yard", "guest"}
        assert goes_on(pipeline)


def test_a_change_that_failed_is_not_gone_back_to() -> None:
    with running(T) as (pipeline, _):
        reverted(pipeline, with_step(Broken()))
        pipeline.change(with_step(Remark()), prove=0).wait(LIMIT_SECONDS)

        pipeline.roll_back(prove=0).wait(LIMIT_SECONDS)

        assert pipeline.description.steps == (T,)


def test_a_step_that_does_not_return_fails_the_change_and_is_taken_back_when_it_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sightline.runtime.watchdog.STUCK_SECONDS", 1.5)
    with running(T) as (pipeline, _):
        change = pipeline.change(with_step(Stuck()), prove=0.1)

        with pytest.raises(ChangeReverted, match="element 'stuck-1' has not returned for"):
            change.wait(LIMIT_SECONDS)
        assert len(pipeline.description.steps) == 2
        Stuck.released.set()

        wait_until(lambda: pipeline.description.steps == (T,))
        assert goes_on(pipeline)


@pytest.mark.parametrize("end", [Pipeline.stop, Pipeline.abort])
def test_a_run_may_end_while_a_change_is_on_probation(end: Callable[[Pipeline], None]) -> None:
    with running(T) as (pipeline, _):
        change = pipeline.change(with_step(Remark()), prove=LONG)
        change.applied.wait(LIMIT_SECONDS)

        end(pipeline)
        change.wait(LIMIT_SECONDS)


@pytest.mark.parametrize("ends", [False, True])
def test_a_former_step_that_cannot_be_built_again_ends_the_run_with_the_former_description(ends: bool) -> None:
    gate, asked = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        gate.wait(LIMIT_SECONDS)

    former = Gated(gate=wait)
    gate.set()
    pipeline = Pipeline.from_description(described(T, former))
    pipeline.start()
    wait_until(lambda: "t" in Tallied.built and seen() > 20)
    before = pipeline.description
    asked.clear()
    gate.clear()

    change = pipeline.change(to_steps(T, Broken()), prove=LONG)
    assert asked.wait(LIMIT_SECONDS)  # it is built again
    if ends:
        pipeline.abort()
    else:
        object.__setattr__(former, "error", lambda: OSError("the port is taken"))
    gate.set()

    with pytest.raises(ChangeReverted, match=r"has failed, and the run ends: .*this step is broken"):
        change.wait(LIMIT_SECONDS)
    if ends:
        pipeline.wait()
    else:
        with pytest.raises(OperatorError, match="the port is taken"):
            pipeline.wait()
    assert pipeline.description == before


def test_a_stream_that_is_read_to_its_end_is_well() -> None:
    with running(T, yard=endless()) as (pipeline, _):
        pipeline.change(with_source("short", Synthetic(frames=3)), prove=0.3).wait(LIMIT_SECONDS)

        assert set(pipeline.description.sources) == {"yard", "short"}


def test_passwords_are_in_no_reason() -> None:
    with running(T) as (pipeline, messages):
        text = reverted(pipeline, with_step(Broken(text="rtsp://user:secret@camera is down")))

        assert "secret" not in text
        assert not any("secret" in one.text + (one.details or "") for one in messages)


def test_on_several_gpus_a_step_is_taken_back_in_all_lanes(gpus: Gpus) -> None:
    sources = {name: endless() for name in ("a", "b", "c", "d")}
    pipeline = Pipeline.from_description(described(T, **sources), gpu=gpus[:2])
    pipeline.start()
    wait_until(lambda: "t" in Tallied.built and len({name for name, _ in Tallied.built["t"].frames}) == 2)

    text = reverted(pipeline, with_step(Broken()))

    assert "this step is broken" in text
    wait_until(lambda: {one.state for one in pipeline.status()} == {"live"})
    there = {one.name: one.processed for one in pipeline.status()}
    wait_until(lambda: all(one.processed > there[one.name] for one in pipeline.status()))
    report_of(pipeline)
