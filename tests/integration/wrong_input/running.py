"""`sightline` called as people call it, in this process or in one of its own, and what must hold of every mistake."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import av
import pytest

from sightline.cli.main import execute

SECRET = "correct-horse-7"
CONFIG = "street.yaml"
QUIET_RUN = ("run", "-q", CONFIG)
CAMERA = "sources: {cam: {pattern: bars, size: [64, 48], frames: 5}}\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended and what it said."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Mistake:
    """A configuration and how it is called; `told` are parts of the one message, in any order."""

    config: str | bytes
    told: tuple[str, ...]
    code: int = 2
    arguments: tuple[str, ...] = QUIET_RUN
    environment: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Put the configuration into the folder."""
        content = self.config if isinstance(self.config, bytes) else self.config.encode()
        (folder / CONFIG).write_bytes(content)


def steps(text: str, *, sources: str = CAMERA) -> str:
    """A configuration with these steps, written in flow style in its second line."""
    return f"{sources}pipeline: [{text}]\n"


def call_here(
    mistake: Mistake, folder: Path, *, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Outcome:
    """Call the command in this process; what it and the libraries print is read from the file descriptors."""
    mistake.write(folder)
    monkeypatch.chdir(folder)
    for name, value in mistake.environment.items():
        monkeypatch.setenv(name, value)
    capfd.readouterr()
    code = execute(mistake.arguments)
    told = capfd.readouterr()
    return Outcome(code, told.out, told.err)


def call_apart(
    mistake: Mistake, folder: Path, *, prepare: Callable[[], None] | None = None, program: str | None = None
) -> Outcome:
    """Call the command in a process of its own; `prepare` runs in it first, `program` is Python that calls it."""
    mistake.write(folder)
    start = ["-m", "sightline.cli.main"] if program is None else ["-c", program]
    done = subprocess.run(
        [sys.executable, *start, *mistake.arguments],
        cwd=folder,
        env={**os.environ, **mistake.environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
        preexec_fn=prepare,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_told_once(outcome: Outcome, mistake: Mistake, folder: Path) -> None:
    """One clear message on standard error, the right exit code, no secret, no torn output."""
    assert "Traceback" not in outcome.stderr
    assert "internal error" not in outcome.stderr
    assert SECRET not in outcome.stderr
    assert outcome.stdout == ""
    lines = outcome.stderr.splitlines()
    if lines and lines[0].startswith("Usage: "):
        lines = [line for line in lines[2:] if line]
    assert len(lines) == 1, outcome.stderr
    for part in mistake.told:
        assert part in lines[0]
    assert outcome.code == mistake.code
    assert_readable(folder)


def assert_readable(folder: Path) -> None:
    """Every output below the folder's `out` can be read to its end."""
    for path in sorted((folder / "out").rglob("*")):
        if path.suffix == ".jsonl":
            assert lines_of(path) is not None
        elif path.suffix == ".csv":
            rows = list(csv.reader(path.read_text().splitlines()))
            assert len({len(row) for row in rows}) <= 1, path
        elif path.suffix in (".mp4", ".mkv"):
            assert images_in(path) > 0, path


def lines_of(path: Path) -> list[int]:
    """The numbers of the frames in a file of JSON lines, all of them whole."""
    content = path.read_text()
    assert not content or content.endswith("\n")
    return [json.loads(line)["frame"] for line in content.splitlines()]


def images_in(path: Path) -> int:
    """How many images of a video decode."""
    with av.open(path) as container:
        return sum(1 for _ in container.decode(video=0))
