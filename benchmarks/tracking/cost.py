"""CPU time of the step `track` by trackers, streams and objects, against another version of it.

    python -m benchmarks.tracking.cost [--against TREE] [--trackers adaptive,sort] [--write]
    python -m benchmarks.tracking.cost --caches [--against TREE] [--write]

A batch has a frame of each stream. TREE is a checkout of another commit, with its library compiled
(`python -m tools.release.wheel_hook` there). Both versions run in turn, each in a process of its own. Figures are the
median of all rounds, and beside them stands what a plain loop of Python takes on the same machine at the same time.

`--caches` measures `adaptive` and `track` with one stream, "hot" in a loop of calls, and "cold": before each call the
caches of the processor are emptied, which is harder than what a network leaves of them between two frames. Of these the
least is taken, because other work only adds. `--write` puts tables into docs/benchmarks/tracking.md.
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
COUNTS = (2, 10, 50)
STREAMS, OBJECTS = (1, 4, 16), (10, 50)
PASSES, COLD_CALLS, ROUNDS = 10, 40, 5
ADDITIONS = 100_000
BY_BOXES = ("adaptive", "bytetrack", "sort", "ocsort", "botsort", "cbiou", "iou")
CACHE_BYTES = 96_000_000
FRAME_NS = 40_000_000

Figures = dict[str, float]
"""Microseconds a frame by `WHAT/CACHES/COUNT` or `TRACKER/STREAMS/COUNT`; and `loop`, of an addition in Python."""


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


def calls_of_streams(algorithm: str, streams: int, count: int) -> Iterator[Callable[[], object]]:
    """Yield the batches, of one frame of each stream, of a step that begins."""
    operator: Operator = TrackOperator(Track.model_validate({"algorithm": algorithm}), clock=SystemClock())
    source, found = Origin("detect-1", ("person",)), moving(count)
    cameras = [make_frames(len(found), stream=f"camera-{number}") for number in range(streams)]
    for index in range(len(found)):
        seen = [found[index]] * streams
        table = Objects.from_columns(
            frame=np.repeat(np.arange(streams), [len(xyxy) for xyxy, _ in seen]),
            xyxy=np.concatenate([xyxy for xyxy, _ in seen]),
            confidence=np.concatenate([confidence for _, confidence in seen]),
            class_id=np.zeros(sum(len(xyxy) for xyxy, _ in seen)),
            source=source,
        )
        batch = Batch(tuple(frames[index] for frames in cameras)).with_objects(table)
        yield partial(operator.process, batch)


def python_loop() -> float:
    """Return the microseconds of an addition in a plain loop, which say how fast this machine is at the moment."""
    started, total = time.thread_time(), 0
    for number in range(ADDITIONS):
        total += number
    return (time.thread_time() - started) / ADDITIONS * 1e6


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


def measure_caches() -> Figures:
    """Return the figures of this version with one stream, the least of some passes."""
    others = np.zeros(CACHE_BYTES, np.uint8)
    figures = {}
    for name, calls_of in (("tracker", calls_of_the_tracker), ("step", calls_of_the_step)):
        for count in COUNTS:
            figures[f"{name}/hot/{count}"] = min(hot(calls_of(count)) for _ in range(PASSES))
            figures[f"{name}/cold/{count}"] = cold(calls_of(count), others=others)
    return figures


def measure_streams(trackers: Iterable[str]) -> Figures:
    """Return the figures of this version with several streams."""
    figures = {"loop": python_loop()}
    for tracker in trackers:
        for streams in STREAMS:
            for count in OBJECTS:
                calls = calls_of_streams(tracker, streams, count)
                figures[f"{tracker}/{streams}/{count}"] = hot(calls) / streams
    return figures


def measure_tree(tree: Path, *arguments: str) -> Figures:
    """Return the figures of a checkout, measured in another process."""
    paths = [str(tree / "plugins"), str(tree / "pipeline"), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "benchmarks.tracking.cost", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def cell(key: str, own: Figures, other: Figures | None) -> str:
    """Return a figure as `OTHER → OWN, RATIO` where there are two."""
    before = "" if other is None else f"{other[key]:.0f} → "
    ratio = "" if other is None else f", {other[key] / own[key]:.1f} x"
    return f"{before}{own[key]:.0f} us{ratio}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of Markdown."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def table_of_caches(own: Figures, other: Figures | None) -> str:
    """Return a row for each number of objects."""
    kinds = [(name, caches) for name in ("tracker", "step") for caches in ("hot", "cold")]
    titles = {"tracker": "`adaptive`", "step": "`track`"}
    return table(
        ["objects", *(f"{titles[name]}, {caches}" for name, caches in kinds)],
        [[str(count), *(cell(f"{name}/{caches}/{count}", own, other) for name, caches in kinds)] for count in COUNTS],
    )


def table_of_streams(trackers: Iterable[str], own: Figures, other: Figures | None) -> str:
    """Return a row for each tracker and number of objects, and the plain loop below it."""
    rows = [
        [f"`{name}`", str(count), *(cell(f"{name}/{streams}/{count}", own, other) for streams in STREAMS)]
        for name in trackers
        for count in OBJECTS
    ]
    before = "" if other is None else f"{other['loop'] * 1000:.0f} → "
    loop = f"A thousand additions in a loop of Python took {before}{own['loop'] * 1000:.0f} us at the same time."
    return table(["tracker", "objects", *(f"{streams} streams" for streams in STREAMS)], rows) + "\n\n" + loop


def combined(rounds: list[Figures], by: Callable[[Iterable[float]], float]) -> Figures:
    """Return one figure for those of all rounds."""
    return {key: by([one[key] for one in rounds]) for key in rounds[0]}


def write(name: str, text: str) -> None:
    """Put a table between its marks on the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{begin}\n\n{datetime.now(UTC):%Y-%m-%d}.\n\n{text}\n\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tracking.cost", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--against", type=Path, metavar="TREE", help="a checkout of another commit")
    parser.add_argument("--trackers", default=",".join(BY_BOXES), help="names of trackers")
    parser.add_argument("--caches", action="store_true", help="one stream, with caches full and emptied")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often both versions run")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/tracking.md")
    parser.add_argument("--json", action="store_true", help="measure once, and print the figures as JSON")
    asked = parser.parse_args()
    trackers = asked.trackers.split(",")
    if asked.json:
        print(json.dumps(measure_caches() if asked.caches else measure_streams(trackers)))
        return
    arguments = ["--caches"] if asked.caches else ["--trackers", asked.trackers]
    own, other = [], []
    for _ in range(asked.rounds):
        if asked.against is not None:
            other.append(measure_tree(asked.against.resolve(), *arguments))
        own.append(measure_tree(ROOT, *arguments))
    by = min if asked.caches else median
    figures, before = combined(own, by), combined(other, by) if other else None
    text = table_of_caches(figures, before) if asked.caches else table_of_streams(trackers, figures, before)
    print(text)
    if asked.write:
        write("cost" if asked.caches else "streams", text)


if __name__ == "__main__":
    main()
