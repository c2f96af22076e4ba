"""One process and several: frames a second and CPU time per frame, with busy streams and with many that mostly rest.

    python -m benchmarks.processes [--processes 1,2] [--busy 4,8] [--mixed 8,32,128] [--sizes 8] [--rounds 5]
                                   [--model MODEL.onnx]

Busy streams read a clip as fast as they can. Of the mixed ones an eighth does, and the others are cameras that show a
frame a second. Of those of two sizes every second one is a test image of 1920x1080, and the others are of 320x180:
dealt out in turn, all large ones would be in one of two workers. All track recorded objects (or those of `--model`),
count at a line, and write JSON lines into one file. Ways take turns in each round; the table has medians. Time goes
from the first frame of a busy stream to the end of the last, so that starts do not count. CPU time is that of all
processes, and memory the most that they held. The last column is the speed beside that of one process: the next process
pays where it is above 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.arguments import numbers
from benchmarks.graph_passes import processor
from sightline import Pipeline
from sightline.runtime.processes.restarts import resident_bytes
from sightline.runtime.processes.run import ProcessRunner

CLIP = Path(__file__).parents[1] / "sample_videos" / "gate.mp4"
_IDLE: dict[str, Any] = {"pattern": "counter", "size": [640, 360], "fps": 1, "realtime": True, "frames": None}
_SIZED: dict[str, Any] = {"pattern": "counter", "frames": 2000}
_SIZES = ([1920, 1080], [320, 180])
_LOOK_SECONDS = 0.05

Sources = dict[str, Any]
"""Sources as a pipeline takes them; the names of those that are waited for begin with `busy`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run took: frames a second of the busy streams, CPU time per frame, and memory of all processes."""

    fps: float
    cpu_ms: float
    memory_mb: float


def busy_and_idle(streams: int, busy: int) -> Sources:
    """Streams of which some read a clip, and the others mostly rest."""
    sources: Sources = {f"busy{number}": str(CLIP) for number in range(busy)}
    return sources | {f"idle{number}": _IDLE for number in range(streams - busy)}


def of_two_sizes(streams: int) -> Sources:
    """Busy streams, a large and a small one in turn."""
    return {f"busy{number}": {**_SIZED, "size": _SIZES[number % 2]} for number in range(streams)}


def measure(sources: Sources, *, processes: int, model: Path | None) -> Measured:
    """Run once, until the busy streams have ended."""
    recorded = {"replay": {"path": str(CLIP.with_suffix(".mot.txt")), "format": "mot", "label": "car"}}
    steps: list[Any] = [
        recorded if model is None else {"detect": {"model": str(model)}},
        "track",
        {"lines": {"a": {"from": [0.1, 0.6], "to": [0.9, 0.6]}}},
        {"jsonl": "all.jsonl"},
    ]
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(sources=sources, steps=steps, processes=processes, outputs=folder, state=False)
        pipeline.start()
        memory = 0
        while any(one.name.startswith("busy") and one.state != "ended" for one in pipeline.status()):
            memory = max(memory, sum(resident_bytes(pid) or 0 for pid in _pids(pipeline)))
            time.sleep(_LOOK_SECONDS)
        pipeline.stop()
        report = pipeline.wait()
    own = [one for one in report.streams if one.stream.name.startswith("busy")]
    began, ended = min(one.started_ns or 0 for one in own), max(one.ended_ns or 0 for one in own)
    frames = sum(one.finished for one in own)
    return Measured(frames / ((ended - began) / 1e9), report.cpu_seconds * 1e3 / report.frames, memory / 1e6)


def _pids(pipeline: Pipeline) -> list[int]:
    runner = pipeline._runner  # noqa: SLF001  there is no other way to the processes
    workers = [one.pid for one in runner.shares] if isinstance(runner, ProcessRunner) else []
    return [os.getpid(), *(pid for pid in workers if pid is not None)]


def medians(sources: Sources, *, processes: Sequence[int], rounds: int, model: Path | None) -> dict[int, Measured]:
    """The medians of each number of processes; all take turns in each round."""
    runs: dict[int, list[Measured]] = {count: [] for count in processes if count <= len(sources)}
    for _ in range(rounds):
        for count, own in runs.items():
            own.append(measure(sources, processes=count, model=model))
    names = ("fps", "cpu_ms", "memory_mb")
    return {
        count: Measured(*[statistics.median(getattr(one, name) for one in own) for name in names])
        for count, own in runs.items()
    }


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=numbers, default=(1, 2))
    parser.add_argument("--busy", type=numbers, default=(4, 8))
    parser.add_argument("--mixed", type=numbers, default=(8, 32, 128))
    parser.add_argument("--sizes", type=numbers, default=(8,))
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{processor()}, medians of {given.rounds} rounds\n")
    print("| streams | busy | processes | frames/s | CPU ms a frame | memory, MB | speed beside one process |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    wanted = [
        *[(streams, str(streams), busy_and_idle(streams, streams)) for streams in given.busy],
        *[
            (streams, str(max(1, streams // 8)), busy_and_idle(streams, max(1, streams // 8)))
            for streams in given.mixed
        ],
        *[(streams, "of two sizes", of_two_sizes(streams)) for streams in given.sizes],
    ]
    for streams, busy, sources in wanted:
        found = medians(sources, processes=given.processes, rounds=given.rounds, model=given.model)
        one = found[min(found)].fps
        for count, row in found.items():
            cells = (streams, busy, count, f"{row.fps:.0f}", f"{row.cpu_ms:.2f}", f"{row.memory_mb:.0f}")
            print("|", " | ".join(map(str, (*cells, f"{row.fps / one:.2f}"))), "|", flush=True)


if __name__ == "__main__":
    main()
