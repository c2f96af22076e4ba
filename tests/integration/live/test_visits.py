"""Cameras that are added and removed all the time: quickly, at no cost of one that stays, and nothing is left.

That files and threads are as many as before is waited for in many_visits.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sightline_plugins.commands.soak.samples import slope
from tests.integration.camera.clips import write_noise
from tests.integration.figures import DROPS, LONG_SECONDS, Record, form

VISITS = form(64, long=30 * 64)
PACE = form((), long=("64",))
"""The long form has 64 a minute; the short one as many as the machine can."""


@pytest.mark.row(id="A14", long=True)
def test_cameras_that_come_and_go_are_quick_and_leave_nothing_behind(
    repository: Path, tmp_path: Path, figure: Record
) -> None:
    clip = write_noise(tmp_path / "clip.mp4")
    command = [sys.executable, "-m", "tests.integration.live.many_visits", str(clip), str(VISITS), *PACE]

    done = subprocess.run(
        command,
        cwd=repository,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        check=True,
        timeout=form(300, long=LONG_SECONDS),
    )

    _, *others, result = [json.loads(line) for line in done.stdout.splitlines()]
    memory = [held["mib"] for held in others]
    growth = slope(range(len(memory)), memory) * len(memory)
    figure(f"{VISITS:,} of each: 99 of 100 take", result["p99"], limit=1.0, unit="s")
    figure(f"{VISITS:,} of each: memory, growth by slope", max(growth, 0.0), limit=5.0, unit="MiB")
    figure(f"{VISITS:,} of each: frames that a camera that stays loses", result["dropped"], limit=0, unit=DROPS)
    assert result["changes"] == 2 * VISITS
    assert growth <= 5
