"""Runs a pipeline many times in one process and prints what it holds in between; started by test_endurance.py."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import threading
from pathlib import Path

from sightline import Pipeline
from sightline.testing import assert_accounted

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_mib() -> float:
    """What the process holds, without what glibc keeps for later: holes in heaps come and go."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  counting is all that is wanted


def main(clip: str, model: str, folder: Path, *, rounds: int, pipelines: int) -> None:
    """One line of JSON for each round of pipelines: resident memory, open files, threads."""
    steps: list[str | dict[str, object]] = [
        {"detect": {"model": model}},
        "track",
        "draw",
        {"video": {"path": str(folder / "{stream}.mp4")}},
        {"jsonl": {"path": str(folder / "{stream}.jsonl")}},
    ]
    for _ in range(rounds):
        for _ in range(pipelines):
            assert_accounted(Pipeline(sources={"a": clip}, steps=steps).run(frames=3))
        held = {"mib": resident_mib(), "files": open_files(), "threads": threading.active_count()}
        sys.stdout.write(json.dumps(held) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), rounds=10, pipelines=int(sys.argv[4]))
