"""Runs contestants in turn, each in a fresh process, and checks that all of them did the same work."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import av
from benchmarks.pipelines.contestants import IN_BFLOAT16, Contestant
from benchmarks.pipelines.job import Job, Outcome

ROOT = Path(__file__).parents[2]
LEAST_FRAMES = 1500
OBJECTS_MAY_DIFFER = 0.05
OBJECTS_MAY_DIFFER_IN_BFLOAT16 = 0.15


class Unequal(Exception):
    """A contestant did other work than the others."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one contestant, with what is in the files that it wrote."""

    outcome: Outcome
    frames: int
    objects: int

    @property
    def fps(self) -> float:
        """Frames a second, all streams together."""
        return self.frames / self.outcome.wall_seconds

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds a frame."""
        return self.outcome.cpu_seconds / self.frames * 1e3


@dataclass(frozen=True, slots=True)
class Table:
    """All runs at one number of streams: a list of rounds for each contestant; why others are left out."""

    streams: int
    runs: dict[Contestant, list[Measured]]
    skipped: dict[Contestant, str]


def count_frames(clip: Path) -> int:
    """The frames of a clip."""
    with av.open(str(clip)) as container:
        return sum(1 for _ in container.decode(video=0))


def measure(contestants: Sequence[Contestant], *, job: Job, rounds: int) -> Table:
    """Run every contestant once in each round. Raises Unequal."""
    frames = count_frames(job.clip)
    job = replace(job, passes=max(1, round(LEAST_FRAMES / frames / job.streams)))
    table = Table(job.streams, {}, {})
    for number in range(rounds):
        for contestant in contestants:
            if contestant in table.skipped:
                continue
            result = run_one(contestant, job=job)
            if isinstance(result, str):
                table.skipped[contestant] = result
                print(f"  {contestant.name}: skipped, {result}")
                continue
            table.runs.setdefault(contestant, []).append(result)
            print(f"  round {number + 1} {contestant.name:26} {result.fps:7.1f} fps {result.cpu_ms:6.2f} CPU ms")
    check_equal(table, frames=frames * job.passes * job.streams)
    return table


def run_one(contestant: Contestant, *, job: Job) -> Measured | str:
    """One run in a fresh process, or why there is none. Raises RuntimeError with what the process said."""
    out = Path(tempfile.mkdtemp(prefix="sightline-bench-"))
    try:
        command = [
            sys.executable,
            "-m",
            "benchmarks.pipelines.child",
            contestant.where,
            replace(job, out=out).to_json(),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{contestant.name} failed:\n{done.stderr[-4000:]}")
        plain: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if "skipped" in plain:
            return str(plain["skipped"])
        lines = [line for path in sorted(out.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
        return Measured(Outcome(**plain), len(lines), sum(line.count(b'"box"') for line in lines))
    finally:
        shutil.rmtree(out)


def check_equal(table: Table, *, frames: int) -> None:
    """Raises Unequal when somebody left out frames, or found a number of objects far from the middle in float32."""
    found = [
        run.objects for contestant, runs in table.runs.items() if contestant.group not in IN_BFLOAT16 for run in runs
    ]
    expected = (min(found) + max(found)) / 2
    for contestant, runs in table.runs.items():
        bfloat16 = contestant.group in IN_BFLOAT16
        allowed = OBJECTS_MAY_DIFFER_IN_BFLOAT16 if bfloat16 else OBJECTS_MAY_DIFFER
        for run in runs:
            if run.frames != frames:
                raise Unequal(f"{contestant.name} wrote {run.frames} of {frames} frames")
            if abs(run.objects - expected) > allowed * expected:
                raise Unequal(f"{contestant.name} found {run.objects} objects, the middle is {expected:.0f}")
