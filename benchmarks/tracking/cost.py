"""CPU time of `adaptive` and of the step `track` by number of objects, against another version of them.

    python -m benchmarks.tracking.cost [--against TREE] [--write]

TREE is a checkout of another commit, with its library compiled (`python -m tools.release.wheel_hook` there). Both
versions run in turn, each in a process of its own. "hot" is a loop of calls; before each call of "cold" the caches of
the processor are emptied, which is harder than what a network leaves of them between two frames. Figures are the least
of all rounds, because other work only adds; `--write` puts them into docs/benchmarks/tracking.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
from benchmarks.tracking.speed import moving

from sightline.graph.operator import Operator
from sightline.graph.site import SystemClock
from sightline.media import Batch, Objects, Origin
from sightline.testing import make_frames
from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.track import Track, TrackOperator

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "tracking.md"
BEGIN, END = "<!-- cost: begin -->", "<!-- cost: end -->"
COUNTS = (2, 10, 50)
PASSES, COLD_CALLS, ROUNDS = 10, 40, 5
CACHE_BYTES = 96_000_000
FRAME_NS = 40_000_000

Figures = dict[str, float]
"""Microseconds a frame by `WHAT/CACHES/COUNT`."""


def calls_of_the_tracker(count: int) -> Iterator[Callable[[], object]]:
    """Yield the updates of a tracker that begins."""
    tracker = AdaptiveTracker(AdaptiveOptions())
    for number, (xyxy, confidence) in enumerate(moving(count)):
        class_id = np.zeros(len(xyxy), np.int64)
        yield partial(tracker.update, xyxy, confidence, class_id, pts_ns=number * FRAME_NS)


def calls_of_the_step(count: int) -> Iterator[Callable[[], object]]:
    """Yield the batches of one frame of a step that begins."""
    operator: Operator = TrackOperator(Track(), clock=SystemClock())
    source, found = Origin("detect-1", ("person",)), moving(count)
    for frame, (xyxy, confidence) in zip(make_frames(len(found)), found, strict=True):
        none = np.zeros(len(xyxy), np.int32)
        table = Objects.from_columns(frame=none, xyxy=xyxy, confidence=confidence, class_id=none, source=source)
        yield partial(operator.process, Batch((frame,)).with_objects(table))


def hot(calls: Iterable[Callable[[], object]]) -> float:
    """Return microseconds a call in a loop."""
    waiting = list(calls)
    started = time.thread_time()
    for call in waiting:
        call()
    return (time.thread_time() - started) / len(waiting) * 1e6


def cold(calls: Iterable[Callable[[], object]], *, others: npt.NDArray[np.uint8]) -> float:
    """Return the median microseconds of a call after the caches were filled with `others`."""
    found = []
    for call in list(calls)[:COLD_CALLS]:
        others += 1
        started = time.thread_time()
        call()
        found.append(time.thread_time() - started)
    return median(found) * 1e6


def measure() -> Figures:
    """Return the figures of this version, the least of some passes."""
    others = np.zeros(CACHE_BYTES, np.uint8)
    figures = {}
    for name, calls_of in (("tracker", calls_of_the_tracker), ("step", calls_of_the_step)):
        for count in COUNTS:
            figures[f"{name}/hot/{count}"] = min(hot(calls_of(count)) for _ in range(PASSES))
            figures[f"{name}/cold/{count}"] = cold(calls_of(count), others=others)
    return figures


def measure_tree(tree: Path) -> Figures:
    """Return the figures of a checkout, measured in another process."""
    paths = [str(tree / "plugins"), str(tree / "pipeline"), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "benchmarks.tracking.cost", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def table(own: Figures, other: Figures | None) -> str:
    """Return the figures as a table, `OTHER → OWN, RATIO` where there are two."""
    lines = [["objects", *(f"{name}, {caches}" for name in ("`adaptive`", "`track`") for caches in ("hot", "cold"))]]
    lines += [["---"] * len(lines[0])]
    for count in COUNTS:
        cells = [str(count)]
        for name in ("tracker", "step"):
            for caches in ("hot", "cold"):
                key = f"{name}/{caches}/{count}"
                before = "" if other is None else f"{other[key]:.0f} → "
                ratio = "" if other is None else f", {other[key] / own[key]:.1f} x"
                cells.append(f"{before}{own[key]:.0f} us{ratio}")
        lines.append(cells)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def least(rounds: list[Figures]) -> Figures:
    """Return the least of each figure."""
    return {key: min(one[key] for one in rounds) for key in rounds[0]}


def write(text: str) -> None:
    """Put the table between the marks of the page."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{datetime.now(UTC):%Y-%m-%d}.\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tracking.cost", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--against", type=Path, metavar="TREE", help="a checkout of another commit")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/tracking.md")
    parser.add_argument("--json", action="store_true", help="measure once, and print the figures as JSON")
    asked = parser.parse_args()
    if asked.json:
        print(json.dumps(measure()))
        return
    own, other = [], []
    for _ in range(ROUNDS):
        if asked.against is not None:
            other.append(measure_tree(asked.against.resolve()))
        own.append(measure_tree(ROOT))
    text = table(least(own), least(other) if other else None)
    print(text)
    if asked.write:
        write(text)


if __name__ == "__main__":
    main()
