"""Analytics: what heat maps and the occupancy of zones cost each frame, beside all of the pipeline's CPU time.

    python -m benchmarks.analytics [--rounds 5] [--streams 4]

The sample world is detected, tracked and judged by a line and four zones, on one thread of the engine, as fast as it
goes: in turn with what the server collects and without. The time within the collectors is that of their threads, so
that other work on the machine does not count; the difference of the whole shows that nothing is hidden elsewhere.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.pipelines.document import machine
from sightline import Batch, Pipeline
from sightline.graph.site import SystemClock
from sightline.media import Overlay
from sightline.runtime.scheduling.rule_findings import RuleFindings
from sightline.server.heat import HeatMaps
from sightline.server.history_store import HistoryStore

FRAMES = 300
ZONES = {
    f"part-{number}": {"polygon": [[x, 0], [x + 0.25, 0], [x + 0.25, 1], [x, 1]]}
    for number, x in enumerate((0, 0.25, 0.5, 0.75))
}
STEPS: list[Any] = [
    {"detect": {"model": "models/street.onnx"}},
    "track",
    {"lines": {"road": {"from": [0.18, 0.62], "to": [0.82, 0.58]}}},
    {"zones": ZONES},
]


class Timed:
    """A function whose CPU time, in its own thread, is added up."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.seconds = 0.0

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        begun = time.thread_time()
        try:
            return self._function(*arguments)
        finally:
            self.seconds += time.thread_time() - begun


def run(streams: int, collect: Callable[[Batch], None] | None, folder: Path) -> float:
    """CPU time of the process for each frame, in seconds."""
    sources = {f"street-{number}": "sample_videos/street.mp4" for number in range(streams)}
    pipeline = Pipeline(sources=sources, steps=STEPS, device="cpu", outputs=folder)
    if collect is not None:
        pipeline.on_batches(lambda batch, _: collect(batch))
    begun = time.process_time()
    pipeline.run(frames=FRAMES)
    return (time.process_time() - begun) / FRAMES / streams


def counting_seconds(zones: int) -> float:
    """CPU time of counting who is inside, for a frame."""
    findings = RuleFindings("zones-1", on_events=None)
    shapes = tuple(Overlay("zone", f"zone-{number}", (), (("inside", 3), ("visitors", 9))) for number in range(zones))
    count: Callable[[str, Sequence[Overlay]], None] = findings._count_inside  # noqa: SLF001  what is measured
    begun = time.thread_time()
    for _ in range(20_000):
        count("street", shapes)
    return (time.thread_time() - begun) / 20_000


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=4)
    asked = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, load {os.getloadavg()[0]:.1f}\n")
    without, with_it, within = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = HistoryStore(folder / "benchmark.history")
        for _ in range(asked.rounds):
            without.append(run(asked.streams, None, folder))
            take = Timed(HeatMaps(store, clock=SystemClock()).take)
            with_it.append(run(asked.streams, take, folder))
            within.append(take.seconds / FRAMES / asked.streams)
        store.close()
    whole, heat, zones = statistics.median(without), statistics.median(within), counting_seconds(len(ZONES))
    print(f"pipeline without: {1e3 * whole:.2f} ms of CPU a frame; with: {1e3 * statistics.median(with_it):.2f} ms")
    print(f"heat maps: {1e6 * heat:.1f} us a frame; occupancy of {len(ZONES)} zones: {1e6 * zones:.1f} us a frame")
    print(f"together: {100 * (heat + zones) / whole:.2f} % of the pipeline's CPU time")


if __name__ == "__main__":
    main()
