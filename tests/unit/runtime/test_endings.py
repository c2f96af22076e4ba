"""How runs of a `Pipeline` begin and end: refused, stopped, interrupted, failed, left behind."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, OperatorError, StreamError
from sightline.graph import Element, Message, MessageKind, Operator, Site, SourceElement, SourceReader, Threading
from sightline.media import Batch, Frame, Stream
from sightline.runtime.stage import StageThread
from sightline.testing import assert_accounted, make_frames
from tests.unit.runtime.elements import Find, Held, Hold, Remark, Synthetic, SyntheticReader, Tallied, Tally
from tests.unit.runtime.test_runner import fresh, wait_until

__all__ = ["fresh"]

ENDLESS = {"cam": Synthetic(frames=None)}


class Gated(Element):
    """Its operator is built when `gate` is open."""

    name: ClassVar[str] = "gated"

    gate: Callable[[], object]
    error: Callable[[], Exception] | None = None

    def build(self, site: Site) -> Operator:
        self.gate()
        if self.error is not None:
            raise self.error()
        return Remark().build(site)


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


class Mute(SourceElement):
    """An input that answers when `gate` is set."""

    name: ClassVar[str] = "mute"

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        return MuteReader(stream)


class MuteReader(SourceReader):
    gate: ClassVar[threading.Event]
    asked: ClassVar[threading.Event]
    closed: ClassVar[threading.Event]

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def frames(self) -> Iterator[Frame]:
        self.asked.set()
        assert self.gate.wait(30)
        yield from make_frames(3, stream=self._stream.name)

    def close(self) -> None:
        self.closed.set()


def interrupt_main_thread() -> None:
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGINT)


def at_frame(number: int, act: Callable[[], None]) -> Callable[[Batch], None]:
    def probe(batch: Batch) -> None:
        if any(frame.index == number for frame in batch.frames):
            act()

    return probe


def test_stopping_what_was_not_started_is_harmless() -> None:
    pipeline = Pipeline(sources={"cam": Synthetic()})

    pipeline.stop()
    pipeline.abort()

    assert pipeline.run().frames == 20


def test_waiting_for_what_was_not_started_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match=r"call start\(\) or run\(\) first"):
        Pipeline(sources={"cam": Synthetic()}).wait()


def test_a_pipeline_that_runs_is_not_started_again() -> None:
    pipeline = Pipeline(sources=ENDLESS)
    with pipeline, pytest.raises(ConfigurationError, match=r"is running: stop\(\) it and wait\(\)"):
        pipeline.start()


def test_a_pipeline_runs_again_after_its_end() -> None:
    pipeline = Pipeline(sources=ENDLESS, steps=[Tally()])
    for _ in range(3):
        pipeline.start()
        wait_until(lambda: pipeline.status()[0].processed > 3)
        pipeline.stop()
        assert_accounted(pipeline.wait(), stopped=True)

    assert Tallied.built["tally-1"].closed == 1


def test_waiting_again_gives_the_same_report() -> None:
    pipeline = Pipeline(sources={"cam": Synthetic()})
    pipeline.start()

    assert pipeline.wait() is pipeline.wait() is pipeline.report


def test_waiting_again_raises_the_same_error() -> None:
    pipeline = Pipeline(sources={"cam": Synthetic()}, steps=[Tally(fail_at=3)])
    pipeline.start()
    errors = []
    for _ in range(2):
        with pytest.raises(OperatorError) as failure:
            pipeline.wait()
        errors.append(failure.value)

    assert errors[0] is errors[1]


@pytest.mark.parametrize("way", ["stop", "abort"])
def test_a_stop_while_models_load_counts(way: str) -> None:
    entered, gate = threading.Event(), threading.Event()

    def wait_at_gate() -> None:
        entered.set()
        assert gate.wait(30)

    pipeline = Pipeline(sources=ENDLESS, steps=[Gated(gate=wait_at_gate), Tally()])
    thread = threading.Thread(target=pipeline.run)
    thread.start()
    assert entered.wait(30)
    getattr(pipeline, way)()
    gate.set()
    thread.join(30)

    assert not thread.is_alive()
    assert Tallied.built["tally-1"].closed == 1


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

    with pytest.raises(OperatorError, match="'gated-1' can not be built: ValueError: no good"):
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


def test_an_error_in_a_with_block_is_raised_when_the_outputs_are_closed() -> None:
    pipeline = Pipeline(sources=ENDLESS, steps=[Tally()])

    with pytest.raises(KeyError), pipeline:
        raise KeyError

    assert Tallied.built["tally-1"].closed == 1


def test_an_error_in_a_with_block_carries_a_note_of_what_failed_besides() -> None:
    pipeline = Pipeline(sources=ENDLESS, steps=[Tally(fail_on_close=True)])

    with pytest.raises(KeyError) as failure, pipeline:
        raise KeyError

    assert failure.value.__notes__[0].startswith("the pipeline failed as well: element 'tally-1' failed while closing")


def test_ctrl_c_finishes_closes_and_is_raised() -> None:
    pipeline = Pipeline(sources=ENDLESS, steps=[Find(), Tally()])
    pipeline.probe("tally-1", at_frame(10, interrupt_main_thread))

    with pytest.raises(KeyboardInterrupt):
        pipeline.run()

    assert (Tallied.built["tally-1"].ended, Tallied.built["tally-1"].closed) == (["cam"], 1)
    assert pipeline.report is not None
    assert_accounted(pipeline.report, stopped=True)


def test_a_second_ctrl_c_stops_at_once() -> None:
    Held.gate.clear()
    pipeline = Pipeline(sources=ENDLESS, steps=[Tally(), Hold()])

    def interrupt_twice() -> None:
        wait_until(lambda: bool(pipeline.status()) and pipeline.status()[0].frames > 10)
        interrupt_main_thread()
        wait_until(lambda: pipeline._runner is not None and pipeline._runner._stopped)
        interrupt_main_thread()

    thread = threading.Thread(target=interrupt_twice)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        pipeline.run()
    thread.join(30)

    assert Tallied.built["tally-1"].closed == 1


def test_ctrl_c_in_a_loop_closes() -> None:
    def loop() -> None:
        for frame in Pipeline(sources=ENDLESS, steps=[Tally()]):
            if frame.index == 10:
                interrupt_main_thread()

    with pytest.raises(KeyboardInterrupt):
        loop()

    assert Tallied.built["tally-1"].closed == 1


def test_leaving_a_loop_closes() -> None:
    for frame in Pipeline(sources=ENDLESS, steps=[Tally()]):
        if frame.index == 10:
            break

    assert Tallied.built["tally-1"].closed == 1


def test_what_fails_after_a_loop_was_left_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    for frame in Pipeline(sources=ENDLESS, steps=[Tally(fail_on_close=True)]):
        if frame.index == 10:
            break

    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "the pipeline failed after its loop was left"
    ]


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
    pipeline = Pipeline(sources=ENDLESS, steps=[Find(), Tally()])
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


def test_an_input_that_does_not_answer_holds_nothing_up_and_is_closed_when_it_does() -> None:
    MuteReader.gate, MuteReader.asked, MuteReader.closed = threading.Event(), threading.Event(), threading.Event()
    messages: list[Message] = []
    pipeline = Pipeline(sources={"mute": Mute(), "cam": Synthetic()}, steps=[Tally()])
    pipeline.on_message(messages.append)
    pipeline.start()
    assert MuteReader.asked.wait(30)
    pipeline.stop()

    report = pipeline.wait()

    assert not MuteReader.closed.is_set()
    assert ("mute", "its input does not answer; it is closed when it does") in [
        (message.stream, message.text) for message in messages if message.kind is MessageKind.WARNING
    ]
    MuteReader.gate.set()
    assert MuteReader.closed.wait(30)
    assert report.streams[0].received == 0


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
