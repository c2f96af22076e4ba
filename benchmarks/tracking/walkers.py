"""People who walk through the image at any frame rate: how many line crossings and zone entries a tracker finds.

Forty people (or a crowd) walk from the left or the right, 60 to 200 pixels a second, with boxes 28 to 52 pixels wide.
What a detector would see of them: 5 % of the boxes missing, gaps of up to 0.4 seconds, nobody who is mostly hidden by
others, sides that tremble by 1.5 % of the box, and confidences that differ from person to person. The truth is what the
same rules find with exact boxes and true ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from benchmarks.tracking.contestants import Contestant, Maker

from sightline.graph import Element
from sightline.media import Batch, Frame, Objects, Origin
from sightline.testing import make_frames, run_element
from sightline_plugins.rules.lines import Lines
from sightline_plugins.rules.zones import Zones

WIDTH, HEIGHT, SECONDS = 1280, 720, 40
RATES = (5, 12, 30, 60)
PERSON = Origin("walkers", ("person",))
LINE = {"from": [0.5, 0], "to": [0.5, 1]}
ZONE = {"polygon": [[0.35, 0], [0.65, 0], [0.65, 1], [0.35, 1]]}
GAPS, LONGEST_GAP_SECONDS, SECONDS_BETWEEN_GAPS = 12, 0.4, 4.0
HIDDEN = 0.6
"""Who is covered to this share by people nearer to the camera is not seen."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Walkers:
    """What is random about people who walk: columns over them, and the noise of a detector."""

    count: int = 40
    seed: int = 7
    missing: float = 0.05
    noise: float = 0.015

    def frames(self, fps: float) -> Iterator[tuple[Batch, Batch]]:
        """Yield each frame with exact boxes and true ids, and with what a detector would see."""
        random = np.random.default_rng(self.seed)
        count = self.count
        width, speed = random.uniform(28, 52, count), random.uniform(60, 200, count)
        height, angle = width * random.uniform(2, 2.8, count), random.uniform(-0.5, 0.5, count)
        way = np.where(random.random(count) < 0.5, 1, -1)
        begun, y = random.uniform(-5, SECONDS, count), random.uniform(150, HEIGHT - 20, count)
        usual = random.uniform(0.5, 0.95, count)
        gaps = random.exponential(SECONDS_BETWEEN_GAPS, (count, GAPS)).cumsum(axis=1)
        gap_ends = gaps + random.uniform(0.1, LONGEST_GAP_SECONDS, gaps.shape)
        (still,) = make_frames(1, size_wh=(WIDTH, HEIGHT))
        for index in range(int(SECONDS * fps)):
            frame = replace(still, index=index, pts_ns=round(index / fps * 1e9))
            elapsed = index / fps - begun
            x = np.where(way > 0, -width, WIDTH + width) + way * speed * np.cos(angle) * elapsed
            feet = y + 0.4 * speed * np.sin(angle) * elapsed
            there = (elapsed >= 0) & (abs(x - WIDTH / 2) < WIDTH / 2)
            exact = np.stack([x - width / 2, feet - height, x + width / 2, feet], axis=1)
            noise = self.noise * random.standard_normal((count, 4)) * np.stack([width, height, width, height], axis=1)
            in_gap = ((gaps <= elapsed[:, None]) & (elapsed[:, None] < gap_ends)).any(axis=1)
            seen = there & ~in_gap & (random.random(count) >= self.missing) & ~_hidden(exact, there)
            confidence = np.clip(usual + 0.04 * random.standard_normal(count), 0.05, 0.99)
            yield (
                _batch(frame, exact[there], confidence[there], track_id=there.nonzero()[0] + 1),
                _batch(frame, (exact + noise)[seen], confidence[seen], track_id=np.full(int(seen.sum()), -1)),
            )


def _hidden(boxes: Floats, there: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return who (N,) is covered by people with feet further down."""
    near = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    far = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = np.prod(np.maximum(far - near, 0), axis=2)
    in_front = there & (boxes[None, :, 3] > boxes[:, None, 3])
    hidden: npt.NDArray[np.bool_] = (shared * in_front).sum(axis=1) > HIDDEN * np.prod(
        boxes[:, 2:] - boxes[:, :2], axis=1
    )
    return hidden


def _batch(frame: Frame, xyxy: Floats, confidence: Floats, *, track_id: npt.NDArray[np.int64]) -> Batch:
    zeros = np.zeros(len(xyxy))
    return Batch(
        (frame,),
        Objects.from_columns(
            frame=zeros, xyxy=xyxy, confidence=confidence, class_id=zeros, track_id=track_id, source=PERSON
        ),
    )


def entries(rule: Element, batches: list[Batch]) -> int:
    """Line crossings of any direction, or zone entries, that a rule finds."""
    events = [event for batch in run_element(rule, batches) for event in batch.events]
    return sum(event.data["direction"] in ("in", "out", "enter") for event in events)


RULES: Mapping[str, Callable[[], Element]] = {
    "line crossings": lambda: Lines.model_validate({"middle": LINE}),
    "zone entries": lambda: Zones.model_validate({"middle": ZONE}),
}


def counted(walkers: Walkers, *, fps: float, maker: Maker) -> dict[str, tuple[int, int]]:
    """How often each rule should find somebody, and how often it does with the ids of a tracker."""
    exact, seen = zip(*walkers.frames(fps), strict=True)
    tracker = maker(fps)
    tracked = [_with_ids(batch, tracker) for batch in seen]
    return {name: (entries(make(), list(exact)), entries(make(), tracked)) for name, make in RULES.items()}


def _with_ids(batch: Batch, tracker: Contestant) -> Batch:
    found = batch.objects
    xyxy, track_id = tracker.update(found.xyxy, found.confidence, batch.frames[0].pts_ns)
    return _batch(batch.frames[0], xyxy.astype(np.float64), np.ones(len(xyxy)), track_id=track_id)


def totals(maker: Maker, *, count: int, fps: float, seeds: int = 4) -> dict[str, tuple[int, int]]:
    """Return the sums of `counted` over several walks."""
    walks = [counted(Walkers(count, seed), fps=fps, maker=maker) for seed in range(seeds)]
    return {name: (sum(one[name][0] for one in walks), sum(one[name][1] for one in walks)) for name in RULES}
