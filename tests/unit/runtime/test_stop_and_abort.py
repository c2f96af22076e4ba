"""How runs of a `Pipeline` begin and end: refused, stopped, interrupted, left."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, OperatorError
from sightline.graph import Message, MessageKind, Site, SourceElement, SourceReader
from sightline.media import Batch, Frame, Stream
from sightline.runtime.runner import Runner
from sightline.testing import assert_accounted, make_frames
from tests.unit.runtime.elements import Find, Gated, Held, Hold, Synthetic, Tallied, Tally
from tests.unit.runtime.test_runner import fresh
from tests.waiting import wait_until

__all__ = ["fresh"]

ENDLESS = {"cam": Synthetic(frames=None)}


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
        wait_until(lambda: isinstance(pipeline._runner, Runner) and pipeline._runner._is_stopped)
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
