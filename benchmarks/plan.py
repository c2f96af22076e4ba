"""How near the predictions of `sightline plan` are to what a pipeline then does.

    python -m benchmarks.plan ../shared/data [--seconds 60] [--rounds 3] [--write]

Shared clips with shared models, and the clips and the model that Sightline ships: detect, track, count at a line, write
JSON lines. Each is planned; then, in a process of its own, three tenths more streams than the processor has time for by
that plan run at their own rates: the frames that come in a second, in all, are what the machine can do. The
table compares both, and says how many of their frames came in time when as many ran as were planned with a tenth kept
free. `--write` writes the page docs/benchmarks/plan.md.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.graph_passes import processor
from sightline.config import load_description
from sightline.graph.outputs import Outputs
from sightline_plugins.commands.plan.copies import limited, plain
from sightline_plugins.commands.plan.trials import Trials

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "plan.md"
TOO_MANY = 1.3
OVERLOADED_SECONDS = 20.0
HEADROOM = 0.1
LINE = {"road": {"from": [0.1, 0.6], "to": [0.9, 0.6]}}


@dataclass(frozen=True, slots=True)
class Case:
    """One pipeline: clips, model, and frames a second where not all are analysed."""

    name: str
    clips: tuple[Path, ...]
    model: Path
    labels: Path | None = None
    fps: float | None = None

    def written(self, folder: Path) -> Path:
        """Write its configuration."""
        detect: dict[str, Any] = {"model": str(self.model)}
        if self.labels is not None:
            detect["labels"] = str(self.labels)
        steps = [{"detect": detect}, "track", {"lines": LINE}, {"jsonl": "all.jsonl"}]
        sources = {f"clip{number}": str(clip) for number, clip in enumerate(self.clips)}
        path = folder / "plan.yaml"
        path.write_text(json.dumps({"sources": sources, "pipeline": steps}), encoding="utf-8")
        return path


def cases(shared: Path) -> Iterator[Case]:
    """Yield what is planned."""
    videos, models = shared / "videos", shared / "models"
    labels = models / "coco80.names"
    clips = ROOT / "sample_videos" / "street.mp4", ROOT / "sample_videos" / "dusk.mp4"
    cars, streets = videos / "car-detection.mp4", videos / "street-cars-640x360.mp4"
    yield Case("street and dusk, street.onnx", clips, ROOT / "models" / "street.onnx")
    yield Case("car-detection, FastestDet", (cars,), models / "FastestDet.onnx", labels)
    yield Case("street-cars, FastestDet at 5 frames/s", (streets,), models / "FastestDet.onnx", labels, 5)
    yield Case("street-cars, YOLOX-Nano at 10 frames/s", (streets,), models / "yolox_nano.onnx", labels, 10)


@dataclass(frozen=True, slots=True)
class Compared:
    """Frames a second of all streams as planned and as they came, and what came of as many streams as fit: their
    number, and the share of their frames in time. `others` is the share of the cores that other programs used.
    """

    planned_fps: float
    overloaded_fps: float
    streams: int
    kept_up: float | None
    others: float

    @property
    def error(self) -> float:
        """How far the plan is from what was done, as a share of that; above 0 where it promises too much."""
        return self.planned_fps / self.overloaded_fps - 1


def compare(case: Case, *, seconds: float) -> Compared:
    """Plan, and then run more than that."""
    with tempfile.TemporaryDirectory(prefix="sightline-plan-") as folder:
        config = case.written(Path(folder))
        wanted = ["--seconds", f"{seconds:g}", "--headroom", f"{HEADROOM:g}", "--json", "--quiet"]
        wanted += [] if case.fps is None else ["--fps", f"{case.fps:g}"]
        told = subprocess.run(
            [Path(sys.executable).with_name("sightline"), "plan", config, *wanted],
            capture_output=True,
            text=True,
            check=False,
        )
        if not told.stdout:
            raise SystemExit(told.stderr)
        plan = json.loads(told.stdout)
        most = plan["most_streams"]["processor"]
        rates = plan["figures"]["rates"].values()
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            came = pool.submit(overloaded, config, case.fps, math.ceil(TOO_MANY * most)).result()
    return Compared(most * statistics.fmean(rates), came, plan["streams"], plan["kept_up"], plan["other_programs"])


def overloaded(config: Path, fps: float | None, streams: int) -> float:
    """Frames a second of all streams when so many run at their own rates."""
    with tempfile.TemporaryDirectory(prefix="sightline-plan-") as folder:
        described = limited(plain(load_description(config, outputs=Outputs(Path(folder)))), fps=fps)
        share_of_the_time = 0.3  # of a run as planned
        trials = Trials(
            described, seconds=OVERLOADED_SECONDS / share_of_the_time, outputs=Path(folder), say=lambda _: None
        )
        return trials.as_planned(streams).fps


TITLE = """# Predictions of `sightline plan`

{date}, {machine}; `python -m benchmarks.plan ../shared/data --seconds {seconds:g} --rounds {rounds} --write`. Each
pipeline detects, tracks, counts at a line and writes JSON lines. It is planned for {seconds:g} s; then, in another
process, {more:.0%} more streams than the processor has time for by the plan run at their own rates. Medians of {rounds}
round(s), in turn, with the smallest and the largest difference. The last columns are the plan with {headroom:.0%} kept
free: how many streams, and how many of their frames came in time.

{table}

Other programs used at most {others:.0%} of the cores meanwhile.
"""
HEAD = """| pipeline | planned, frames/s | came, frames/s | difference | streams that fit | in time |
|---|---|---|---|---|---|"""


def row(case: Case, found: list[Compared]) -> str:
    """A row of the table."""
    errors = sorted(one.error for one in found)
    planned = statistics.median(one.planned_fps for one in found)
    came = statistics.median(one.overloaded_fps for one in found)
    streams = sorted({one.streams for one in found})
    kept = [one.kept_up for one in found if one.kept_up is not None]
    difference = f"{statistics.median(errors):+.1%} ({errors[0]:+.1%} to {errors[-1]:+.1%})"
    in_time = f"{min(kept):.1%} at least" if kept else "not tried"
    return f"| {case.name} | {planned:.0f} | {came:.0f} | {difference} | {'/'.join(map(str, streams))} | {in_time} |"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="the folder of shared data")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the page")
    asked = parser.parse_args()
    planned = list(cases(asked.shared.resolve()))
    found: dict[str, list[Compared]] = {case.name: [] for case in planned}
    for _ in range(asked.rounds):
        for case in planned:
            found[case.name].append(compare(case, seconds=asked.seconds))
            print(case.name, found[case.name][-1], f"{found[case.name][-1].error:+.1%}", flush=True)
    table = "\n".join((HEAD, *(row(case, found[case.name]) for case in planned)))
    print(table)
    if asked.write:
        text = TITLE.format(
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            machine=processor(),
            seconds=asked.seconds,
            rounds=asked.rounds,
            more=TOO_MANY - 1,
            headroom=HEADROOM,
            table=table,
            others=max(one.others for each in found.values() for one in each),
        )
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
