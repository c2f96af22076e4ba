"""Runs on several GPUs of which one breaks: its streams go on on the others, and every frame is accounted for."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.errors import OperatorError, StreamError
from sightline.graph import Message, MessageKind, Site, SourceElement, SourceReader, StreamState
from sightline.media import Batch, Frame, Stream
from sightline.runtime.stats.counters import DropReason
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted
from tests.fakes import FakeCudaDriver
from tests.unit.runtime.elements import Find, Hold, Synthetic, SyntheticReader
from tests.unit.runtime.several_gpus import (
    LIMIT_SECONDS,
    Collect,
    Collector,
    Gpus,
    Work,
    Worker,
    described,
    ended,
    use,
    workers,
)
from tests.waiting import wait_until

CAUSE = "CUDA_ERROR_ECC_UNCORRECTABLE"
Drivers = list[FakeCudaDriver]


def breaks(worker: Worker, driver: FakeCudaDriver, *, after: int) -> None:
    """Let the GPU of a step break when the step has had so many frames more."""
    left = iter(range(after))

    def count() -> None:
        if next(left, None) is None:
            driver.fail_next("fill", CAUSE)

    worker.on_frame = count


def started(pipeline: Pipeline, drivers: Drivers, *, breaking: dict[int, int]) -> list[Message]:
    """Start it, let the GPUs of these numbers break after so many frames; what it tells."""
    told: list[Message] = []
    pipeline.on_message(told.append)
    ready = threading.Event()

    def hold(_: Batch) -> None:
        assert ready.wait(LIMIT_SECONDS)

    pipeline.probe("work-1", hold)
    pipeline.start()
    for index, after in breaking.items():
        breaks(workers()[index], drivers[index], after=after)
    ready.set()
    return told


def dropped(report: Report) -> dict[str, int]:
    return {one.stream.name: one.dropped[DropReason.GPU_LOST] for one in report.streams}


def check_seen_once(report: Report, *, frames: int) -> None:
    """The sink has had every frame at most once, in order; those that it has not had were dropped."""
    (sink,) = [one for one in workers(Collector) if isinstance(one, Collector)]
    for stream in report.streams:
        own = [index for name, index in sink.seen if name == stream.stream.name]
        assert own == sorted(set(own))
        assert (stream.received, own[-1]) == (frames, frames - 1)
        assert frames - len(own) <= stream.dropped[DropReason.GPU_LOST]
    assert (sorted(sink.ended), sink.drained, sink.closed) == (sorted(one.stream.name for one in report.streams), 1, 1)


def test_files_go_on_on_the_other_gpu_and_no_frame_is_taken_twice(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Find(), Work(), Collect(), frames=300), gpu=gpus[:2])
    order = FrameOrder()
    pipeline.probe("collect-1", order)
    told = started(pipeline, drivers, breaking={0: 50})

    report = pipeline.wait()

    assert_accounted(report, gpu_lost=True)
    order.check(report)
    check_seen_once(report, frames=300)
    assert {name for name, count in dropped(report).items() if count} <= {"s0", "s2"}
    assert 0 < max(dropped(report).values()) < 100
    assert workers()[1].streams == {"s0", "s1", "s2", "s3"}
    (text,) = [message.text for message in told if message.kind is MessageKind.WARNING]
    assert re.fullmatch(
        rf"cuda:0 cannot be used any more: filling memory failed: {CAUSE}; its 2 streams go on on cuda:1, "
        r"without the frames that were under way and without what steps on cuda:0 knew",
        text,
    )


def test_streams_say_that_they_were_lost_and_are_back(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Work(), streams=2, frames=300), gpu=gpus[:2])
    told = started(pipeline, drivers, breaking={0: 50})

    report = pipeline.wait()

    kinds = [(message.kind, message.text) for message in told if message.stream == "s0"]
    assert kinds == [
        (MessageKind.STREAM_STARTED, "started"),
        (MessageKind.STREAM_LOST, "cuda:0 is lost; trying again"),
        (MessageKind.STREAM_BACK, "is back"),
        (MessageKind.STREAM_ENDED, "ended after 300 frames"),
    ]
    assert {one.stream.name: one.reconnects for one in report.streams} == {"s0": 1, "s1": 0}
    assert {one.state for one in report.streams} == {StreamState.ENDED}
    assert {one.error for one in report.streams} == {None}


def test_streams_of_a_lost_gpu_are_spread_over_those_that_are_left(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Work(), Collect(), streams=6, frames=300), gpu=gpus)
    started(pipeline, drivers, breaking={1: 50})

    report = pipeline.wait()

    assert_accounted(report, gpu_lost=True)
    check_seen_once(report, frames=300)
    assert [len(one.streams) for one in workers()] == [3, 2, 3]


def test_one_gpu_after_another_may_break(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Find(), Work(), Collect(), streams=3, frames=500), gpu=gpus)
    started(pipeline, drivers, breaking={0: 50, 2: 100})

    report = pipeline.wait()

    assert_accounted(report, gpu_lost=True)
    check_seen_once(report, frames=500)
    assert workers()[1].streams == {"s0", "s1", "s2"}


def test_with_the_last_gpu_the_run_ends_with_the_cause(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Work(), Collect(), streams=2, frames=None), gpu=gpus[:2])
    told = started(pipeline, drivers, breaking={0: 50})
    wait_until(lambda: len(workers()[1].streams) == 2)

    drivers[1].fail_next("fill", CAUSE)

    with pytest.raises(OperatorError, match=rf"element 'work-1' failed on .*cuda:1 cannot be used any more: .*{CAUSE}"):
        pipeline.wait()
    assert pipeline.report is not None
    assert_accounted(pipeline.report, stopped=True, gpu_lost=True)
    assert [message.kind for message in told if message.kind in (MessageKind.WARNING, MessageKind.ERROR)] == [
        MessageKind.WARNING,
        MessageKind.ERROR,
    ]
    assert [one.closed for one in Worker.built] == [1] * 3


def test_a_camera_is_connected_again_and_goes_on_behind_its_last_frame(gpus: Gpus, drivers: Drivers) -> None:
    description = described(Work(), Collect(), frames=None).model_copy(
        update={"sources": {name: Synthetic(frames=None, camera=True) for name in ("yard", "gate")}}
    )
    pipeline = Pipeline.from_description(description, gpu=gpus[:2])
    order = FrameOrder()
    pipeline.probe("collect-1", order)
    started(pipeline, drivers, breaking={0: 50})
    wait_until(lambda: len(workers()[1].streams) == 2)

    report = ended(pipeline, gpu_lost=True)

    assert not order.wrong
    assert {one.stream.name: one.reconnects for one in report.streams} == {"yard": 1, "gate": 0}
    assert dropped(report)["gate"] == 0 < dropped(report)["yard"]


class FromGpu(Synthetic):
    """Frames that a GPU makes."""

    name: ClassVar[str] = "from_gpu"

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        assert site.gpu is not None
        return FromGpuReader(self, stream, gpu=site.gpu)


class FromGpuReader(SyntheticReader):
    def __init__(self, source: Synthetic, stream: Stream, *, gpu: CudaDevice) -> None:
        super().__init__(source, stream)
        self._gpu = gpu

    def frames(self) -> Iterator[Frame]:
        for frame in super().frames():
            use(self._gpu)
            self.damaged_packets = frame.index + 1
            yield frame


def from_gpu(**options: Any) -> SourceElement:
    return FromGpu(**options)


def test_a_decoder_that_notices_first_is_as_good(gpus: Gpus, drivers: Drivers) -> None:
    sources = {name: from_gpu(frames=300) for name in ("yard", "gate")}
    description = described(Find(), Collect()).model_copy(update={"sources": sources})
    pipeline = Pipeline.from_description(description, gpu=gpus[:2])
    told: list[Message] = []
    pipeline.on_message(told.append)
    seen = iter(range(50))
    pipeline.probe("find-1", lambda _: drivers[0].fail_next("fill", CAUSE) if next(seen, None) == 49 else None)

    report = pipeline.run()

    assert_accounted(report, gpu_lost=True)
    check_seen_once(report, frames=300)
    assert {one.stream.name: one.reconnects for one in report.streams} == {"yard": 1, "gate": 0}
    assert {one.damaged_packets for one in report.streams} == {300}
    assert len([message for message in told if message.kind is MessageKind.WARNING]) == 1


def test_decoders_on_the_only_gpu_fail_with_the_cause(gpus: Gpus, drivers: Drivers) -> None:
    description = described(Find()).model_copy(update={"sources": {"yard": from_gpu(frames=300)}})
    pipeline = Pipeline.from_description(description, gpu=gpus[0])
    seen = iter(range(50))
    pipeline.probe("find-1", lambda _: drivers[0].fail_next("fill", CAUSE) if next(seen, None) == 49 else None)

    with pytest.raises(StreamError, match=rf"stream 'yard': cuda:0 cannot be used any more: .*{CAUSE}"):
        pipeline.run()


def test_a_broken_gpu_is_no_failure_that_a_step_is_skipped_for(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Work(on_error="skip"), Collect(), frames=300), gpu=gpus[:2])
    started(pipeline, drivers, breaking={0: 50})

    report = pipeline.wait()

    assert_accounted(report, gpu_lost=True)
    check_seen_once(report, frames=300)
    assert report.elements[0].failures == {}


def test_a_file_that_was_read_to_its_end_ends_where_its_lane_is_lost(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Work(), Collect(), streams=2, frames=None), gpu=gpus[:2])
    short = Synthetic(frames=3)
    started(pipeline, drivers, breaking={})
    pipeline.remove_source("s0").wait(LIMIT_SECONDS)
    reached, opened = threading.Event(), threading.Event()

    def stay() -> None:
        reached.set()
        assert opened.wait(LIMIT_SECONDS)

    workers()[0].on_frame = stay
    pipeline.add_source("short", short).wait(LIMIT_SECONDS)
    assert reached.wait(LIMIT_SECONDS)
    wait_until(lambda: [one for one in pipeline.status() if one.name == "short" and one.state is StreamState.ENDED])
    gone = pipeline.remove_source("short")
    drivers[0].fail_next("fill", CAUSE)
    opened.set()

    gone.wait(LIMIT_SECONDS)

    report = ended(pipeline, gpu_lost=True)
    assert {one.stream.name: one.received for one in report.streams}["short"] == 3
    assert dropped(report)["short"] == 3


def test_a_run_ends_although_what_its_files_held_was_lost(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Work(), Collect(), streams=2, frames=3), gpu=gpus[:2])
    opened = threading.Event()

    def stay(batch: Batch) -> None:
        if "s0" in {frame.stream.name for frame in batch.frames}:
            assert opened.wait(LIMIT_SECONDS)
            drivers[0].fail_next("fill", CAUSE)

    pipeline.probe("work-1", stay)
    pipeline.start()
    wait_until(lambda: {one.state for one in pipeline.status()} == {StreamState.ENDED})
    opened.set()

    report = pipeline.wait()

    assert_accounted(report, gpu_lost=True)
    assert sorted(workers(Collector)[0].ended) == ["s0", "s1"]
    assert workers(Collector)[0].closed == 1


def test_a_stream_can_be_removed_that_has_moved(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Work(), Collect(), streams=2, frames=None), gpu=gpus[:2])
    started(pipeline, drivers, breaking={0: 50})
    wait_until(lambda: len(workers()[1].streams) == 2)

    pipeline.remove_source("s0").wait(LIMIT_SECONDS)

    assert workers(Collector)[0].ended == ["s0"]
    ended(pipeline, gpu_lost=True)


def test_steps_are_exchanged_in_the_lanes_that_are_left(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Work(), Collect(), frames=None), gpu=gpus)
    started(pipeline, drivers, breaking={0: 50})
    wait_until(lambda: sum(len(one.streams) for one in workers()[1:]) == 4)
    (sink,) = workers(Collector)

    pipeline.reload(described(Work(option=1), Collect(), frames=None), prove=0).wait(LIMIT_SECONDS)
    wait_until(lambda: sum(len(one.streams) for one in workers()[3:]) == 4)
    report = ended(pipeline, gpu_lost=True)

    assert [one.site.gpu for one in workers()[3:]] == gpus[1:]
    assert [one.closed for one in Worker.built] == [1] * 6
    assert {one.element_id: one.frames for one in report.elements}["collect-1"] == sink.frames


def test_a_gpu_may_break_while_steps_are_exchanged(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Find(), Work(), Collect(), frames=None), gpu=gpus)
    told = started(pipeline, drivers, breaking={0: 200, 1: 400})
    for option in range(1, 40):
        pipeline.reload(described(Find(), Work(option=option), Collect(), frames=None), prove=0).wait(LIMIT_SECONDS)
        fresh = [one for one in workers() if not one.closed]
        for one in fresh:
            index = gpus.index(one.site.gpu) if one.site.gpu in gpus else 2
            if index < 2:
                breaks(one, drivers[index], after=10 + 15 * option * index)

    wait_until(lambda: len([message for message in told if "cannot be used" in message.text]) >= 1)
    report = ended(pipeline, gpu_lost=True)

    assert {one.closed for one in Worker.built} == {1}
    assert {one.state for one in report.streams} == {StreamState.ENDED}


def test_a_run_that_is_stopped_while_streams_move_ends(gpus: Gpus, drivers: Drivers) -> None:
    pipeline = Pipeline.from_description(described(Work(), Hold(), streams=6, frames=None), gpu=gpus)
    told = started(pipeline, drivers, breaking={0: 50})
    wait_until(lambda: [message for message in told if "cannot be used" in message.text])

    ended(pipeline, gpu_lost=True)
