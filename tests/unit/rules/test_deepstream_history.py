"""The histories of all objects of a frame at once are those of lists of samples, object by object."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import pvariance

import pytest
from tests.unit.rules.walkers import sampled, wander

from sightline.graph.tracked_objects import TrackedObjects
from sightline_plugins.rules.deepstream_history import ObjectHistories


@dataclass
class Plain:
    """One object as nvdsanalytics keeps it: all its samples (x, y, width, height), of which the newest count."""

    ring: int
    seen_ns: int = 0
    samples: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add(self, box: list[float], now_ns: int) -> None:
        left, top, width, height = int(box[0]), int(box[1]), int(box[2] - box[0]), int(box[3] - box[1])
        self.samples.append((left + width // 2, top + height // 2, width, height))
        self.seen_ns = now_ns

    def before(self) -> list[int]:
        newest = self.samples[-self.ring :]
        oldest = newest[:2] if len(newest) < self.ring else newest[:4]
        return [sum(column) // len(oldest) for column in zip(*oldest, strict=True)]

    def mean_height(self) -> float:
        newest = self.samples[-self.ring :]
        return sum(height for *_, height in newest) / len(newest)

    def is_still(self) -> bool:
        x, y, _, _ = zip(*self.samples[-self.ring :], strict=True)
        return len(self.samples) > self.ring and pvariance(x) <= 400 and 100 * pvariance(y) <= self.mean_height()


@pytest.mark.parametrize(("ring", "seed"), [(50, 1), (8, 2)])
def test_histories_are_those_of_each_object_by_itself(ring: int, seed: int) -> None:
    walkers = wander(seed, shapes=[], seconds=20, longest_hidden=0.6, interval=0.5)
    histories, plain = ObjectHistories(ring), dict[int, Plain]()
    checked = still = gone = 0

    for batch in sampled(walkers, fps=25, noise=0.4, seed=seed, size=40):
        tracks = TrackedObjects.of(batch, range(len(batch)), times_ns=[0] * len(batch))
        for now_ns, own in zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True):
            forgotten = {one: own.seen_ns for one, own in plain.items() if (now_ns - own.seen_ns) // 1_000_000 > 300}
            assert histories.forget(now_ns) == forgotten
            plain = {one: own for one, own in plain.items() if one not in forgotten}
            seen = histories.add(tracks, own, now_ns=now_ns)
            for row, track_id in enumerate(seen.track_id.tolist()):
                one = plain.setdefault(track_id, Plain(ring))
                one.add(tracks.xyxy[own][row].tolist(), now_ns)
                assert seen.frames[row] == len(one.samples)
                assert tuple(seen.sample[row]) == one.samples[-1]
                assert len(one.samples) < 2 or seen.before[row].tolist() == one.before()
                assert seen.mean_height[row] == pytest.approx(one.mean_height())
                assert seen.is_still[row] == one.is_still()
                checked, still = checked + 1, still + one.is_still()
            gone += len(forgotten)

    assert checked > 500
    assert gone > 3
    assert 0 < still < checked
