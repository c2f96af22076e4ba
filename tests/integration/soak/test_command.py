"""`sightline soak` as people call it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.camera.clips import write_noise

SECONDS = 6
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
        timeout=100,
        check=False,
    )
    report = folder / "soak.json"
    return done, json.loads(report.read_text()) if report.exists() else None


def grown(soaked: Mapping[str, Any]) -> list[str]:
    return [one["what"] for one in soaked["judged"] if one["grew"]]


def test_a_pipeline_that_holds_nothing_back_is_flat(tmp_path: Path) -> None:
    (tmp_path / "soak.yaml").write_text(PIPELINE.replace("{STEP}", "{jsonl: {path: '{stream}.jsonl'}}"))

    done, soaked = soak(tmp_path)

    assert grown(soaked) == []
    assert done.stdout.endswith("nothing grew\n"), done.stdout
    assert (done.returncode, soaked["wrong"]) == (0, [])
    assert len(soaked["samples"]) > SECONDS
    assert not list(tmp_path.glob("*.jsonl"))


def test_what_a_step_leaks_is_named(tmp_path: Path) -> None:
    (tmp_path / "leaking.py").write_text(LEAKING.replace("LEAKS", "; ".join(LEAKS.values())))
    (tmp_path / "soak.yaml").write_text(PIPELINE.replace("{STEP}", "{callback: {function: 'leaking:leak'}}"))

    done, soaked = soak(tmp_path)

    assert {*LEAKS} <= {*grown(soaked)}
    assert all(f"wrong: {what} grew by" in done.stdout for what in LEAKS)
    assert done.returncode == 1


def test_with_faults_files_are_cameras_to_which_something_happens(tmp_path: Path) -> None:
    for name in ("gate", "yard"):
        write_noise(tmp_path / f"{name}.mp4")
    (tmp_path / "soak.yaml").write_text(
        "sources: {gate: gate.mp4, yard: yard.mp4}\npipeline: [{jsonl: {path: '{stream}.jsonl'}}]\n"
    )

    done, soaked = soak(tmp_path, "--faults", "--every", "1", "--seed", "3")

    streams = soaked["report"]["streams"]
    assert set(grown(soaked)) <= {"memory", "latency p95"}
    assert not [line for line in soaked["wrong"] if " grew by " not in line]
    assert all(stream["frames"] > 0 for stream in streams.values())
    assert sum(stream["reconnects"] for stream in streams.values()) > 0
    assert "gate: 1 s: " in done.stderr
    assert "yard: 2 s: " in done.stderr
    assert "Traceback" not in done.stderr


def test_faults_need_files(tmp_path: Path) -> None:
    (tmp_path / "soak.yaml").write_text(PIPELINE.replace("{STEP}", "{jsonl: {path: out.jsonl}}"))

    done, _ = soak(tmp_path, "--faults")

    assert done.stderr == "error: --faults shows files as cameras, and no source of this pipeline is a file\n"
    assert done.returncode == 2
