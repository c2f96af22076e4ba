"""Functions of the user's own that are not there, fail, or return nonsense."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.wrong_input.running import (
    SECRET,
    Mistake,
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
"""
FILES = {
    "mine.py": MODULE,
    "broken.py": "def fail(:\n",
    "leaving.py": "raise SystemExit(0)\n",
    "failing.py": f"raise RuntimeError('rtsp://u:{SECRET}@h/a')\n",
}
BEFORE: dict[str, tuple[str, tuple[str, ...]]] = {
    "no such module": ("no_such_module:f", ("'no_such_module' can not be imported", "write file.py:function")),
    "no such file": ("none.py:f", ("none.py' can not be imported: there is no such file",)),
    "no such function": ("mine.py:fial", ("mine.py' holds no function 'fial'",)),
    "no function": ("mine.py:number", ("mine.py' holds something else than a function under 'number'",)),
    "no name": ("mine.py", ("'mine.py' names no function: write package.module:function",)),
    "hardly a name": ("os", ("'os' names no function: write package.module:function",)),
    "no Python": ("broken.py:fail", ("broken.py' can not be imported: SyntaxError",)),
    "a module that leaves": ("leaving.py:fail", ("leaving.py' can not be imported: SystemExit",)),
    "a module that fails": ("failing.py:fail", ("failing.py' can not be imported: RuntimeError: rtsp://***@h/a",)),
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("step", ["apply", "callback"])
@pytest.mark.parametrize("name", ["no such module", "no such function", "hardly a name"])
def test_both_steps_that_call_functions_tell_the_same(name: str, step: str, folder: Path) -> None:
    reference, told = BEFORE[name]
    mistake = Mistake(steps(f"{{{step}: '{reference}'}}"), ("street.yaml:2:", f"pipeline.0.{step}.function: ", *told))

    assert_told_once(call_apart(mistake, folder), mistake, folder)


@pytest.mark.parametrize("name", BEFORE)
def test_a_function_that_can_not_be_called_is_told_before_anything_runs(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reference, told = BEFORE[name]
    mistake = Mistake(steps(f"{{apply: '{reference}'}}"), ("street.yaml:2:20: pipeline.0.apply.function: ", *told))

    outcome = call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, folder)


@pytest.mark.parametrize("name", WHILE)
def test_a_function_that_fails_is_told_with_element_stream_and_frame(name: str, folder: Path) -> None:
    function, frame, told = WHILE[name]
    text = f"{{apply: 'mine.py:{function}'}}, {{jsonl: 'out/{{stream}}.jsonl'}}"
    mistake = Mistake(steps(text), ("error: element 'apply-1' failed on stream 'cam', ", *told), 1)

    assert_told_once(call_apart(mistake, folder), mistake, folder)

    written = folder / "out" / "cam.jsonl"
    assert (lines_of(written) if written.exists() else []) == list(range(frame))
