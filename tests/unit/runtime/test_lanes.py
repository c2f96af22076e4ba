"""Runs on several GPUs: each has streams and operators of its own, what must exist once does, and all ends together."""

from __future__ import annotations

from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices import DeviceKind
from sightline.errors import ConfigurationError, OperatorError
from sightline.runtime.runner import Runner
from sightline.runtime.scheduling.element_totals import add_totals
from sightline.testing import FrameOrder, assert_accounted
from tests.unit.runtime.elements import Find, Gated, Hold, Synthetic
from tests.unit.runtime.several_gpus import (
    LIMIT_SECONDS,
    Collect,
    Collector,
    Gpus,
    Work,
    Worker,
    described,
    ended,
    workers,
)
from tests.waiting import wait_until


@pytest.mark.parametrize(("streams", "shares"), [(4, [2, 2]), (5, [2, 3]), (1, [0, 1])])
def test_streams_are_spread_evenly_and_each_gpu_has_operators_of_its_own(
    gpus: Gpus, streams: int, shares: list[int]
) -> None:
    report = Pipeline.from_description(described(Find(), Work(), streams=streams), gpu=gpus[:2]).run()

    assert_accounted(report)
    assert [one.site.gpu for one in workers()] == gpus[:2]
    assert [str(one.site.device) for one in workers()] == ["cuda:0", "cuda:1"]
    assert sorted(len(one.streams) for one in workers()) == shares
    assert sum(one.frames for one in workers()) == streams * 20 == report.frames
    assert [(one.drained, one.closed) for one in workers()] == [(1, 1)] * 2


def test_a_sink_exists_once_without_a_gpu_and_is_entered_by_one_thread_at_a_time(gpus: Gpus) -> None:
    order = FrameOrder()
    pipeline = Pipeline.from_description(described(Work(), Collect(), streams=9, frames=50), gpu=gpus)
    pipeline.probe("collect-1", order)

    report = pipeline.run()

    (sink,) = [one for one in workers(Collector) if isinstance(one, Collector)]
    assert (sink.site.gpu, sink.site.device.kind) == (None, DeviceKind.CPU)
    assert (len(sink.threads), sink.most_inside) == (3, 1)
    assert sorted(sink.seen) == sorted((f"s{stream}", index) for stream in range(9) for index in range(50))
    assert (sorted(sink.ended), sink.drained, sink.closed) == ([f"s{number}" for number in range(9)], 1, 1)
    order.check(report)


def test_one_gpu_in_a_sequence_is_one_gpu(gpus: Gpus) -> None:
    report = Pipeline.from_description(described(Collect()), gpu=gpus[:1]).run()

    assert workers(Collector)[0].site.gpu is gpus[0]
    assert (report.device, set(report.links)) == ("cuda:0", set())


def test_the_report_adds_up_and_says_where_steps_ran(gpus: Gpus) -> None:
    report = Pipeline.from_description(described(Find(), Work(), Collect()), gpu=gpus[:2]).run()

    by_id = {one.element_id: one for one in report.elements}
    assert [*by_id] == ["find-1", "work-1", "collect-1"]
    assert {one.frames for one in by_id.values()} == {80}
    assert by_id["work-1"].calls == by_id["work-1"].latency.count > 0
    assert report.device == "cuda:0, cuda:1"
    assert report.device_reason == "given by the program: double, double"
    assert (report.runs_on["work-1"], report.runs_on["collect-1"]) == ("cuda:0; cuda:1", "cpu")
    assert report.totals["work-1"] == {"frames": 80, "where": ["cuda:0", "cuda:1"]}
    assert report.totals["collect-1"] == {"frames": 80, "where": "cpu"}
    assert {*report.links} == {"cuda:0/after-find-1", "cuda:1/after-find-1"}


def test_totals_are_added_key_by_key() -> None:
    parts: list[dict[str, Any]] = [
        {"gate": {"cars": 2, "is_on": True}, "x": 0.5},
        {"gate": {"cars": 3, "is_on": True}, "yard": {"cars": 1}},
    ]

    assert add_totals(parts) == {"gate": {"cars": 5, "is_on": True}, "x": 0.5, "yard": {"cars": 1}}


def test_frames_of_all_lanes_come_out_of_one_loop(gpus: Gpus) -> None:
    pipeline = Pipeline.from_description(described(Find()), gpu=gpus)

    seen = [(frame.stream.name, frame.index) for frame in pipeline]

    assert sorted(seen) == sorted((f"s{stream}", index) for stream in range(4) for index in range(20))


def test_streams_that_come_go_where_the_fewest_are(gpus: Gpus) -> None:
    pipeline = Pipeline.from_description(described(Work(), streams=3, frames=None), gpu=gpus[:2])
    pipeline.start()
    wait_until(lambda: sum(len(one.streams) for one in workers()) == 3)
    first, second = workers()
    assert first.streams == {"s0", "s2"}

    pipeline.remove_source("s0").wait(LIMIT_SECONDS)
    pipeline.remove_source("s2").wait(LIMIT_SECONDS)
    pipeline.add_source("guest", Synthetic(frames=None)).wait(LIMIT_SECONDS)
    wait_until(lambda: "guest" in first.streams | second.streams)

    assert (first.streams, second.streams) == ({"s0", "s2", "guest"}, {"s1"})
    ended(pipeline)


def test_a_lane_without_streams_waits_for_those_of_another(gpus: Gpus) -> None:
    """Two files in one lane, one of them short, and none in the other for a while."""
    pipeline = Pipeline.from_description(described(Work(), streams=2, frames=None), gpu=gpus[:2])
    pipeline.start()
    wait_until(lambda: all(one.streams for one in workers()))
    pipeline.remove_source("s1").wait(LIMIT_SECONDS)

    pipeline.add_source("late", Synthetic(frames=20)).wait(LIMIT_SECONDS)
    wait_until(lambda: "late" in workers()[1].streams)

    ended(pipeline)


def test_batches_are_as_large_as_a_lane_has_streams(gpus: Gpus) -> None:
    pipeline = Pipeline.from_description(described(Hold(), streams=9, frames=None), gpu=gpus[:2])
    pipeline.start()

    assert isinstance(pipeline._runner, Runner)
    assert [lane.batcher.size for lane in pipeline._runner._lanes._all] == [5, 5]
    ended(pipeline)


def test_steps_are_exchanged_in_all_lanes(gpus: Gpus) -> None:
    before = described(Work(id="kept"), Work(id="other"), Collect(), Collect(id="c"), frames=None)
    order = FrameOrder()
    pipeline = Pipeline.from_description(before, gpu=gpus[:2])
    pipeline.probe("kept", order)
    pipeline.start()
    wait_until(lambda: all(len(one.streams) == 2 for one in workers()))
    sinks, steps = workers(Collector), workers()

    after = described(Work(id="kept"), Work(id="other", option=1), Collect(option=1), Collect(id="c"), frames=None)
    pipeline.reload(after, prove=0).wait(LIMIT_SECONDS)
    wait_until(lambda: sum(len(one.streams) for one in workers()[4:]) == 4)
    report = ended(pipeline)

    kept, other = [one for one in steps if one.site.element_id == "kept"], workers()[2:4]
    order.check(report)
    assert [one.closed for one in (*kept, *other)] == [1] * 4
    assert [one.site.element_id for one in workers()[4:]] == ["other", "other"]
    assert [(sorted(one.ended), one.drained, one.closed) for one in sinks] == [(["s0", "s1", "s2", "s3"], 1, 1)] * 2
    (new,) = workers(Collector)[2:]
    assert {one.frames for one in report.elements} == {kept[0].frames + kept[1].frames}
    assert report.totals["collect-1"]["frames"] == new.frames
    assert report.totals["collect-1 before reload 1"]["frames"] == sinks[0].frames


def test_what_can_not_be_built_for_one_gpu_changes_nothing_on_any(gpus: Gpus) -> None:
    pipeline = Pipeline.from_description(described(Work(), frames=None), gpu=gpus[:2])
    pipeline.start()
    asked: list[object] = []
    gated = Gated(gate=lambda: asked.append(None), error=lambda: OSError("no") if len(asked) == 2 else OSError("first"))

    with pytest.raises(OperatorError, match="element 'gated-1' cannot be built"):
        pipeline.reload(described(Work(option=2), Collect(), gated, frames=None), prove=0).wait(LIMIT_SECONDS)

    assert [one.closed for one in Worker.built] == [0, 0, 1, 1, 1]
    assert not Worker.built[0].drained
    ended(pipeline)


def test_a_failure_that_is_not_the_gpus_ends_the_run_in_all_lanes(gpus: Gpus) -> None:
    pipeline = Pipeline.from_description(described(Find(fail_at=5), Work(), Collect(), frames=None), gpu=gpus)

    with pytest.raises(OperatorError, match="element 'find-1' failed"):
        pipeline.run()

    assert pipeline.report is not None
    assert_accounted(pipeline.report, stopped=True)
    assert [one.closed for one in Worker.built] == [1] * 4


def test_a_gpu_can_not_be_given_twice(gpus: Gpus) -> None:
    with pytest.raises(ConfigurationError, match="cuda:0 is given twice"):
        Pipeline.from_description(described(Work()), gpu=[gpus[0], gpus[0]]).run()
