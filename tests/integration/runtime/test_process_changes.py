"""Steps that change while a pipeline runs in several processes: in all workers, or in none."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.config import parts_from
from sightline.errors import ChangeReverted, ConfigurationError, OperatorError
from sightline.graph import Message, MessageKind, PipelineDescription
from tests.integration.runtime.process_steps import Fault, Unbuildable
from tests.integration.runtime.test_processes import CLIPS, COUNTED, LINE, frames, shares
from tests.waiting import wait_until

ENDLESS = {**COUNTED, "frames": None, "realtime": True}
TRACKED: list[Any] = [{"replay": {"path": f"{CLIPS}/gate.mot.txt", "format": "mot", "label": "car"}}, "track"]
BEFORE: list[Any] = [*TRACKED, LINE, {"jsonl": "before.jsonl"}]
MOVED = {"lines": {"a": {"from": [0.1, 0.5], "to": [0.9, 0.5]}}}


def endless(folder: Path, *, processes: int = 2) -> tuple[Pipeline, list[Message]]:
    """A pipeline of two cameras that never end, and its messages."""
    pipeline = Pipeline(sources={"a": ENDLESS, "b": ENDLESS}, steps=BEFORE, processes=processes, outputs=folder)
    messages: list[Message] = []
    pipeline.on_message(messages.append)
    return pipeline, messages


def steps(*wanted: Any) -> Callable[[PipelineDescription], PipelineDescription]:
    """An edit after which there are these steps behind the tracker."""
    made = parts_from({}, [*TRACKED, *wanted])[1]
    return lambda description: description.model_copy(update={"steps": made})


def come(path: Path, *, more: int = 3) -> Callable[[], bool]:
    """Whether so many more frames of both streams are in a file from now on."""
    had = {name: len(numbers) for name, numbers in frames(path).items()} if path.exists() else {}
    return lambda: (
        path.exists() and all(len(frames(path).get(name, ())) >= had.get(name, 0) + more for name in ("a", "b"))
    )


def change(folder: Path, *, processes: int) -> list[str]:
    """Change a line, then exchange and add sinks; return what was reported."""
    pipeline, messages = endless(folder, processes=processes)
    with pipeline:
        wait_until(come(folder / "before.jsonl"))
        pipeline.change(steps(MOVED, {"jsonl": "before.jsonl"}), prove=0).wait(300)
        wait_until(come(folder / "before.jsonl"))
        pipeline.change(steps(MOVED, {"jsonl": "after.jsonl"}, {"csv": "{stream}.csv"}), prove=0).wait(300)
        wait_until(come(folder / "after.jsonl"))
    return [one.text for one in messages if one.kind is MessageKind.RELOADED]


def test_steps_change_as_in_one_process_and_no_frame_is_lost(tmp_path: Path) -> None:
    told = [change(tmp_path / str(count), processes=count) for count in (1, 2)]

    assert told[0] == [
        "reloaded: changed lines-1; kept replay-1, track-1, jsonl-1",
        "reloaded: rebuilt jsonl-1, csv-1; kept replay-1, track-1, lines-1",
    ]
    assert told[1] == told[0]
    before, after = (frames(tmp_path / "2" / name) for name in ("before.jsonl", "after.jsonl"))
    for stream in ("a", "b"):
        numbers = before[stream] + after[stream]
        assert numbers == list(range(len(numbers)))
        assert (tmp_path / "2" / f"{stream}.csv").exists()


def test_a_worker_that_is_started_after_a_change_has_the_new_steps(tmp_path: Path) -> None:
    pipeline, _ = endless(tmp_path)
    with pipeline:
        wait_until(come(tmp_path / "before.jsonl"))
        pipeline.change(steps(MOVED, {"jsonl": "after.jsonl"}), prove=0).wait(300)
        share = shares(pipeline)[0]
        assert share.pid is not None
        os.kill(share.pid, signal.SIGKILL)
        wait_until(lambda: share.restarts == 1)
        wait_until(come(tmp_path / "after.jsonl", more=5))

    numbers = frames(tmp_path / "before.jsonl")["a"] + frames(tmp_path / "after.jsonl")["a"]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("kind", ["raise", "crash"])
def test_a_change_that_fails_in_one_worker_is_reverted_in_all(tmp_path: Path, kind: str) -> None:
    fault = Fault.model_validate({"kind": kind, "stream": "a", "at": 60, "marker": str(tmp_path / "marker")})
    pipeline, messages = endless(tmp_path)
    with pipeline:
        wait_until(come(tmp_path / "before.jsonl"))
        with pytest.raises(ChangeReverted):
            pipeline.change(steps(MOVED, fault, {"jsonl": "after.jsonl"}), prove="60s").wait(300)
        wait_until(come(tmp_path / "before-2.jsonl"))

    assert [one.kind for one in messages].count(MessageKind.REVERTED) == 1
    assert [step for step, _ in pipeline.description.elements()] == ["replay-1", "track-1", "lines-1", "jsonl-1"]


def test_a_step_that_one_worker_cannot_build_changes_nothing(tmp_path: Path) -> None:
    pipeline, _ = endless(tmp_path)
    with pipeline:
        wait_until(come(tmp_path / "before.jsonl"))
        with pytest.raises(OperatorError, match="there is nothing to build it from"):
            pipeline.change(steps(MOVED, Unbuildable(stream="b"), {"jsonl": "after.jsonl"}), prove=0).wait(300)
        with pytest.raises(ConfigurationError, match="in several processes, because"):
            pipeline.change(steps(MOVED, {"harvest": "kept"}), prove=0).wait(300)
        wait_until(come(tmp_path / "before.jsonl"))

    found = frames(tmp_path / "before.jsonl")
    assert all(numbers == list(range(len(numbers))) for numbers in found.values())
    assert not (tmp_path / "after.jsonl").exists()
    assert [step for step, _ in pipeline.description.elements()] == ["replay-1", "track-1", "lines-1", "jsonl-1"]


def test_all_streams_can_be_replaced(tmp_path: Path) -> None:
    pipeline, _ = endless(tmp_path)
    others, _ = parts_from({"c": ENDLESS, "d": ENDLESS}, [])
    with pipeline:
        wait_until(come(tmp_path / "before.jsonl"))
        pipeline.change(lambda description: description.model_copy(update={"sources": others}), prove="1s").wait(300)
        wait_until(lambda: all(len(frames(tmp_path / "before.jsonl").get(name, ())) > 3 for name in ("c", "d")))
        present = [one.name for one in pipeline.status()]

    assert present == ["c", "d"]
