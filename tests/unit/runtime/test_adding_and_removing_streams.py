"""Streams that come and go while a pipeline runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.graph import Message, Site, SourceElement, SourceReader, Step
from sightline.media import Batch, Stream
from sightline.runtime.runner import Runner
from sightline.runtime.sources import manager
from sightline.testing import FrameOrder, assert_accounted
from tests.unit.runtime.elements import Find, Held, Hold, Remark, Synthetic, Tallied, Tally
from tests.waiting import wait_until

LIMIT_SECONDS = 300


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Tallied.built.clear()
    Held.gate.set()
    Stuck.asked.clear()
    threads = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive(), thread.name


@pytest.fixture
def running() -> Iterator[Pipeline]:
    """A pipeline without streams that goes on, with a step of each kind of threading; stopped in the end."""
    steps: list[Step] = [Find(), Tally(id="tally"), Hold(), Remark()]
    pipeline = Pipeline(sources={}, steps=steps, keep_running=True)
    pipeline.start()
    yield pipeline
    pipeline.stop()
    assert_accounted(pipeline.wait(), stopped=True)


def endless(*, camera: bool = False) -> SourceElement:
    return Synthetic(frames=None, camera=camera, realtime=not camera)


class Gate:
    """A probe that holds batches back until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, batch: Batch) -> None:
        self.reached.set()
        assert self.opened.wait(LIMIT_SECONDS)


class Stuck(Synthetic):
    """Its input does not answer before `answer` is set."""

    answer: ClassVar[threading.Event] = threading.Event()
    asked: ClassVar[threading.Event] = threading.Event()

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        self.asked.set()
        assert self.answer.wait(LIMIT_SECONDS)
        return super().build(site, stream=stream)


def names(pipeline: Pipeline) -> list[str]:
    return [status.name for status in pipeline.status()]


def test_a_pipeline_without_streams_waits_for_the_first_one(running: Pipeline) -> None:
    running.add_source("yard", Synthetic(frames=3)).wait(LIMIT_SECONDS)

    wait_until(lambda: Tallied.built["tally"].ended == ["yard"])
    assert Tallied.built["tally"].frames == [("yard", 0), ("yard", 1), ("yard", 2)]
    assert running.description.sources == {"yard": Synthetic(frames=3)}


def test_a_stream_that_goes_is_ended_before_that_is_told_and_stays_in_the_report(running: Pipeline) -> None:
    running.add_source("yard", endless())
    wait_until(lambda: Tallied.built["tally"].frames)

    running.remove_source("yard").wait(LIMIT_SECONDS)

    assert Tallied.built["tally"].ended == ["yard"]
    assert (names(running), dict(running.description.sources)) == ([], {})
    running.stop()
    (yard,) = running.wait().streams
    assert yard.stream.name == "yard"
    assert yard.processed > 0


def test_changes_can_be_awaited_in_an_event_loop(running: Pipeline) -> None:
    async def come_and_go() -> list[list[str]]:
        await running.add_source("yard", endless())
        there = names(running)
        await running.remove_source("yard")
        return [there, names(running)]

    assert asyncio.run(come_and_go()) == [["yard"], []]


def test_who_gives_up_waiting_in_an_event_loop_changes_nothing(running: Pipeline) -> None:
    async def come_and_go() -> None:
        running.add_source("yard", endless())
        task = asyncio.ensure_future(asyncio.wait_for(running.remove_source("yard"), LIMIT_SECONDS))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(come_and_go())

    wait_until(lambda: not names(running))


def test_the_others_lose_nothing_while_streams_come_and_go() -> None:
    steps: list[Step] = [Find(), Tally(id="tally"), Hold()]
    pipeline, order = Pipeline(sources={"stays": endless()}, steps=steps), FrameOrder()
    pipeline.probe("tally", order)
    pipeline.start()
    for number in range(20):
        pipeline.add_source(f"guest {number % 4}", endless(camera=number % 2 == 1)).wait(LIMIT_SECONDS)
        pipeline.remove_source(f"guest {number % 4}").wait(LIMIT_SECONDS)
    pipeline.stop()

    report = pipeline.wait()
    stays = next(stream for stream in report.streams if stream.stream.name == "stays")
    assert_accounted(report, stopped=True)
    order.check(report)
    assert stays.received - stays.processed <= 1  # the frame that the stop of the pipeline met on its way into the link


def test_a_name_that_comes_back_goes_on_with_its_numbers_and_its_time(running: Pipeline) -> None:
    order = FrameOrder()
    running.probe("remark-1", order)
    for _ in range(3):
        running.add_source("yard", Synthetic(frames=4)).wait(LIMIT_SECONDS)
        wait_until(lambda: running.status()[0].state == "ended")
        running.remove_source("yard").wait(LIMIT_SECONDS)

    assert [index for _, index in Tallied.built["tally"].frames] == list(range(12))
    running.stop()
    report = running.wait()
    order.check(report)
    assert [(stream.received, stream.reconnects) for stream in report.streams] == [(12, 2)]


def test_a_file_that_has_ended_can_be_added_again_without_being_removed(running: Pipeline) -> None:
    running.add_source("yard", Synthetic(frames=2)).wait(LIMIT_SECONDS)
    wait_until(lambda: Tallied.built["tally"].ended)

    running.add_source("yard", Synthetic(frames=3)).wait(LIMIT_SECONDS)

    wait_until(lambda: len(Tallied.built["tally"].frames) == 5)


def test_a_file_that_was_read_to_its_end_comes_again_when_its_last_frames_have_passed(running: Pipeline) -> None:
    Held.gate.clear()
    running.add_source("yard", Synthetic(frames=2)).wait(LIMIT_SECONDS)
    wait_until(lambda: running.status()[0].state == "ended")

    coming = running.add_source("yard", Synthetic(frames=3))
    came_before = coming.done
    Held.gate.set()
    coming.wait(LIMIT_SECONDS)

    assert not came_before
    wait_until(lambda: len(Tallied.built["tally"].frames) == 5)


def test_a_name_can_be_taken_again_before_its_stream_has_gone() -> None:
    pipeline = Pipeline(sources={"yard": endless()}, steps=[Tally(id="tally")], keep_running=True)
    with pipeline:
        pipeline.remove_source("yard")
        pipeline.add_source("yard", endless(camera=True)).wait(LIMIT_SECONDS)
        assert names(pipeline) == ["yard"]
    assert pipeline.report is not None
    assert [stream.stream.live for stream in pipeline.report.streams] == [True]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("yard", "the stream 'yard' is running: remove it first, or take another name"),
        ("a/b", "sources.a/b: a stream's name holds letters, digits, blanks"),
        ("yard ", "means the same file name 'yard_' as the stream"),
    ],
    ids=["taken", "no name", "same file"],
)
def test_a_wrong_name_is_refused_and_changes_nothing(name: str, message: str) -> None:
    pipeline = Pipeline(sources={"yard": endless(), "yard_": endless()}, steps=[Tally()])
    with pipeline:
        before = pipeline.description
        with pytest.raises(ConfigurationError, match=message.replace("/", "/")):
            pipeline.add_source(name, Synthetic())
        assert pipeline.description == before


def test_a_removal_does_not_wait_for_an_input_that_hangs_and_what_comes_after_it_does(running: Pipeline) -> None:
    Stuck.answer.clear()
    running.add_source("yard", Stuck(camera=True, frames=None))
    assert Stuck.asked.wait(LIMIT_SECONDS)
    running.remove_source("yard").wait(LIMIT_SECONDS)

    running.add_source("yard", Synthetic(frames=3)).wait(LIMIT_SECONDS)
    running.add_source("gate", Synthetic(frames=3)).wait(LIMIT_SECONDS)
    wait_until(lambda: Tallied.built["tally"].ended == ["gate"])
    Stuck.answer.set()

    wait_until(lambda: Tallied.built["tally"].ended == ["gate", "yard"])
    assert [one for one in Tallied.built["tally"].frames if one[0] == "yard"] == [("yard", 0), ("yard", 1), ("yard", 2)]


def test_streams_that_wait_for_a_hanging_input_can_go_too(running: Pipeline) -> None:
    Stuck.answer.clear()
    running.add_source("yard", Stuck(camera=True, frames=None))
    assert Stuck.asked.wait(LIMIT_SECONDS)
    for _ in range(3):
        running.remove_source("yard").wait(LIMIT_SECONDS)
        running.add_source("yard", Synthetic(frames=3)).wait(LIMIT_SECONDS)
    Stuck.answer.set()

    wait_until(lambda: Tallied.built["tally"].ended == ["yard"])
    assert len(Tallied.built["tally"].frames) == 3


def test_a_stream_that_is_not_there_can_not_be_removed(running: Pipeline) -> None:
    running.add_source("yard", Synthetic())

    with pytest.raises(ConfigurationError, match="there is no stream 'gate'; streams: yard"):
        running.remove_source("gate")


def test_globs_of_steps_apply_to_streams_that_come() -> None:
    steps: list[Step] = [Tally(id="gates", streams=("gate*",)), Tally(id="all")]
    pipeline = Pipeline(sources={}, steps=steps, keep_running=True)
    with pipeline:
        pipeline.add_source("gate 2", Synthetic(frames=2))
        pipeline.add_source("yard", Synthetic(frames=2))
        wait_until(lambda: len(Tallied.built["all"].ended) == 2)

    assert {name for name, _ in Tallied.built["gates"].frames} == {"gate 2"}
    assert Tallied.built["gates"].ended == ["gate 2"]


def test_without_a_run_streams_come_and_go_in_the_description() -> None:
    pipeline = Pipeline(sources={"yard": Synthetic(frames=2)}, steps=[Tally(id="tally")])
    pipeline.add_source("gate", Synthetic(frames=3)).wait(0)
    pipeline.remove_source("yard").wait(0)

    report = pipeline.run()

    assert [(stream.stream.name, stream.received) for stream in report.streams] == [("gate", 3)]


def test_a_run_that_is_ending_takes_no_more_streams() -> None:
    gate = Gate()
    pipeline = Pipeline(sources={"yard": endless()}, steps=[Tally(id="tally")])
    pipeline.probe("tally", gate)
    pipeline.start()
    assert gate.reached.wait(LIMIT_SECONDS)
    pipeline.stop()

    with pytest.raises(ConfigurationError, match="the pipeline is at its end"):
        pipeline.add_source("gate", Synthetic())
    gate.opened.set()
    pipeline.wait()


def test_who_waits_for_a_removal_is_let_go_when_the_run_is_aborted() -> None:
    gate = Gate()
    pipeline = Pipeline(sources={"yard": endless()}, steps=[Tally(id="tally")])
    pipeline.probe("tally", gate)
    pipeline.start()
    assert gate.reached.wait(LIMIT_SECONDS)

    going = pipeline.remove_source("yard")
    with pytest.raises(TimeoutError):
        going.wait(0.01)
    threading.Timer(0.05, gate.opened.set).start()
    pipeline.abort()

    going.wait(LIMIT_SECONDS)
    pipeline.wait()


def test_a_removal_that_is_asked_for_when_the_run_is_over_is_done() -> None:
    pipeline = Pipeline(sources={"yard": endless()}, steps=[Tally(id="tally")])
    pipeline.start()
    runner = pipeline._runner
    assert runner is not None
    pipeline.abort()
    pipeline.wait()

    runner.remove_source("yard").wait(LIMIT_SECONDS)


def test_a_file_without_end_can_be_limited_and_does_not_keep_a_waiting_pipeline_alive() -> None:
    pipeline = Pipeline(sources={"yard": endless()}, steps=[Tally(id="tally")], keep_running=True)

    report = pipeline.run(frames=3)

    assert report.streams[0].received == 3


def test_streams_come_while_the_pipeline_is_still_being_built(monkeypatch: pytest.MonkeyPatch) -> None:
    building, gate = threading.Event(), threading.Event()
    build = Tally.build

    def slow(self: Tally, site: object) -> object:
        building.set()
        assert gate.wait(LIMIT_SECONDS)
        return build(self, site)  # type: ignore[arg-type]

    monkeypatch.setattr(Tally, "build", slow)
    pipeline = Pipeline(sources={"yard": Synthetic(frames=2)}, steps=[Tally(id="tally")])
    starting = threading.Thread(target=pipeline.start)
    starting.start()
    assert building.wait(LIMIT_SECONDS)

    pipeline.add_source("gate", Synthetic(frames=3)).wait(LIMIT_SECONDS)
    pipeline.remove_source("yard").wait(LIMIT_SECONDS)
    gate.set()
    starting.join(LIMIT_SECONDS)

    assert [(stream.stream.name, stream.received) for stream in pipeline.wait().streams if stream.received] == [
        ("gate", 3)
    ]


def test_the_report_remembers_only_so_many_names_that_went(running: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_MOST_REMOVED", 5)
    for number in range(12):
        running.add_source(f"guest {number}", Synthetic(frames=1)).wait(LIMIT_SECONDS)
        running.remove_source(f"guest {number}").wait(LIMIT_SECONDS)

    running.stop()
    assert 5 <= len(running.wait().streams) <= 7


def test_batches_grow_and_shrink_with_the_number_of_streams(running: Pipeline) -> None:
    sizes: list[int] = []
    runner = running._runner
    assert isinstance(runner, Runner)
    for number in range(3):
        running.add_source(f"guest {number}", endless()).wait(LIMIT_SECONDS)
        sizes.append(runner._lanes._all[0].batcher.size)
    running.remove_source("guest 1").wait(LIMIT_SECONDS)

    assert sizes == [1, 2, 3]
    wait_until(lambda: runner._lanes._all[0].batcher.size == 2)


def test_messages_tell_of_streams_that_come_and_go(running: Pipeline) -> None:
    told: list[Message] = []
    running.on_message(told.append)
    running.add_source("yard", endless())
    wait_until(lambda: Tallied.built["tally"].frames)
    running.remove_source("yard").wait(LIMIT_SECONDS)

    wait_until(lambda: len([message for message in told if message.stream == "yard"]) == 2)
    assert [message.kind for message in told if message.stream == "yard"] == ["stream_started", "stream_ended"]
