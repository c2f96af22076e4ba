"""What it costs to change options while a pipeline runs, and to be able to.

    python -m benchmarks.edits [--frames 6000] [--rounds 5]

Two streams with tracked objects pass `zones` and `lines` as fast as the machine can, in rounds that take turns: without
a change; with a zone that is moved again and again (in band); and with a step that is built anew again and again (the
exchange of stages), for comparison. Standard output gets one line of JSON: frames a second of each, the ratio to the
round without changes beside it (median over the rounds), and the time from the call to the end of waiting. It fails
when a frame is lost.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.graph import Capability, Element, Operator, Site, Step
from sightline.media import Batch, Objects, Origin
from sightline.testing import assert_accounted
from sightline_plugins import Lines, Zones

OBJECTS = 10
SECONDS_BETWEEN = 0.05


class Crowd(Element):
    """Ten tracked objects on each frame, which walk to and fro; `seed` makes it another element."""

    name: ClassVar[str] = "crowd"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS, Capability.TRACKS})

    seed: int = 0

    def build(self, site: Site) -> Operator:
        """Make the operator."""
        del site
        return _Crowd()


class _Crowd(Operator):
    def process(self, batch: Batch) -> Batch:
        numbers = np.arange(OBJECTS)
        boxes = []
        for frame in batch.frames:
            x = np.abs((frame.index + 9 * numbers) % 200 - 100) / 100 * frame.size_wh[0]
            y = (0.2 + 0.06 * numbers) * frame.size_wh[1]
            boxes.append(np.stack([x - 4, y - 12, x + 4, y], axis=1))
        count = len(batch) * OBJECTS
        found = Objects.from_columns(
            frame=np.repeat(np.arange(len(batch)), OBJECTS),
            xyxy=np.concatenate(boxes),
            confidence=np.ones(count),
            class_id=np.zeros(count),
            track_id=np.tile(numbers, len(batch)),
            source=Origin("crowd", ("person",)),
        )
        return batch.with_objects(found)


def steps(*, zone: float = 0.6, seed: int = 0) -> list[Step]:
    """The steps with a zone that ends there, and a crowd of that seed."""
    polygon = [[0.2, 0.1], [zone, 0.1], [zone, 0.9], [0.2, 0.9]]
    gate = {"from": [0.5, 0], "to": [0.5, 1]}
    return [
        Crowd(seed=seed),
        Zones.model_validate({"plaza": {"polygon": polygon}}),
        Lines.model_validate({"gate": gate}),
    ]


def edits(kind: str) -> Iterator[list[Step]]:
    """Yield the steps of one change after the other."""
    for number in range(1, 10_000_000):
        yield steps(zone=0.5 + number % 40 / 100) if kind == "in_band" else steps(seed=number)


def run(kind: str, *, frames: int) -> tuple[float, list[float]]:
    """Run to the end and change it meanwhile; return frames a second, and the duration of each change in ms."""
    source: dict[str, Any] = {"pattern": "counter", "size": [320, 180], "frames": frames}
    pipeline = Pipeline(sources={"north": source, "south": source}, steps=steps())
    durations: list[float] = []
    with pipeline:
        for changed in () if kind == "none" else edits(kind):
            view = pipeline.view()
            if view is None or not view.is_running:
                break
            begun = time.perf_counter()
            try:
                description = pipeline.description.model_copy(update={"steps": tuple(changed)})
                pipeline.reload(description, prove=0).wait()
            except ConfigurationError:  # it has come to its end meanwhile
                break
            durations.append((time.perf_counter() - begun) * 1000)
            time.sleep(SECONDS_BETWEEN)
        report = pipeline.wait()
    assert_accounted(report)
    assert report.frames == 2 * frames, f"{report.frames} of {2 * frames} frames"
    return report.fps, durations


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Changes of options while a pipeline runs.")
    parser.add_argument("--frames", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    speeds: dict[str, list[float]] = {"none": [], "in_band": [], "rebuilt": []}
    durations: dict[str, list[float]] = {"none": [], "in_band": [], "rebuilt": []}
    run("none", frames=500)
    for _ in range(arguments.rounds):
        for kind in speeds:
            speed, took = run(kind, frames=arguments.frames)
            speeds[kind].append(speed)
            durations[kind] += took
    print(json.dumps({kind: _row(kind, speeds, durations[kind]) for kind in speeds}))


def _row(kind: str, speeds: dict[str, list[float]], durations: list[float]) -> dict[str, Any]:
    ratios = [one / other for one, other in zip(speeds[kind], speeds["none"], strict=True)]
    row: dict[str, Any] = {"fps": round(statistics.median(speeds[kind])), "ratio": round(statistics.median(ratios), 3)}
    if durations:
        row |= {"changes": len(durations), "median_ms": round(statistics.median(durations), 1)}
        row["worst_ms"] = round(max(durations), 1)
    return row


if __name__ == "__main__":
    main()
