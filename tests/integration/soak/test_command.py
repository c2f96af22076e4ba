"""`sightline soak` as people call it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.camera.clips import write_noise
from tests.integration.figures import Record, form

SECONDS = 4
LEAKING_SECONDS = (SECONDS, 20, 100)
"""Beside other work a step gets few frames in so short a time, and leaks little."""
CAMERAS = ("gate", "yard", "door", "roof")
FAULTY_SECONDS = form(12.0, long=300.0)
FAULT_SECONDS = form(1.0, long=5.0)
"""From one fault to the next."""
BUSY = "latency p95 grew"
"""What other work on the machine may do in so short a time."""
PIPELINE = """
sources: {cam: {pattern: moving, size: [64, 48], frames: 100, realtime: true}}
pipeline: [{STEP}]
"""
LEAKS = {
    "memory": "held.append(bytearray(2_000_000))",
    "open files": "held.append(open('/dev/null'))",
    "threads": "held.append(Thread(target=Event().wait, daemon=True)); held[-1].start()",
}
LEAKING = """
from threading import Event, Thread
held = []
def leak(frame):
    LEAKS
"""


def soak(folder: Path, *options: str, seconds: float = SECONDS) -> tuple[subprocess.CompletedProcess[str], Any]:
    command = [sys.executable, "-m", "sightline.cli.main", "soak", "soak.yaml", "--hours", str(seconds / 3600)]
    done = subprocess.run(
        [*command, "--report", "soak.json", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300 + 2 * seconds,
        check=False,
    )
    report = folder / "soak.json"
    return done, json.loads(report.read_text()) if report.exists() else None


def grown(soaked: Mapping[str, Any]) -> list[str]:
    return [one["what"] for one in soaked["judged"] if one["grew"]]


def wrong(soaked: Mapping[str, Any]) -> list[str]:
    return [text for text in soaked["wrong"] if not text.startswith(BUSY)]


def test_a_pipeline_that_holds_nothing_back_is_flat(tmp_path: Path) -> None:
    (tmp_path / "soak.yaml").write_text(PIPELINE.replace("{STEP}", "{jsonl: {path: '{stream}.jsonl'}}"))

    done, soaked = soak(tmp_path)

    assert wrong(soaked) == []
    assert {*grown(soaked)} <= {"latency p95"}
    is_flat = not soaked["wrong"]
    assert done.stdout.endswith("nothing grew\n") is is_flat, done.stdout
    assert done.returncode == (0 if is_flat else 1)
    assert len(soaked["samples"]) > SECONDS
    assert not list(tmp_path.glob("*.jsonl"))


def test_what_a_step_leaks_is_named(tmp_path: Path) -> None:
    (tmp_path / "leaking.py").write_text(LEAKING.replace("LEAKS", "; ".join(LEAKS.values())))
    (tmp_path / "soak.yaml").write_text(PIPELINE.replace("{STEP}", "{callback: {function: 'leaking:leak'}}"))

    for seconds in LEAKING_SECONDS:
        done, soaked = soak(tmp_path, seconds=seconds)
        if {*LEAKS} <= {*grown(soaked)}:
            break

    assert {*LEAKS} <= {*grown(soaked)}
    assert all(f"wrong: {what} grew by" in done.stdout for what in LEAKS)
    assert done.returncode == 1


@pytest.mark.row(id="E1", long=True)
def test_four_cameras_to_which_something_happens_all_the_time_cost_nothing(tmp_path: Path, figure: Record) -> None:
    for name in CAMERAS:
        write_noise(tmp_path / f"{name}.mp4")
    files = ", ".join(f"{name}: {name}.mp4" for name in CAMERAS)
    (tmp_path / "soak.yaml").write_text(f"sources: {{{files}}}\npipeline: [{{jsonl: {{path: '{{stream}}.jsonl'}}}}]\n")

    done, soaked = soak(tmp_path, "--faults", "--every", str(FAULT_SECONDS), seconds=FAULTY_SECONDS)

    streams = soaked["report"]["streams"]
    growth = {one["what"]: max(0.0, one["growth"]) for one in soaked["judged"]}
    for what, limit, unit in (("memory", 5, "MiB"), ("threads", 0, ""), ("open files", 0, "")):
        figure(f"{what}, growth by slope in {FAULTY_SECONDS:g} s", growth[what], limit=limit, unit=unit)
    figure("tracebacks", done.stderr.count("Traceback"), limit=0, unit="")
    figure("frames in no counter, or anything else wrong", len(wrong(soaked)), limit=0, unit="")
    assert wrong(soaked) == []
    assert done.stderr.count("Traceback") == 0
    assert all(stream["frames"] > 0 for stream in streams.values())
    assert sum(stream["reconnects"] for stream in streams.values()) > 0
    assert f"gate: {FAULT_SECONDS:g} s: " in done.stderr
    assert f"yard: {2 * FAULT_SECONDS:g} s: " in done.stderr


def test_faults_need_files(tmp_path: Path) -> None:
    (tmp_path / "soak.yaml").write_text(PIPELINE.replace("{STEP}", "{jsonl: {path: out.jsonl}}"))

    done, _ = soak(tmp_path, "--faults")

    assert done.stderr == "error: --faults shows files as cameras, and no source of this pipeline is a file\n"
    assert done.returncode == 2
