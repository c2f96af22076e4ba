"""The page `docs/benchmarks/pipelines.md`."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.pipelines.job import Job
from benchmarks.pipelines.rounds import Table
from benchmarks.pipelines.tables import breakdown, markdown, verdicts

PACKAGES = (
    "sightline",
    "av",
    "opencv-python-headless",
    "openvino",
    "onnxruntime",
    "numpy",
    "onnxsim",
    "numba",
    "trackers",
)
INTRODUCTION = """\
# Pipelines compared

`make bench` measures this and writes this page. Every contestant does the same job: decode every frame of the clip,
find objects with FastestDet in each, track them, write JSON lines to a file.

- Contestants run in turn in one invocation, each in a fresh process, for several rounds. Figures are medians. "Ratio of
  fps" is the median of the ratios within a round, the only figure that is reliable on a shared machine.
- Loading models and compiling code does not count, for any contestant; opening files does.
- All compute in float32, except "expert, bfloat16" and "sightline, bfloat16", which are compared with each other: the
  precision that OpenVINO chooses on processors that compute bfloat16, and `precision: bf16`. All are checked to write
  every frame, and to find numbers of objects that lie within 5 % of their middle, with bfloat16 within 15 %: it finds
  other objects, and the column "objects" shows how many.

The expert's loop is one process without a framework: PyAV, planes resized before colours are converted, a graph
simplified by onnxsim that takes 8-bit NHWC, OpenVINO with as many streams as cores, head, suppression and tracker
compiled by Numba, msgspec. The ordinary loop is OpenCV's capture, ONNX Runtime with defaults, the model's demo code, a
library's tracker, `json`, one stream after another. The ready-made contestants use the same parts, but vectorised
post-processing and cheaper resizing. BMF is left out: its package needs the libraries of FFmpeg 4.

The comparison with the expert's loop, on your machine, in about five minutes, from a clone of the repository:

```console
$ make dev && .venv/bin/python -m pip install --group bench
$ .venv/bin/sightline models pull fastestdet
$ .venv/bin/python -m benchmarks.pipelines --streams 1,4 --rounds 3 --confidence 0.25 --only 'expert*' --clip my.mp4
$ .venv/bin/python -m benchmarks.pipelines.stages --streams 1 --rounds 3 --clip my.mp4
```

`my.mp4` is any video; best one of traffic or people, a minute long.
"""


def write(path: Path, tables: Sequence[Table], *, job: Job, rounds: int) -> None:
    """Write the page."""
    lines = [
        INTRODUCTION,
        f"{datetime.now(tz=UTC):%Y-%m-%d}, {machine()}, Python {platform.python_version()}, {_versions()}.",
        f"Clip `{job.clip.name}`, confidence {job.confidence}, {rounds} rounds.\n",
        "## Targets\n",
        *(line for table in tables for line in verdicts(table)),
        "\n## Figures\n",
        *(line for table in tables for line in markdown(table)),
        "## Where the time goes\n",
        *(line for table in tables for line in breakdown(table)),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def machine() -> str:
    """Cores and processor that figures come from."""
    facts = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(":")[2].strip() for line in facts.splitlines() if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} cores of {names[0] if names else platform.processor()}"


def _versions() -> str:
    return ", ".join(f"{name} {_version(name)}" for name in PACKAGES)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
