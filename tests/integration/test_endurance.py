"""What must not grow: memory, threads and open files, over many frames and many pipelines in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from sightline import Pipeline
from sightline.testing import FrameOrder, assert_accounted
from tests.integration.figures import form
from tests.integration.many_pipelines import resident_mib
from tests.unit.infer.tiny import write_detector

PIPELINES_A_ROUND = form(5, long=100)
"""Of ten rounds."""
FRAMES = form(6_000, long=100_000)
ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
"""glibc gives threads heaps of their own, whose holes look like growth and shrink again: +-12 MiB here."""


def clip(repository: Path) -> str:
    return str(repository / "sample_videos" / "street.mp4")


def slope_per_step(values: list[float]) -> float:
    """The median of all pairwise slopes (Theil and Sen)."""
    pairs = [(b - a) / (j - i) for i, a in enumerate(values) for j, b in enumerate(values) if j > i]
    return float(np.median(pairs))


def test_many_pipelines_leave_nothing_behind(repository: Path, tmp_path: Path) -> None:
    model = write_detector(tmp_path / "tiny.onnx")
    program = [sys.executable, "-m", "tests.integration.many_pipelines"]
    command = [*program, clip(repository), str(model), str(tmp_path), str(PIPELINES_A_ROUND)]

    done = subprocess.run(command, cwd=repository, env={**os.environ, **ONE_ARENA}, capture_output=True, check=True)

    first, *others = [json.loads(line) for line in done.stdout.splitlines()]
    memory = [held["mib"] for held in others]
    assert len(memory) == 9
    assert {(held["files"], held["threads"]) for held in others} == {(first["files"], first["threads"])}
    assert slope_per_step(memory) * len(memory) < 2


def test_memory_is_flat_over_many_frames(repository: Path, tmp_path: Path) -> None:
    pipeline = Pipeline(
        sources={"a": {"uri": clip(repository), "loop": True}, "b": {"uri": clip(repository), "loop": True}},
        steps=[
            {"replay": {"path": str(repository / "sample_videos" / "street.mot.txt"), "label": "car"}},
            "track",
            {"jsonl": {"path": str(tmp_path / "{stream}.jsonl")}},
        ],
    )
    order, memory = FrameOrder(), list[float]()
    pipeline.probe("jsonl-1", order)
    for number, _ in enumerate(pipeline):
        if number >= FRAMES:
            break
        if number % (FRAMES // 10) == FRAMES // 10 - 1:
            memory.append(resident_mib())

    assert slope_per_step(memory) * len(memory) < 10
    assert pipeline.report is not None
    assert_accounted(pipeline.report, stopped=True)
    order.check(pipeline.report)
