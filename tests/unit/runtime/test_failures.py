"""Failures of a run: what is raised, what it says, what is closed and kept all the same."""

from __future__ import annotations

import logging
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, OperatorError, StreamError
from sightline.graph import Element, Message, Operator, Site, Threading
from sightline.media import Batch
from sightline.runtime.scheduling.stage_threads import StageThread
from sightline.testing import assert_accounted
from tests.unit.runtime.elements import Find, Gated, Synthetic, SyntheticReader, Tallied, Tally
from tests.unit.runtime.test_runner import fresh

__all__ = ["fresh"]

ENDLESS = {"cam": Synthetic(frames=None)}


class Totals(Element):
    """Fails when it is asked what it counted."""

    name: ClassVar[str] = "totals"

    def build(self, site: Site) -> Operator:
        return _Uncountable()


class _Uncountable(Operator):
    def process(self, batch: Batch) -> Batch:
        return batch

    def totals(self) -> dict[str, int]:
        raise ValueError("lost count")


class Later(Find):
    """Says that it runs inline, and returns pending results all the same."""

    name: ClassVar[str] = "later"
    threading: ClassVar[Threading] = Threading.INLINE


@pytest.mark.parametrize("error", [ConfigurationError("no such model"), ZeroDivisionError("by zero")])
def test_when_a_step_can_not_be_built_those_before_it_are_closed(error: Exception) -> None:
    pipeline = Pipeline(sources=ENDLESS, steps=[Tally(), Gated(gate=lambda: None, error=lambda: error)])

    with pytest.raises((ConfigurationError, OperatorError)) as failure:
        pipeline.run()

    assert str(error) in str(failure.value)
    assert Tallied.built["tally-1"].closed == 1
    assert pipeline.report is None


def test_a_fault_while_building_names_the_element() -> None:
    pipeline = Pipeline(sources=ENDLESS, steps=[Gated(gate=lambda: None, error=lambda: ValueError("no good"))])

    with pytest.raises(OperatorError, match="'gated-1' cannot be built: ValueError: no good"):
        pipeline.run()


def test_when_a_thread_can_not_be_started_everything_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[StageThread] = []
    start = StageThread.start

    def refuse_the_second(thread: StageThread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(StageThread, "start", refuse_the_second)

    with pytest.raises(RuntimeError, match="can't start new thread"):
        Pipeline(sources=ENDLESS, steps=[Tally(), Find(), Tally()]).run()

    assert [tally.closed for tally in Tallied.built.values()] == [1, 1]
    assert not started[0].is_alive()


def test_a_fault_of_a_listener_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Message] = []
    pipeline = Pipeline(sources={"cam": Synthetic()})
    pipeline.on_message(lambda message: [][0])
    pipeline.on_message(heard.append)

    report = pipeline.run()

    assert report.frames == 20
    assert len(caplog.records) == len(heard) == 4
    assert all(record.levelno == logging.ERROR and record.exc_info for record in caplog.records)


def test_a_fault_of_a_probe_stops_the_run_and_names_the_element() -> None:
    pipeline = Pipeline(sources=ENDLESS, steps=[Find(), Tally()], batch={"size": 1})
    pipeline.probe("find-1", lambda batch: [][0])

    with pytest.raises(
        OperatorError, match="'find-1' failed on stream 'cam', frame 0: a probe of it raised IndexError"
    ):
        pipeline.run()


def test_a_report_is_there_after_a_failure() -> None:
    pipeline = Pipeline(sources={"cam": Synthetic()}, steps=[Tally(fail_at=7)], batch={"size": 1})

    with pytest.raises(OperatorError):
        pipeline.run()

    assert pipeline.report is not None
    assert pipeline.report.frames == 7
    assert_accounted(pipeline.report, stopped=True)


def test_a_report_is_there_when_no_stream_could_be_read() -> None:
    pipeline = Pipeline(sources={"a": Synthetic(unreadable_at=0), "b": Synthetic(unreadable_at=0)})

    with pytest.raises(StreamError, match="stream 'a': there is no video in it; stream 'b': there is no video in it"):
        pipeline.run()

    assert pipeline.report is not None
    assert pipeline.report.failed_streams == ("a", "b")


def test_an_operator_that_can_not_report_is_an_error_after_everything_is_closed() -> None:
    pipeline = Pipeline(sources={"cam": Synthetic()}, steps=[Totals(), Tally()])

    with pytest.raises(OperatorError, match="'totals-1' failed while reporting: ValueError: lost count"):
        pipeline.run()

    assert pipeline.report is not None
    assert pipeline.report.totals["totals-1"] == {}


def test_steps_behind_an_inline_step_with_pending_results_are_run() -> None:
    report = Pipeline(sources={"cam": Synthetic()}, steps=[Later(), Tally(), Later()]).run()

    assert len(Tallied.built["tally-1"].frames) == 20
    assert report.streams[0].objects == 40


def test_sinks_keep_what_came_before_a_failure_elsewhere() -> None:
    pipeline = Pipeline(sources={"cam": Synthetic()}, steps=[Tally(), Find(), Tally(fail_at=12)], batch={"size": 1})

    with pytest.raises(OperatorError):
        pipeline.run()

    assert [index for _, index in Tallied.built["tally-2"].frames] == list(range(12))
    assert len(Tallied.built["tally-1"].frames) >= 12


def test_readers_are_closed_however_a_run_ends() -> None:
    SyntheticReader.opened = SyntheticReader.closed = 0
    for step in (Tally(fail_at=2), Find(fail_at=5), Tally(fail_on_close=True)):
        with pytest.raises(OperatorError):
            Pipeline(sources={"a": Synthetic(), "b": Synthetic()}, steps=[step]).run()

    assert SyntheticReader.opened == SyntheticReader.closed > 0
