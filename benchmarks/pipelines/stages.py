"""`python -m benchmarks.pipelines.stages`: CPU time per frame by stage beside the expert's, and the limit."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.pipelines.contestants import IN_BFLOAT16, Contestant, Group
from benchmarks.pipelines.files import add_file_options, job_for
from benchmarks.pipelines.job import Job
from benchmarks.pipelines.limit import seconds_per_frame
from benchmarks.pipelines.rounds import Measured, Table, measure

STAGES = {
    "decode": "demultiplexing and decoding",
    "prepare": "resizing and colours",
    "submit": "starting requests; ours: selecting targets and attaching results too",
    "wait": "waiting for requests",
    "engine": "the network, in threads of OpenVINO",
    "head": "decoding and suppression of boxes",
    "track": "tracking",
    "records": "JSON lines",
    "framework": "threads, links and batches",
}
FLOAT32 = (
    Contestant("sightline", Group.OURS, "ours:run_stages", ""),
    Contestant("expert", Group.EXPERT, "expert:run_stages", ""),
)
BFLOAT16 = (
    Contestant("sightline, bfloat16", Group.OURS_BFLOAT16, "ours:run_bfloat16_stages", ""),
    Contestant("expert, bfloat16", Group.EXPERT_BFLOAT16, "expert:run_bfloat16_stages", ""),
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipelines.stages", description=__doc__)
    add_file_options(parser)
    parser.add_argument("--streams", default="1,4,8", help="numbers of streams")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--confidence", type=float, default=0.25)
    parser.add_argument("--bfloat16", action="store_true", help="compare both in bfloat16 too")
    asked = parser.parse_args()
    contestants = [*FLOAT32, *(BFLOAT16 if asked.bfloat16 else ())]
    for streams in map(int, asked.streams.split(",")):
        job = job_for(asked, streams=streams)
        print(f"{streams} streams of {job.clip.name}")
        table = measure(contestants, job=job, rounds=asked.rounds)
        print("\n".join([*markdown(table), *limit_rows(table, job)]), flush=True)


def markdown(table: Table) -> Iterable[str]:
    """The table of stages: medians of microseconds of CPU per frame."""
    columns = list(table.runs.items())
    yield f"| stage | {' | '.join(contestant.name for contestant, _ in columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for stage, about in STAGES.items():
        yield f"| {stage}: {about} | {' | '.join(f'{_us(runs, stage):.0f}' for _, runs in columns)} |"
    yield f"| all | {' | '.join(f'{median(run.cpu_ms for run in runs) * 1e3:.0f}' for _, runs in columns)} |"
    yield f"| frames a second | {' | '.join(f'{median(run.fps for run in runs):.0f}' for _, runs in columns)} |"


def limit_rows(table: Table, job: Job) -> Iterable[str]:
    """The frames a second of the limit by stage, in float32 and bfloat16, and the share of it that each reaches."""
    with tempfile.TemporaryDirectory() as folder:
        work = replace(job, out=Path(folder), passes=2)
        limits = {
            group: seconds_per_frame(work, "bf16" if group in IN_BFLOAT16 else "f32")
            for group in (Group.EXPERT, Group.EXPERT_BFLOAT16)
            if any(contestant.group is group for contestant in table.runs)
        }
    for group, parts in limits.items():
        named = "in bfloat16" if group in IN_BFLOAT16 else "in float32"
        stages = ", ".join(f"{name} {1 / seconds:.0f}" for name, seconds in parts.items())
        yield f"\nLimit {named}, frames a second: {stages}; together {1 / sum(parts.values()):.0f}."
    for contestant, runs in table.runs.items():
        limit = limits[Group.EXPERT_BFLOAT16 if contestant.group in IN_BFLOAT16 else Group.EXPERT]
        yield f"- {contestant.name} reaches {median(run.fps for run in runs) * sum(limit.values()):.2f} of it"


def _us(runs: Sequence[Measured], stage: str) -> float:
    return median(run.outcome.details.get(stage, 0.0) / run.frames * 1e6 for run in runs)


if __name__ == "__main__":
    main()
