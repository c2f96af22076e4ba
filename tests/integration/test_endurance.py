"""What must not grow: memory, threads and open files, over many frames and many pipelines in one process."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import numpy as np

from sightline import Pipeline
from sightline.testing import FrameOrder, assert_accounted
from tests.unit.infer.tiny import write_detector

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_mib() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  counting is all that is wanted


def clip(repository: Path) -> str:
    return str(repository / "sample_videos" / "street.mp4")


def steps(model: Path, folder: Path) -> list[str | dict[str, object]]:
    return [
        {"detect": {"model": str(model)}},
        "track",
        "draw",
        {"video": {"path": str(folder / "{stream}.mp4")}},
        {"jsonl": {"path": str(folder / "{stream}.jsonl")}},
    ]


def slope_per_step(values: list[float]) -> float:
    """The median of all pairwise slopes (Theil and Sen)."""
    pairs = [(b - a) / (j - i) for i, a in enumerate(values) for j, b in enumerate(values) if j > i]
    return float(np.median(pairs))


def test_two_hundred_pipelines_leave_nothing_behind(repository: Path, tmp_path: Path) -> None:
    model = write_detector(tmp_path / "tiny.onnx")

    def run_once() -> None:
        assert_accounted(Pipeline(sources={"a": clip(repository)}, steps=steps(model, tmp_path)).run(frames=3))

    for _ in range(20):
        run_once()
    files, threads, memory = open_files(), threading.active_count(), []
    for _ in range(9):
        for _ in range(20):
            run_once()
        memory.append(resident_mib())

    assert (open_files(), threading.active_count()) == (files, threads)
    assert slope_per_step(memory) * 9 < 20


def test_memory_is_flat_over_twenty_thousand_frames(repository: Path, tmp_path: Path) -> None:
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
        if number >= 20_000:
            break
        if number % 2_000 == 1_999:
            memory.append(resident_mib())

    assert slope_per_step(memory) * len(memory) < 10
    assert pipeline.report is not None
    assert_accounted(pipeline.report, stopped=True)
    order.check(pipeline.report)
