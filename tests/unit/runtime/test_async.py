"""`async for` over a pipeline."""

from __future__ import annotations

import asyncio

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, OperatorError
from sightline.testing import assert_accounted
from tests.unit.runtime.elements import Find, Held, Hold, Synthetic, Tallied, Tally
from tests.unit.runtime.test_runner import fresh

__all__ = ["fresh"]


async def indices(pipeline: Pipeline) -> list[int]:
    return [frame.index async for frame in pipeline]


def test_every_frame_comes_in_order() -> None:
    assert asyncio.run(indices(Pipeline(sources={"cam": Synthetic()}, steps=[Find()]))) == list(range(20))


def test_a_failure_is_raised_in_the_loop() -> None:
    with pytest.raises(OperatorError, match="'find-1' failed"):
        asyncio.run(indices(Pipeline(sources={"cam": Synthetic()}, steps=[Find(fail_at=7)])))


def test_a_wrong_description_is_raised_in_the_loop() -> None:
    with pytest.raises(ConfigurationError, match="no stream matches"):
        asyncio.run(indices(Pipeline(sources={"cam": Synthetic()}, steps=[Find(streams=("yard",))])))


def test_cancelling_stops_the_pipeline_and_waits_for_its_end() -> None:
    pipeline = Pipeline(sources={"cam": Synthetic(frames=None)}, steps=[Tally()])

    async def consume_and_cancel() -> None:
        task = asyncio.ensure_future(indices(pipeline))
        while not pipeline.status() or pipeline.status()[0].frames < 10:
            await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(consume_and_cancel())

    assert Tallied.built["tally-1"].closed == 1
    assert pipeline.report is not None
    assert_accounted(pipeline.report, stopped=True)


def test_cancelling_while_no_frame_comes_stops_the_pipeline() -> None:
    Held.gate.clear()
    pipeline = Pipeline(sources={"cam": Synthetic(frames=None)}, steps=[Hold(), Tally()])

    async def consume_and_cancel() -> None:
        task = asyncio.ensure_future(indices(pipeline))
        while not pipeline.status() or pipeline.status()[0].frames < 10:
            await asyncio.sleep(0)
        task.cancel()
        Held.gate.set()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(consume_and_cancel())

    assert Tallied.built["tally-1"].closed == 1


def test_leaving_the_loop_stops_the_pipeline() -> None:
    pipeline = Pipeline(sources={"cam": Synthetic(frames=None)}, steps=[Tally()])

    async def leave() -> None:
        async for frame in pipeline:
            if frame.index == 10:
                break

    asyncio.run(leave())

    assert Tallied.built["tally-1"].closed == 1


def test_pipelines_that_stand_still_hold_up_neither_the_event_loop_nor_other_pipelines() -> None:
    Held.gate.clear()
    stuck = [Pipeline(sources={"cam": Synthetic(frames=100)}, steps=[Hold()]) for _ in range(40)]

    async def run_all() -> tuple[list[int], list[list[int]]]:
        waiting = [asyncio.ensure_future(indices(pipeline)) for pipeline in stuck]
        while not all(pipeline.status() and pipeline.status()[0].frames > 10 for pipeline in stuck):
            await asyncio.sleep(0.01)
        quick = await indices(Pipeline(sources={"cam": Synthetic()}))
        assert not any(task.done() for task in waiting)
        Held.gate.set()
        return quick, await asyncio.gather(*waiting)

    quick, slow = asyncio.run(run_all())

    assert quick == list(range(20))
    assert all(numbers == list(range(100)) for numbers in slow)
