"""Ctrl-C and SIGTERM on a pipeline that would run for ever."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from tests.integration.cli.conftest import command
from tests.integration.figures import Record


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
