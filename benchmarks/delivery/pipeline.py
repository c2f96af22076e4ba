"""The CPU time of a frame of a pipeline without and with a step that delivers every frame."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.delivery.contestants import DESTINATIONS
from sightline import Pipeline

TARGET = 1.03
_STREAMS = 4


def in_pipeline(names: Sequence[str], *, data: Path, frames: int, rounds: int) -> Iterator[str]:
    """The lines of the table."""
    yield "| destination | CPU ms a frame, without | with | ratio | frames a second, without | with |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name in names:
        with DESTINATIONS[name]() as contestant:
            element = contestant.element
            step = {element.name: element.model_dump(mode="json", include=element.model_fields_set)}
            cases = [{"data": str(data), "frames": frames, "step": one} for one in (None, step)]
            found = [[_run(case) for case in cases] for _ in range(rounds)]
        cpu, fps = ([statistics.median(one[i][key] for one in found) for i in (0, 1)] for key in ("cpu_ms", "fps"))
        ratio = statistics.median(one[1]["cpu_ms"] / one[0]["cpu_ms"] for one in found)
        verdict = "met" if ratio < TARGET else "missed"
        yield (f"| {name} | {cpu[0]:.3f} | {cpu[1]:.3f} | {ratio:.3f} ({verdict}) | {fps[0]:.0f} | {fps[1]:.0f} |")


def _run(case: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.delivery.pipeline", json.dumps(case)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if case["step"] is not None and found["delivered"] < found["frames"]:
        raise SystemExit(f"{found['delivered']} of {found['frames']} frames were delivered")
    return found


def main() -> None:
    """Run a pipeline, and print the CPU time of a frame."""
    case = json.loads(sys.argv[1])
    data = Path(case["data"])
    steps: list[Any] = [
        {"detect": {"model": str(data / "models/FastestDet.onnx"), "labels": str(data / "models/coco80.names")}},
        "track",
        {"jsonl": "{stream}.jsonl"},
    ]
    if case["step"] is not None:
        steps.append(case["step"])
    clip = str(data / "videos" / "street-cars-640x360.mp4")
    with tempfile.TemporaryDirectory() as folder:
        sources = {f"stream{number}": {"uri": clip, "loop": True} for number in range(_STREAMS)}
        report = Pipeline(sources=sources, steps=steps, outputs=folder).run(frames=case["frames"] // _STREAMS)
    found = {
        "cpu_ms": 1000 * report.cpu_seconds / report.frames,
        "fps": report.fps,
        "frames": report.frames,
        "delivered": sum(one.delivered for one in report.deliveries),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
