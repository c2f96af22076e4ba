"""The page `docs/benchmarks/pipelines.md`: a section for each kind of processor."""

from __future__ import annotations

import os
import platform
import re
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
CPUINFO = Path("/proc/cpuinfo")
_BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16")
INTRODUCTION = """\
# Pipelines compared

`make bench` measures this and writes the section of its kind of processor; those of others stay. Every contestant does
the same job: decode every frame of the clip, find objects with FastestDet in each, track them, write JSON lines to a
file.

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
    """Write the section of this kind of processor into the page; those of others stay."""
    kind = processor()
    lines = [
        f"## {kind}\n",
        f"{datetime.now(tz=UTC):%Y-%m-%d}, {machine()}, Python {platform.python_version()}, {_versions()}.",
        f"Clip `{job.clip.name}`, confidence {job.confidence}, {rounds} rounds.\n",
        "### Targets\n",
        *(line for table in tables for line in verdicts(table)),
        "\n### Figures\n",
        *(line for table in tables for line in markdown(table)),
        "### Where the time goes\n",
        *(line for table in tables for line in breakdown(table)),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    sections = _sections(path.read_text()) if path.exists() else {}
    sections[kind] = "\n".join(lines).rstrip() + "\n"
    path.write_text("\n".join([INTRODUCTION, *(sections[name] for name in sorted(sections))]))


def _sections(page: str) -> dict[str, str]:
    """Return the sections of a page by their headings."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0].removeprefix("## "): part.rstrip() + "\n" for part in parts}


def machine() -> str:
    """Cores and processor that figures come from."""
    return f"{len(os.sched_getaffinity(0))} cores of {_fact('model name') or platform.processor()}"


def processor() -> str:
    """The kind of processor: its name, and the instructions for bfloat16 that it has, which change what is fastest."""
    flags = (_fact("flags") or _fact("Features")).split()
    bfloat16 = [flag for flag in _BFLOAT16 if flag in flags]
    name = _fact("model name") or platform.processor() or platform.machine()
    return f"{name} with {' and '.join(bfloat16)}" if bfloat16 else name


def _fact(key: str) -> str:
    """Return the first value of a key of `/proc/cpuinfo`; an empty text where there is none."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key), "")


def _versions() -> str:
    return ", ".join(f"{name} {_version(name)}" for name in PACKAGES)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
