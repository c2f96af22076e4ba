"""Sources that take turns: one is read at a time, and nothing waits for the others."""

from __future__ import annotations

from sightline import Pipeline
from sightline.graph import StreamState
from sightline.media import Batch
from sightline.server.status import not_ready
from sightline.testing import assert_accounted
from tests.fakes import FakeCudaDriver
from tests.unit.runtime.elements import Find, Synthetic, Tally
from tests.unit.runtime.several_gpus import Collect, Gpus, Work, described
from tests.unit.runtime.test_lost_gpus import check_seen_once, started
from tests.waiting import wait_until


class InTurn(Synthetic):
    @property
    def takes_turns(self) -> bool:
        return True


def states(pipeline: Pipeline) -> dict[str, StreamState]:
    return {status.name: status.state for status in pipeline.status()}


def running(*names: str) -> Pipeline:
    """A pipeline of endless streams that take turns."""
    sources = {name: InTurn(frames=None, realtime=True) for name in names}
    pipeline = Pipeline(sources=sources, steps=[Tally()], keep_running=True)
    pipeline.start()
    wait_until(lambda: states(pipeline)[names[0]] is StreamState.LIVE)
    return pipeline


def stop(pipeline: Pipeline) -> None:
    pipeline.stop()
    assert_accounted(pipeline.wait(), stopped=True)


def test_the_next_stream_is_read_when_all_frames_of_the_one_before_have_passed() -> None:
    pipeline = Pipeline(sources={name: InTurn(frames=30) for name in "cab"}, steps=[Find(), Tally(id="tally")])
    order: list[str] = []

    def note(batch: Batch) -> None:
        order.extend(frame.stream.name for frame in batch.frames)

    pipeline.probe("tally", note)
    assert_accounted(pipeline.run())

    assert order == ["c"] * 30 + ["a"] * 30 + ["b"] * 30


def test_batches_do_not_wait_for_streams_whose_turn_has_not_come() -> None:
    sources = {name: InTurn(frames=30) for name in "ab"}
    pipeline = Pipeline(sources=sources, steps=[Tally()], batch={"size": 16, "timeout": "24h"})

    assert_accounted(pipeline.run())


def test_a_stream_that_waits_does_not_make_the_pipeline_unready() -> None:
    pipeline = running("a", "b")

    assert states(pipeline)["b"] is StreamState.WAITING
    assert not_ready(pipeline.view()) == {}
    stop(pipeline)


def test_the_turn_passes_on_when_a_stream_is_removed() -> None:
    pipeline = running("a", "b", "c")

    pipeline.remove_source("b")
    pipeline.remove_source("a")

    wait_until(lambda: states(pipeline) == {"c": StreamState.LIVE})
    stop(pipeline)


def test_a_stream_that_is_added_waits_for_its_turn_and_another_does_not() -> None:
    pipeline = running("a")

    pipeline.add_source("later", InTurn(frames=5))
    pipeline.add_source("now", Synthetic(frames=5))

    wait_until(lambda: states(pipeline)["now"] is StreamState.ENDED)
    assert states(pipeline)["later"] is StreamState.WAITING
    pipeline.remove_source("a")
    wait_until(lambda: states(pipeline).get("later") is StreamState.ENDED)
    stop(pipeline)


def test_a_run_that_is_stopped_ends_with_streams_that_were_not_read() -> None:
    pipeline = running("a", "b")

    pipeline.stop()
    report = pipeline.wait()

    assert {one.stream.name: one.state for one in report.streams} == {
        "a": StreamState.ENDED,
        "b": StreamState.WAITING,
    }


def test_streams_that_wait_move_to_another_gpu_with_the_others(gpus: Gpus, drivers: list[FakeCudaDriver]) -> None:
    description = described(Find(), Work(), Collect(), frames=1)
    sources = {name: InTurn(frames=100) for name in "abcd"}
    pipeline = Pipeline.from_description(description.model_copy(update={"sources": sources}), gpu=gpus[:2])
    started(pipeline, drivers, breaking={0: 50})

    check_seen_once(pipeline.wait(), frames=100)
