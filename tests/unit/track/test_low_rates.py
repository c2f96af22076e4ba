"""People who walk through the image are followed over a line at any frame rate, without a wrong crossing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.track.adaptive import AdaptiveOptions, AdaptiveTracker

WIDTH, HEIGHT, SECONDS, NOISE = 1280, 720, 40, 0.015
Boxes = npt.NDArray[np.float32]


def walked(fps: float, *, count: int, missing: float, seed: int = 7) -> Iterator[tuple[Boxes, list[int]]]:
    """Boxes and walkers of each frame: 28 to 52 pixels wide, 60 to 200 pixels a second, from the left or the right."""
    random = np.random.default_rng(seed)
    width, speed = random.uniform(28, 52, count), random.uniform(60, 200, count)
    height, angle = width * random.uniform(2, 2.8, count), random.uniform(-0.5, 0.5, count)
    way = np.where(random.random(count) < 0.5, 1, -1)
    begun, y = random.uniform(-5, SECONDS, count), random.uniform(150, HEIGHT - 20, count)
    for frame in range(int(SECONDS * fps)):
        elapsed = frame / fps - begun
        x = np.where(way > 0, -width, WIDTH + width) + way * speed * np.cos(angle) * elapsed
        feet = y + 0.4 * speed * np.sin(angle) * elapsed
        shown = (elapsed >= 0) & (abs(x - WIDTH / 2) < WIDTH / 2) & (random.random(count) >= missing)
        trembling = 1 + NOISE * random.standard_normal((4, count))
        left, right = x - width / 2 * trembling[0], x + width / 2 * trembling[1]
        boxes = np.stack([left, feet - height * trembling[2], right, feet + height * (trembling[3] - 1)], axis=1)
        yield boxes[shown].astype(np.float32), shown.nonzero()[0].tolist()


def crossings(fps: float, *, count: int, missing: float) -> tuple[int, int, int]:
    """How often a walker passed the middle; how often a track did so with the same walker, and with another one."""
    tracker = AdaptiveTracker(AdaptiveOptions())
    passed = found = wrong = 0
    sides: dict[int, bool] = {}
    tracks: dict[int, tuple[bool, int]] = {}
    for frame, (boxes, walkers) in enumerate(walked(fps, count=count, missing=missing)):
        scores, classes = np.full(len(boxes), 0.8, np.float32), np.zeros(len(boxes), np.int64)
        ids = tracker.update(boxes, scores, classes, pts_ns=round(frame * 1e9 / fps))
        for box, walker, track in zip(boxes, walkers, ids.tolist(), strict=True):
            side = bool(box[0] + box[2] > WIDTH)
            has_passed = sides.get(walker, side) != side
            sides[walker] = side
            passed += has_passed
            before = tracks.get(track, (side, walker))
            if track >= 0:
                tracks[track] = side, walker
                found += has_passed and before == (not side, walker)
                wrong += before[1] != walker and before[0] != side
    return passed, found, wrong


@pytest.mark.parametrize("fps", [2, 5, 8, 12, 30])
@pytest.mark.parametrize(("count", "missing"), [(40, 0.05), (120, 0.15)], ids=["some people", "a crowd"])
def test_crossings_are_found_at_any_frame_rate(fps: float, count: int, missing: float) -> None:
    passed, found, wrong = crossings(fps, count=count, missing=missing)

    assert passed > count / 2
    assert found >= (0.9 if fps == 2 else 0.98) * passed
    assert wrong <= 0.01 * passed
