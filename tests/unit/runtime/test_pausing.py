"""Streams that are paused and resumed while a pipeline runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.graph import Element, Message, Operator, PipelineDescription, Site, SourceElement, SourceReader, Step
from sightline.graph.messages import StreamState
from sightline.media import Batch, Frame, Stream
from sightline.server.status import not_ready
from sightline.testing import FrameOrder, assert_accounted
from tests.fakes import FakeCudaDriver
from tests.unit.runtime.elements import Find, Held, Hold, Synthetic, SyntheticReader, Tally, UntilTold
from tests.unit.runtime.several_gpus import Collect, Collector, Gpus, Work, described, workers
from tests.unit.runtime.test_lost_gpus import breaks
from tests.waiting import wait_until

LIMIT_SECONDS = 300


class Camera(SourceElement):
    """A live stream at about 100 frames a second; `silent` connections send nothing."""

    name: ClassVar[str] = "camera"

    silent: bool = False

    @property
    def live(self) -> bool:
        return True

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        return _Connection(self.silent, stream)


class _Connection(SourceReader):
    open: ClassVar[int] = 0
    opened: ClassVar[int] = 0

    def __init__(self, silent: bool, stream: Stream) -> None:
        self._silent = silent
        self._frames = SyntheticReader(Synthetic(frames=None), stream).frames()
        self._stopped = threading.Event()
        type(self).open += 1
        type(self).opened += 1

    def frames(self) -> Iterator[Frame]:
        while not self._stopped.wait(0.01):
            if not self._silent:
                yield next(self._frames)

    def stop(self) -> None:
        super().stop()
        self._stopped.set()

    def close(self) -> None:
        type(self).open -= 1


class Noted(Element):
    """Notes frames, pauses and ends of streams, in order."""

    name: ClassVar[str] = "noted"

    def build(self, site: Site) -> Operator:
        del site
        return Notes()


class Notes(Operator):
    built: ClassVar[list[Notes]] = []

    def __init__(self) -> None:
        self.frames: dict[str, int] = {}
        self.events: list[tuple[str, str, int]] = []
        self.built.append(self)

    def process(self, batch: Batch) -> Batch:
        for frame in batch.frames:
            self.frames[frame.stream.name] = frame.index + 1
        return batch

    def pause_stream(self, stream: Stream) -> None:
        self.events.append(("paused", stream.name, self.frames[stream.name]))

    def end_stream(self, stream: Stream) -> None:
        self.events.append(("ended", stream.name, self.frames[stream.name]))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Notes.built.clear()
    Held.gate.set()
    _Connection.open = _Connection.opened = 0
    threads = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive(), thread.name
    assert _Connection.open == 0


def started(
    sources: dict[str, SourceElement], *steps: Step, keep_running: bool = False
) -> tuple[Pipeline, list[Message], FrameOrder]:
    description = PipelineDescription(sources=sources, steps=(*steps, Noted(id="noted")), keep_running=keep_running)
    pipeline, messages, order = Pipeline.from_description(description), list[Message](), FrameOrder()
    pipeline.on_message(messages.append)
    pipeline.probe("noted", order)
    pipeline.start()
    return pipeline, messages, order


def state(pipeline: Pipeline, stream: str) -> StreamState:
    return next(status.state for status in pipeline.status() if status.name == stream)


def frames(stream: str) -> int:
    return Notes.built[0].frames.get(stream, 0)


def ended(pipeline: Pipeline, order: FrameOrder) -> None:
    pipeline.stop()
    report = pipeline.wait()
    assert_accounted(report, stopped=True)
    order.check(report)


def kinds(messages: list[Message], stream: str) -> list[str]:
    return [message.kind for message in messages if message.stream == stream]


def test_a_file_stops_where_it_is_and_goes_on_there() -> None:
    UntilTold.over.clear()
    sources: dict[str, SourceElement] = {"gate": UntilTold(), "yard": Synthetic(frames=None)}
    pipeline, messages, order = started(sources, Find())
    for _ in range(3):
        before = frames("gate")
        wait_until(lambda before=before: frames("gate") > before)  # type: ignore[misc]
        pipeline.pause("gate").wait(LIMIT_SECONDS)
        stopped, others = frames("gate"), frames("yard")
        wait_until(lambda others=others: frames("yard") > others + 500)  # type: ignore[misc]
        assert (frames("gate"), state(pipeline, "gate")) == (stopped, StreamState.PAUSED)
        pipeline.resume("gate")
    UntilTold.over.set()
    wait_until(lambda: state(pipeline, "gate") is StreamState.ENDED)
    pipeline.stop()
    report = pipeline.wait()

    assert_accounted(report, stopped=True)
    order.check(report)
    gate = report.streams[0]
    assert (gate.processed, gate.reconnects) == (gate.received, 0)
    assert kinds(messages, "gate") == ["stream_started", *["stream_paused", "stream_resumed"] * 3, "stream_ended"]


def test_a_camera_is_let_go_and_connected_again_as_after_a_loss_without_counting_one() -> None:
    pipeline, messages, order = started({"gate": Camera(), "yard": Camera()})
    wait_until(lambda: frames("gate") and frames("yard"))

    pipeline.pause("gate").wait(LIMIT_SECONDS)
    assert (state(pipeline, "gate"), _Connection.open, not_ready(pipeline.view())) == (StreamState.PAUSED, 1, {})
    stopped = frames("gate")
    assert Notes.built[0].events == [("paused", "gate", stopped)]
    pipeline.resume("gate")
    wait_until(lambda: frames("gate") > stopped)
    assert state(pipeline, "gate") is StreamState.LIVE
    ended(pipeline, order)

    assert pipeline.report is not None
    assert [stream.reconnects for stream in pipeline.report.streams] == [0, 0]
    assert _Connection.opened == 3
    assert kinds(messages, "gate") == [
        "stream_connecting",
        "stream_started",
        "stream_paused",
        "stream_resumed",
        "stream_back",
        "stream_ended",
    ]


def test_a_camera_that_never_sent_anything_can_be_paused() -> None:
    pipeline, _, order = started({"gate": Camera(silent=True)})
    wait_until(lambda: _Connection.open)

    pipeline.pause("gate").wait(LIMIT_SECONDS)
    assert (state(pipeline, "gate"), _Connection.open) == (StreamState.PAUSED, 0)
    pipeline.resume("gate")
    wait_until(lambda: _Connection.open)
    ended(pipeline, order)


def test_a_pause_is_done_when_the_last_frame_has_passed_all_steps() -> None:
    Held.gate.clear()
    pipeline, _, order = started({"gate": Synthetic(frames=None)}, Hold())
    wait_until(lambda: frames("gate"))

    change = pipeline.pause("gate")
    with pytest.raises(TimeoutError):
        change.wait(0.2)
    assert pipeline.pause("gate") is change, "a second pause is the same one"
    Held.gate.set()
    change.wait(LIMIT_SECONDS)
    pipeline.resume("gate")
    pipeline.resume("gate")
    ended(pipeline, order)


def test_a_pause_that_is_taken_back_is_done() -> None:
    Held.gate.clear()
    pipeline, _, order = started({"gate": Synthetic(frames=None)}, Hold())
    wait_until(lambda: frames("gate"))
    change = pipeline.pause("gate")
    pipeline.resume("gate")

    change.wait(LIMIT_SECONDS)
    Held.gate.set()
    stopped = frames("gate")
    wait_until(lambda: frames("gate") > stopped + 100)
    ended(pipeline, order)


def test_batches_do_not_wait_for_a_paused_file() -> None:
    sources: dict[str, SourceElement] = {"gate": Synthetic(frames=None), "yard": Synthetic(frames=200)}
    description = PipelineDescription(
        sources=sources,
        steps=(Noted(id="noted"),),
        batch={"size": 64, "timeout": "1h"},
    )
    pipeline = Pipeline.from_description(description)
    with pipeline:
        pipeline.pause("gate").wait(LIMIT_SECONDS)
        wait_until(lambda: state(pipeline, "yard") is StreamState.ENDED)
        pipeline.stop()
        assert_accounted(pipeline.wait(), stopped=True)


def test_a_pause_survives_other_steps_and_another_source() -> None:
    pipeline, messages, _ = started({"gate": Camera(), "yard": Camera()}, keep_running=True)
    wait_until(lambda: frames("gate"))
    pipeline.pause("gate").wait(LIMIT_SECONDS)
    stopped = frames("gate")

    changed = pipeline.description.model_copy(
        update={"steps": (Tally(), Noted(id="noted")), "sources": {"gate": Synthetic(frames=50), "yard": Camera()}}
    )
    pipeline.reload(changed).wait(LIMIT_SECONDS)
    wait_until(lambda: state(pipeline, "gate") is StreamState.PAUSED)
    pipeline.resume("gate")
    wait_until(lambda: state(pipeline, "gate") is StreamState.ENDED)
    wait_until(lambda: frames("gate") == stopped + 50)

    pipeline.stop()
    assert_accounted(pipeline.wait(), stopped=True)
    assert kinds(messages, "gate")[2:] == [
        "stream_paused",
        "stream_ended",
        "stream_paused",
        "stream_resumed",
        "stream_back",
        "stream_ended",
    ]


def test_a_paused_stream_can_be_removed_and_its_name_is_free() -> None:
    pipeline, _, order = started({"gate": Camera()}, keep_running=True)
    wait_until(lambda: frames("gate"))
    pipeline.pause("gate").wait(LIMIT_SECONDS)

    pipeline.remove_source("gate").wait(LIMIT_SECONDS)
    pipeline.add_source("gate", Synthetic(frames=None)).wait(LIMIT_SECONDS)
    stopped = frames("gate")
    wait_until(lambda: frames("gate") > stopped)
    ended(pipeline, order)


def test_a_run_ends_although_a_stream_is_paused() -> None:
    pipeline, _, order = started({"gate": Synthetic(frames=None), "yard": Camera()})
    wait_until(lambda: frames("gate") and frames("yard"))
    for name in ("gate", "yard"):
        pipeline.pause(name).wait(LIMIT_SECONDS)

    ended(pipeline, order)
    with pytest.raises(ConfigurationError, match="start the pipeline first"):
        pipeline.pause("gate")


def test_what_cannot_be_paused_is_refused() -> None:
    pipeline, _, order = started({"gate": Synthetic(frames=5), "yard": Synthetic(frames=None)})
    wait_until(lambda: state(pipeline, "gate") is StreamState.ENDED)

    with pytest.raises(ConfigurationError, match="'gate' has come to its end: there is nothing to pause"):
        pipeline.pause("gate")
    with pytest.raises(ConfigurationError, match="there is no stream 'door'; streams: gate, yard"):
        pipeline.pause("door")
    with pytest.raises(ConfigurationError, match="there is no stream 'door'"):
        pipeline.resume("door")
    ended(pipeline, order)
    with pytest.raises(ConfigurationError, match="'gate' is not read: start the pipeline first"):
        Pipeline(sources={}, keep_running=True).pause("gate")


class InTurn(Synthetic):
    @property
    def takes_turns(self) -> bool:
        return True


def test_a_file_that_waits_for_its_turn_loses_it_while_it_is_paused() -> None:
    sources: dict[str, SourceElement] = {
        "a": InTurn(frames=None, realtime=True),
        "b": InTurn(frames=20),
        "c": InTurn(frames=20),
    }
    pipeline, messages, order = started(sources)
    wait_until(lambda: frames("a"))
    pipeline.pause("b").wait(LIMIT_SECONDS)
    assert [status.state for status in pipeline.status()] == ["live", "paused", "waiting"]

    pipeline.remove_source("a").wait(LIMIT_SECONDS)
    wait_until(lambda: state(pipeline, "c") is StreamState.ENDED)
    assert state(pipeline, "b") is StreamState.PAUSED
    pipeline.resume("b")
    pipeline.wait()

    assert (frames("b"), frames("c")) == (20, 20)
    assert kinds(messages, "b") == ["stream_paused", "stream_resumed", "stream_started", "stream_ended"]
    ended(pipeline, order)


def test_streams_that_pause_and_go_on_at_random_lose_nothing() -> None:
    UntilTold.over.clear()
    sources: dict[str, SourceElement] = dict.fromkeys("abcd", UntilTold())
    pipeline, _, order = started(sources, Find(), Tally())
    changes = 0
    while any(status.state is not StreamState.ENDED for status in pipeline.status()):
        name = "abcd"[changes % 4]
        changes += 1
        if changes == 40:
            UntilTold.over.set()  # and some changes meet the ends of streams
        with suppress(ConfigurationError):  # it has ended
            change = pipeline.pause(name)
            if changes % 3:
                change.wait(LIMIT_SECONDS)
            pipeline.resume(name)
    report = pipeline.wait()

    assert_accounted(report)
    order.check(report)
    assert [stream.processed for stream in report.streams] == [stream.received for stream in report.streams]


def test_a_paused_file_goes_on_on_another_gpu_when_its_own_was_lost(gpus: Gpus, drivers: list[FakeCudaDriver]) -> None:
    pipeline = Pipeline.from_description(described(Work(), Collect(), frames=None), gpu=gpus[:2])
    messages = list[Message]()
    pipeline.on_message(messages.append)
    pipeline.start()
    wait_until(lambda: sum(len(one.streams) for one in workers()) == 4)
    first, second = workers()
    paused = min(first.streams)
    pipeline.pause(paused).wait(LIMIT_SECONDS)

    breaks(first, drivers[0], after=1)
    wait_until(lambda: any("cannot be used any more" in message.text for message in messages))
    pipeline.resume(paused)
    wait_until(lambda: paused in second.streams)
    pipeline.stop()
    report = pipeline.wait()

    assert_accounted(report, stopped=True, gpu_lost=True)
    own = next(stream for stream in report.streams if stream.stream.name == paused)
    assert own.dropped["gpu lost"] == 0
    (sink,) = [one for one in workers(Collector) if isinstance(one, Collector)]
    seen = [index for name, index in sink.seen if name == paused]
    assert seen == list(range(len(seen)))
