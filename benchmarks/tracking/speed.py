"""What a tracker costs: milliseconds of CPU a frame, trackers in turn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from benchmarks.tracking.contestants import Maker
from benchmarks.tracking.sequences import Floats

FRAMES, FPS, ROUNDS = 120, 25, 9


def moving(count: int) -> list[tuple[Floats, Floats]]:
    """Boxes (N, 4) and confidences (N,) of so many objects that move steadily and tremble, one in twenty missing."""
    random = np.random.default_rng(count)
    columns = int(np.ceil(np.sqrt(count)))
    place = np.stack([np.arange(count) % columns, np.arange(count) // columns], axis=1) * 90.0
    velocity = random.uniform(-2, 2, (count, 2))
    frames = []
    for frame in range(FRAMES):
        corner = place + velocity * frame + random.normal(0, 0.7, (count, 2))
        seen = random.random(count) >= 0.05
        xyxy = np.hstack([corner, corner + np.array([40, 90])])[seen].astype(np.float32)
        frames.append((xyxy, random.uniform(0.6, 0.95, int(seen.sum())).astype(np.float32)))
    return frames


def milliseconds_a_frame(maker: Maker, frames: Sequence[tuple[Floats, Floats]]) -> float:
    """Return the CPU time of one pass."""
    tracker = maker(FPS)
    started = time.thread_time()
    for number, (xyxy, confidence) in enumerate(frames):
        tracker.update(xyxy, confidence, number * 1_000_000_000 // FPS)
    return (time.thread_time() - started) / len(frames) * 1e3


def speeds(makers: Mapping[str, Maker], *, counts: Sequence[int] = (5, 100)) -> dict[str, list[tuple[float, float]]]:
    """Return for each tracker and number of objects the median milliseconds, and the median ratio to the first's."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in makers}
    first = next(iter(makers))
    for count in counts:
        frames = moving(count)
        passes = [{name: milliseconds_a_frame(maker, frames) for name, maker in makers.items()} for _ in range(ROUNDS)]
        for name in makers:
            ratio = median(one[name] / one[first] for one in passes)
            found[name].append((median(one[name] for one in passes), ratio))
    return found
