"""Runs of whole pipelines made of small elements."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sightline.devices.discovery import DeviceInUse
from sightline.errors import ConfigurationError, OperatorError, StreamError
from sightline.graph import (
    BatchOptions,
    Message,
    MessageKind,
    Mounts,
    Operator,
    Outputs,
    Packets,
    Parallel,
    PipelineDescription,
    Step,
    Tee,
)
from sightline.graph.site import SystemClock
from sightline.media import Batch
from sightline.runtime.runner import Runner
from sightline.runtime.scheduling.node import Node
from sightline.runtime.sources.supervisor import Limits
from sightline.runtime.stats.report import Report
from sightline.testing import assert_accounted, make_frames
from tests.unit.runtime.elements import Find, Held, Hold, Remark, Synthetic, SyntheticReader, Tallied, Tally
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Tallied.built.clear()
    Held.gate.set()
    threads = set(threading.enumerate())
    yield
    Held.gate.set()
    left = [thread for thread in threading.enumerate() if thread not in threads]
    for thread in left:
        thread.join(60)
    assert not [thread.name for thread in left if thread.is_alive()]


def make_runner(
    steps: list[Step],
    *,
    sources: dict[str, Synthetic] | None = None,
    size: int | None = None,
    limits: Limits = Limits(),  # noqa: B008  a frozen value
    messages: list[Message] | None = None,
) -> Runner:
    description = PipelineDescription(
        sources=sources or {"cam": Synthetic()}, steps=tuple(steps), batch=BatchOptions(size=size)
    )
    return Runner(
        description,
        device=DeviceInUse(),
        outputs=Outputs(),
        clock=SystemClock(),
        post=(messages if messages is not None else []).append,
        probes={},
        mounts=Mounts(),
        packets=Packets(),
        limits=limits,
    )


def run(runner: Runner) -> Report:
    runner.start()
    return runner.wait()


@pytest.mark.parametrize("size", [None, 1, 4, 16])
def test_every_frame_of_every_stream_passes_once_and_in_order(size: int | None) -> None:
    sources = {name: Synthetic(frames=30) for name in ("a", "b", "c")}

    report = run(make_runner([Find(), Tally()], sources=sources, size=size))

    for name in sources:
        assert [index for stream, index in Tallied.built["tally-1"].frames if stream == name] == list(range(30))
    assert report.frames == 90
    assert_accounted(report)


def test_an_operator_is_entered_by_one_thread_only() -> None:
    run(make_runner([Tally(), Find(), Tally()]))

    assert [len(Tallied.built[name].entered_by) for name in ("tally-1", "tally-2")] == [1, 1]


def test_operators_are_told_of_ends_then_drained_then_closed() -> None:
    run(make_runner([Tally()], sources={"a": Synthetic(frames=3), "b": Synthetic(frames=9)}))

    tally = Tallied.built["tally-1"]
    assert (sorted(tally.ended), tally.drained, tally.closed) == (["a", "b"], 1, 1)


def test_readers_are_closed() -> None:
    SyntheticReader.opened = SyntheticReader.closed = 0

    run(make_runner([], sources={"a": Synthetic(), "b": Synthetic(lost_at=2)}))

    assert SyntheticReader.opened == SyntheticReader.closed == 2


def test_branches_of_a_tee_get_every_batch_and_change_nothing_behind_it() -> None:
    report = run(make_runner([Tee(branches={"side": (Find(), Tally())}), Tally(id="behind")]))

    assert len(Tallied.built["tally-1"].frames) == len(Tallied.built["behind"].frames) == 20
    assert report.streams[0].objects == 0


def test_parallel_branches_are_merged_frame_by_frame() -> None:
    branches = Parallel(branches={"people": (Find(label="person"),), "cars": (Find(label="car"), Tally())})

    report = run(make_runner([Find(label="dog"), branches, Tally(id="behind")]))

    counts = {label: count.objects for label, count in report.streams[0].labels.items()}
    assert counts == {"dog": 20, "person": 20, "car": 20}
    assert len(Tallied.built["behind"].frames) == 20


def test_structures_nest() -> None:
    inner = Parallel(branches={"x": (Find(label="x"),), "y": (Find(label="y"),)})
    outer = Parallel(branches={"in": (inner,), "z": (Tee(branches={"t": (Tally(),)}), Find(label="z"))})

    report = run(make_runner([outer], sources={"a": Synthetic(), "b": Synthetic()}))

    assert {label: count.objects for label, count in report.streams[1].labels.items()} == {"x": 20, "y": 20, "z": 20}


def test_a_step_with_streams_works_on_those_only() -> None:
    sources = {"gate-1": Synthetic(), "gate-2": Synthetic(), "yard": Synthetic()}

    report = run(make_runner([Find(streams=("gate*",)), Remark(streams=("yard",)), Tally()], sources=sources, size=4))

    assert {stream.stream.name: stream.objects for stream in report.streams} == {"gate-1": 20, "gate-2": 20, "yard": 0}
    assert len(Tallied.built["tally-1"].frames) == 60


def test_the_failure_of_an_operator_names_element_stream_and_frame_and_hides_passwords() -> None:
    runner = make_runner([Find(fail_at=7), Tally()], size=1)

    with pytest.raises(OperatorError) as failure:
        run(runner)

    text = str(failure.value)
    assert "'find-1' failed on stream 'cam', frame 7" in text
    assert "secret" not in text


class Failing(Operator):
    def process(self, batch: Batch) -> Batch:
        raise ValueError(f"{len(batch)} frames are too many")


def test_the_failure_on_a_batch_names_all_of_its_frames() -> None:
    node = Node(Find(), Failing(), element_id="find-1", probes=[])
    ours, theirs = make_frames(3), make_frames(2, stream="other")

    with pytest.raises(OperatorError, match="failed on stream 'cam', frames 0 to 2: "):
        node.process(Batch(tuple(ours)))
    with pytest.raises(OperatorError, match="failed on a batch of 5 frames, the first of stream 'cam', frame 0: "):
        node.process(Batch((*ours, *theirs)))


def test_after_a_failure_every_operator_is_closed() -> None:
    with pytest.raises(OperatorError):
        run(make_runner([Tally(), Find(), Tally(fail_at=5), Tally()]))

    assert {name: tally.closed for name, tally in Tallied.built.items()} == {"tally-1": 1, "tally-2": 1, "tally-3": 1}


def test_a_failure_while_closing_is_not_lost() -> None:
    with pytest.raises(OperatorError, match=r"while closing.*last bytes"):
        run(make_runner([Tally(fail_on_close=True)]))


def test_a_stream_that_can_not_be_read_leaves_the_others_alone() -> None:
    messages: list[Message] = []
    sources = {"good": Synthetic(), "bad": Synthetic(unreadable_at=0), "faulty": Synthetic(broken_at=3)}

    report = run(make_runner([Tally()], sources=sources, messages=messages))

    failed = {message.stream: message.text for message in messages if message.kind is MessageKind.STREAM_FAILED}
    assert failed == {"bad": "there is no video in it", "faulty": "ZeroDivisionError: a fault of the reader"}
    assert report.failed_streams == ("bad", "faulty")
    assert report.frames == 23
    assert_accounted(report)


def test_when_no_stream_can_be_read_the_run_fails() -> None:
    with pytest.raises(StreamError, match="'cam': there is no video in it"):
        run(make_runner([Tally()], sources={"cam": Synthetic(unreadable_at=0)}))


def test_a_lost_camera_is_tried_again_and_its_frames_are_numbered_on() -> None:
    messages: list[Message] = []
    source = Synthetic(camera=True, lost_at=5, frames=None)
    runner = make_runner([Tally()], sources={"cam": source}, limits=Limits(frames=12), messages=messages)

    report = run(runner)

    indices = [index for _, index in Tallied.built["tally-1"].frames]
    assert indices == sorted(set(indices))
    assert report.streams[0].received == 12
    assert report.streams[0].reconnects == 2
    assert_accounted(report)


@pytest.mark.parametrize("wrong", [-1, 1.5, "3"])
def test_a_limit_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="frames is a whole number, 0 or more"):
        Limits(frames=wrong)
    with pytest.raises(ConfigurationError, match="duration_ns is a whole number, 0 or more"):
        Limits(duration_ns=wrong)


def test_limits_are_per_stream() -> None:
    sources = {"a": Synthetic(frames=None), "b": Synthetic(frames=4)}

    report = run(make_runner([], sources=sources, limits=Limits(frames=7)))

    assert [stream.received for stream in report.streams] == [7, 4]


def test_a_duration_ends_a_stream_by_its_own_time() -> None:
    report = run(make_runner([], sources={"a": Synthetic(frames=None)}, limits=Limits(duration_ns=400_000_000)))

    assert report.frames == 10


def test_who_starts_it_hears_of_it_before_a_frame_flows() -> None:
    runner, heard = make_runner([Tally()], sources={"a": Synthetic(frames=5)}), list[tuple[bool, int]]()

    def built() -> None:
        time.sleep(0.1)  # long enough for a frame, if it could flow
        heard.append((runner.has_streams, len(Tallied.built["tally-1"].frames)))

    runner.start(on_built=built)

    assert runner.wait().frames == 5
    assert heard == [(False, 0)]


def test_a_start_that_nobody_can_be_told_of_leaves_nothing_running() -> None:
    def built() -> None:
        raise OSError("nobody is there")

    runner = make_runner([Tally()], sources={"a": Synthetic(frames=5)})

    with pytest.raises(OSError, match="nobody is there"):
        runner.start(on_built=built)

    assert (Tallied.built["tally-1"].closed, Tallied.built["tally-1"].frames) == (1, [])


def test_stop_finishes_what_is_under_way_and_closes() -> None:
    runner = make_runner([Find(), Tally()], sources={"a": Synthetic(frames=None)})
    runner.start()
    wait_until(lambda: runner.status()[0].processed > 10)

    runner.stop()
    report = runner.wait()

    assert Tallied.built["tally-1"].ended == ["a"]
    assert_accounted(report, stopped=True)


def test_abort_ends_although_a_sink_is_stuck() -> None:
    Held.gate.clear()
    runner = make_runner([Hold(), Tally()], sources={"a": Synthetic(frames=None)})
    runner.start()
    wait_until(lambda: runner.status()[0].frames > 4)

    runner.abort()
    Held.gate.set()
    report = runner.wait()

    assert Tallied.built["tally-1"].closed == 1
    assert_accounted(report, stopped=True)


def test_a_slow_consumer_makes_a_camera_drop_and_the_drops_are_counted() -> None:
    Held.gate.clear()
    runner = make_runner([Hold()], sources={"cam": Synthetic(camera=True, frames=500)})
    runner.start()
    wait_until(lambda: runner.status()[0].dropped > 100)

    Held.gate.set()
    report = runner.wait()

    assert report.streams[0].dropped["overloaded"] > 100
    assert_accounted(report)


def test_a_damaged_frame_goes_all_the_way_and_has_a_counter_of_its_own() -> None:
    report = run(make_runner([Tally()], sources={"cam": Synthetic(frames=10, damaged_at=3)}))

    (stream,) = report.streams
    assert (stream.received, stream.processed, stream.damaged, stream.finished) == (10, 9, 1, 10)
    assert report.frames == len(Tallied.built["tally-1"].frames) == 10
    assert_accounted(report)


def test_a_slow_consumer_makes_a_file_wait_and_nothing_is_lost() -> None:
    Held.gate.clear()
    runner = make_runner([Hold()], sources={"file": Synthetic(frames=100)})
    runner.start()
    Held.gate.set()
    report = runner.wait()

    assert (report.frames, dict(report.streams[0].dropped)) == (100, {})
