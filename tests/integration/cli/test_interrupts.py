"""Ctrl-C and SIGTERM on a pipeline that would run for ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from tests.integration.cli.conftest import command
from tests.integration.figures import Record

from sightline import Pipeline
from sightline.cli.entry import EarlySignals
from sightline.cli.interrupts import interrupts


@pytest.fixture
def running(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A pipeline that has begun to write."""
    with subprocess.Popen(
        command("run", "endless.yaml"), cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        written = folder / "out.jsonl"
        while process.poll() is None and not (written.exists() and written.stat().st_size):
            Event().wait(0.01)
        yield process
        process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_first_signal_closes_the_outputs(
    number: signal.Signals, code: int, running: subprocess.Popen[str], folder: Path
) -> None:
    running.send_signal(number)
    stdout, stderr = running.communicate(timeout=300)

    assert (running.returncode, stdout) == (code, "")
    assert "stopping: finishing what is under way and closing the outputs" in stderr
    assert "Traceback" not in stderr
    frames = [json.loads(line)["frame"] for line in (folder / "out.jsonl").read_text().splitlines()]
    assert frames
    assert frames == list(range(len(frames)))


@pytest.mark.row(id="C6")
def test_two_signals_in_a_row_end_it_too(running: subprocess.Popen[str], figure: Record) -> None:
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    running.communicate(timeout=300)
    seconds = time.monotonic() - begun

    figure("all closed after a second signal", seconds, limit=0.5, unit="s")
    assert running.returncode in (130, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [
        (signal.SIGTERM, 0, "stopped by SIGTERM before anything ran\n"),
        (signal.SIGINT, 130, ""),
        (signal.SIGHUP, 2, "there is no such file\n"),
    ],
)
def test_a_signal_in_the_first_moment_is_no_crash(number: signal.Signals, code: int, told: str, tmp_path: Path) -> None:
    """The program says what it has imported, and is signalled in the middle of that."""
    arguments = [sys.executable, "-v", "-m", "sightline.cli.entry", "run", "endless.yaml"]
    with subprocess.Popen(arguments, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "import 'click'" in line:
                break
        process.send_signal(number)
        rest = [line for line in process.stderr if not line.startswith(("import ", "#"))]

    assert process.returncode == code
    assert told in "".join(rest)
    assert "Traceback" not in "".join(rest)


def test_a_reload_that_is_asked_for_at_once_is_made_when_the_pipeline_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    early = EarlySignals()
    monkeypatch.setattr("sightline.cli.interrupts.EARLY", early)
    before = {one: signal.signal(one, signal.SIG_DFL) for one in (signal.SIGHUP, signal.SIGTERM)}
    asked: list[str] = []
    try:
        early.handle("run")
        os.kill(os.getpid(), signal.SIGHUP)
        with interrupts(
            Pipeline(sources={}, keep_running=True), say=asked.append, reload=lambda: asked.append("reload")
        ):
            pass
        os.kill(os.getpid(), signal.SIGTERM)  # the end is under way
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)

    assert asked == ["reload"]
