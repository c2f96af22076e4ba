"""Code that a pipeline waits for cannot wait for the pipeline: it is refused at once, instead of hanging."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, OperatorError, StreamError
from sightline.graph import Message, PipelineDescription
from sightline.media import Batch

ENDLESS = {"pattern": "counter", "frames": None, "size": [32, 32]}
Call = Callable[[Pipeline], object]
WAITS: dict[str, Call] = {
    "wait": lambda pipeline: pipeline.wait(),
    "run": lambda pipeline: pipeline.run(),
    "end of a with block": lambda pipeline: pipeline.__exit__(None, None, None),
    "inspect": lambda pipeline: pipeline.inspect("b"),
    "remove_source": lambda pipeline: pipeline.remove_source("b").wait(),
    "pause": lambda pipeline: pipeline.pause("b").wait(),
    "change": lambda pipeline: pipeline.change(lambda present: present.model_copy(update={"steps": ()})).wait(),
}


def endless() -> Pipeline:
    return Pipeline(sources={"a": ENDLESS, "b": ENDLESS}, steps=["draw"])


def refusal(call: Call, pipeline: Pipeline) -> str:
    with pytest.raises(ConfigurationError) as caught:
        call(pipeline)
    pipeline.stop()
    return str(caught.value)


@pytest.mark.parametrize("name", WAITS)
def test_a_listener_cannot_wait_for_its_pipeline(name: str) -> None:
    pipeline = endless()
    told: list[str] = []

    def listen(batch: Batch, arrivals_ns: object) -> None:
        del batch, arrivals_ns
        if not told:
            told.append(refusal(WAITS[name], pipeline))

    pipeline.on_batches(listen)
    pipeline.run()

    assert len(told) == 1
    assert "would wait for itself" in told[0]
    assert "stop() does not wait and may be called here" in told[0]


def test_a_probe_that_waits_ends_the_run_with_the_reason() -> None:
    pipeline = endless()

    def probe(batch: Batch) -> None:
        del batch
        pipeline.wait()

    pipeline.probe("draw-1", probe)

    with pytest.raises(OperatorError, match=r"a probe of it raised wait\(\) would wait for itself"):
        pipeline.run()


def test_a_listener_is_refused_in_the_thread_that_waits_as_well() -> None:
    pipeline, told = Pipeline(sources={"a": {**ENDLESS, "frames": 1}}), {}

    def listen(message: Message) -> None:
        told[message.kind] = refusal(WAITS["wait"], pipeline)

    pipeline.on_message(listen)
    pipeline.run()

    assert {"started", "stopped"} <= told.keys()


def test_an_edit_cannot_wait_for_another_change() -> None:
    pipeline = endless()

    def edit(present: PipelineDescription) -> PipelineDescription:
        pipeline.change(lambda _: present).wait()
        return present

    with pipeline:
        change = pipeline.change(edit)
        with pytest.raises(ConfigurationError, match="would wait for itself"):
            change.wait()


def test_a_stream_cannot_be_paused_by_what_the_start_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, told = endless(), []
    monkeypatch.setattr("sightline.runtime.runner.too_little_memory", lambda *_: "not much memory")

    def listen(message: Message) -> None:
        if message.text == "not much memory":
            told.append(refusal(lambda one: one.pause("a"), pipeline))

    pipeline.on_message(listen)
    pipeline.run()

    assert "called while the pipeline starts" in told[0]


@pytest.mark.parametrize("name", ["wait", "run", "remove_source"])
def test_a_loop_over_the_frames_cannot_wait_for_its_pipeline(name: str) -> None:
    pipeline = endless()
    for _ in pipeline:
        assert "Leave the loop" in refusal(WAITS[name], pipeline)
        break

    assert pipeline.wait().frames > 0


def test_a_loop_in_an_event_loop_cannot_wait_for_its_pipeline() -> None:
    async def loop(pipeline: Pipeline) -> str:
        async for _ in pipeline:
            return refusal(WAITS["wait"], pipeline)
        return ""

    assert "Leave the loop" in asyncio.run(loop(endless()))


def test_a_listener_may_stop_its_pipeline_and_wait_in_a_thread_of_its_own() -> None:
    pipeline, reports = endless(), []
    waiting = Thread(target=lambda: reports.append(pipeline.wait()))

    def listen(batch: Batch, arrivals_ns: object) -> None:
        del batch, arrivals_ns
        if not waiting.ident:
            waiting.start()
            pipeline.stop()

    pipeline.on_batches(listen)
    report = pipeline.run()
    waiting.join()

    assert reports == [report]


def test_a_listener_may_wait_for_another_pipeline() -> None:
    first, reports = Pipeline(sources={"a": {**ENDLESS, "frames": 1}}), []

    def listen(batch: Batch, arrivals_ns: Any) -> None:
        del batch, arrivals_ns
        reports.append(Pipeline(sources={"b": {**ENDLESS, "frames": 2}}).run())

    first.on_batches(listen)
    first.run()

    assert [report.frames for report in reports] == [2]


def test_a_loop_over_a_pipeline_that_runs_is_told_what_to_write() -> None:
    pipeline = endless()
    with pipeline, pytest.raises(ConfigurationError, match="leave out the `with` block"):
        next(iter(pipeline))


def test_an_error_names_its_stream_once(tmp_path: Path) -> None:
    damaged = tmp_path / "a.mp4"
    damaged.write_bytes(b"no video" * 100)

    with pytest.raises(StreamError) as caught:
        Pipeline(sources={"a": str(damaged)}).run()

    assert str(caught.value).count("stream 'a'") == 1
