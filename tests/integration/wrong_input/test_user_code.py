"""User functions that are missing, fail, or return nonsense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.figures import Record
from tests.integration.wrong_input.running import (
    CONFIG,
    SECRET,
    Mistake,
    Outcome,
    assert_told_once,
    call_apart,
    call_here,
    lines_of,
    steps,
)

MODULE = f"""
import dataclasses
from sightline.media import Batch

number = 5

def fail(batch):
    if any(frame.index == 2 for frame in batch.frames):
        raise ValueError("rtsp://u:{SECRET}@h/a is not to my liking")

def leave(batch):
    raise SystemExit(0)

def interrupt(batch):
    raise KeyboardInterrupt

def text(batch):
    return "done"

def fewer(batch):
    return Batch(frames=())

def spoil(batch):
    return dataclasses.replace(batch, frames=("a", "b"))

def two(batch, more):
    return batch

def tenth(batch):
    for frame in batch.frames:
        if frame.stream.name == "ill" and frame.index % 10 == 0:
            raise ValueError(frame.index)

def every(batch):
    if any(frame.stream.name == "ill" for frame in batch.frames):
        raise ValueError("all are ill")
"""
FILES = {
    "mine.py": MODULE,
    "broken.py": "def fail(:\n",
    "leaving.py": "raise SystemExit(0)\n",
    "failing.py": f"raise RuntimeError('rtsp://u:{SECRET}@h/a')\n",
}
BEFORE: dict[str, tuple[str, tuple[str, ...]]] = {
    "no such module": ("no_such_module:f", ("'no_such_module' cannot be imported", "write file.py:function")),
    "no such file": ("none.py:f", ("none.py' cannot be imported: there is no such file",)),
    "no such function": ("mine.py:fial", ("mine.py' holds no function 'fial'",)),
    "no function": ("mine.py:number", ("mine.py' holds something else than a function under 'number'",)),
    "no name": ("mine.py", ("'mine.py' is no function reference: write package.module:function",)),
    "hardly a name": ("os", ("'os' is no function reference: write package.module:function",)),
    "no Python": ("broken.py:fail", ("broken.py' cannot be imported: SyntaxError",)),
    "a module that leaves": ("leaving.py:fail", ("leaving.py' cannot be imported: SystemExit",)),
    "a module that fails": ("failing.py:fail", ("failing.py' cannot be imported: RuntimeError: rtsp://***@h/a",)),
}
WHILE: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "raises": ("fail", 2, ("frame 2: ValueError: rtsp://***@h/a is not to my liking",)),
    "leaves": ("leave", 0, ("frame 0: SystemExit: 0",)),
    "interrupts": ("interrupt", 0, ("frame 0: KeyboardInterrupt",)),
    "returns a text": ("text", 0, ("frame 0: ", "mine.py:text returned str, not a Batch or None")),
    "returns fewer frames": ("fewer", 0, ("frame 0: ", "mine.py:fewer returned other frames")),
    "spoils frames": ("spoil", 0, ("frame 0: ",)),
    "takes other arguments": ("two", 0, ("frame 0: TypeError: ", "two() missing 1 required")),
}


FRAMES = 200
TOO_MANY_FAILURES = 50
TWO = "".join(f"  {name}: {{pattern: bars, size: [64, 48], frames: {FRAMES}}}\n" for name in ("ill", "well"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("step", ["apply", "callback"])
@pytest.mark.parametrize("name", ["no such module", "no such function", "hardly a name"])
def test_both_steps_that_call_functions_tell_the_same(
    name: str, step: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reference, told = BEFORE[name]
    mistake = Mistake(steps(f"{{{step}: '{reference}'}}"), ("street.yaml:2:", f"pipeline.0.{step}.function: ", *told))

    assert_told_once(call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd), mistake, folder)


@pytest.mark.parametrize("name", BEFORE)
def test_a_function_that_can_not_be_called_is_told_before_anything_runs(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reference, told = BEFORE[name]
    mistake = Mistake(steps(f"{{apply: '{reference}'}}"), ("street.yaml:2:20: pipeline.0.apply.function: ", *told))

    outcome = call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, folder)


@pytest.mark.parametrize("name", WHILE)
def test_a_function_that_fails_is_told_with_element_stream_and_frame(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    function, frame, told = WHILE[name]
    text = f"{{apply: 'mine.py:{function}'}}, {{jsonl: 'out/{{stream}}.jsonl'}}"
    mistake = Mistake(
        steps(text) + "batch: {size: 1}\n", ("error: element 'apply-1' failed on stream 'cam', ", *told), 1
    )

    assert_told_once(call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd), mistake, folder)

    written = folder / "out" / "cam.jsonl"
    assert (lines_of(written) if written.exists() else []) == list(range(frame))


def skipping(function: str, folder: Path) -> tuple[Outcome, Any]:
    """Run two streams through a function that fails on one of them and may be skipped; how it ended, and the report."""
    text = f"{{apply: {{function: 'mine.py:{function}', on_error: skip}}}}, {{jsonl: 'out/{{stream}}.jsonl'}}"
    arguments = ("run", "-q", CONFIG, "--report", "report.json")
    outcome = call_apart(Mistake(steps(text, sources=f"sources:\n{TWO}"), (), arguments=arguments), folder)
    return outcome, json.loads((folder / "report.json").read_text())


@pytest.mark.row(id="D1")
def test_frames_on_which_a_function_fails_may_go_on_without_it_and_are_counted(folder: Path, figure: Record) -> None:
    outcome, report = skipping("tenth", folder)

    failures = report["elements"]["apply-1"]["failures"]
    missed = FRAMES // 10 - failures["ValueError"]
    figure("on every tenth frame: failures that are not counted by type", missed, limit=0, unit="frames")
    assert (outcome.code, failures) == (0, {"ValueError": FRAMES // 10})
    assert [report["streams"][name]["processed"] for name in ("ill", "well")] == [FRAMES, FRAMES]
    assert lines_of(folder / "out" / "ill.jsonl") == list(range(FRAMES))


@pytest.mark.row(id="D1")
def test_a_stream_on_which_a_function_only_fails_is_given_up_and_the_other_is_whole(
    folder: Path, figure: Record
) -> None:
    outcome, report = skipping("every", folder)

    failures, well = report["elements"]["apply-1"]["failures"], report["streams"]["well"]
    figure(
        "on all, which ends that stream: frames that another loses", FRAMES - well["processed"], limit=0, unit="frames"
    )
    assert outcome.code == 1
    assert TOO_MANY_FAILURES <= failures["ValueError"] < FRAMES
    assert report["streams"]["ill"]["state"] == "failed"
    assert lines_of(folder / "out" / "well.jsonl") == list(range(FRAMES))
