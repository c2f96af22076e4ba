"""Since when objects stand is what the plain definition says, at every frame."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.rules.standing import Standings

SECOND_NS = 1_000_000_000
STEPS = 16


@dataclass
class PlainStanding:
    """The definition, one object after another: extremes of its path as monotonic queues of time, value, next time."""

    side: float
    span_ns: int
    since_ns: int | None = None
    last_ns: int = 0
    extremes: list[deque[list[int]]] = field(default_factory=lambda: [deque() for _ in range(4)])

    def update(self, now_ns: int, x: float, y: float) -> int:
        since_ns = now_ns if self.since_ns is None else self.since_ns
        oldest_ns = min(now_ns - self.span_ns, self.last_ns)
        for place, position in ((0, x), (2, y)):
            value = round(position * STEPS / self.side)
            lowest, highest = self.extremes[place : place + 2]
            for extremes in (lowest, highest):
                if extremes:
                    extremes[-1][2] = now_ns
                while extremes and extremes[0][0] < oldest_ns:
                    extremes.popleft()
            while highest and lowest and max(value, highest[0][1]) - min(value, lowest[0][1]) > STEPS:
                earlier = lowest if lowest[0][0] < highest[0][0] else highest
                since_ns = max(since_ns, earlier.popleft()[2])
            while lowest and lowest[-1][1] >= value:
                lowest.pop()
            while highest and highest[-1][1] <= value:
                highest.pop()
            lowest.append([now_ns, value, now_ns])
            highest.append([now_ns, value, now_ns])
        self.since_ns, self.last_ns = since_ns, now_ns
        return since_ns


def paths(objects: int, frames: int, *, seed: int) -> npt.NDArray[np.float64]:
    """Return paths (frames, objects, 2) of objects that stand, creep and jump."""
    random = np.random.default_rng(seed)
    speed = random.choice([0.0, 0.3, 3.0, 30.0], (frames, objects, 1), p=[0.4, 0.3, 0.25, 0.05])
    return np.cumsum(random.normal(0, 1, (frames, objects, 2)) * speed, axis=0) + 500


@pytest.mark.parametrize("seed", [1, 2])
def test_standing_is_that_of_the_plain_definition_also_after_a_restart(seed: int) -> None:
    random = np.random.default_rng(seed)
    way, spans_ns = paths(20, 300, seed=seed), np.array([SECOND_NS, 5 * SECOND_NS])
    areas = np.arange(20) % 2
    standings, plain = Standings(), [PlainStanding(10.0 + 3 * one, int(spans_ns[one % 2])) for one in range(20)]
    rows = [standings.begin(one.side) for one in plain]
    now_ns, stood = 0, 0
    for frame, places in enumerate(way):
        now_ns += int(random.uniform(0.01, 0.2) * SECOND_NS)
        xyxy = np.tile(places, 2).astype(np.float32) + np.array([-4, -20, 4, 0], np.float32)
        seen = np.flatnonzero(random.random(20) < 0.9).tolist()
        if frame == 150:
            saved = json.loads(json.dumps([standings.save(row) for row in rows]))
            standings = Standings()
            rows = [standings.restore(one) for one in saved]
        found = standings.update(
            np.array([rows[one] for one in seen], np.int64),
            boxes=np.array(seen, np.int64),
            areas=areas[seen],
            xyxy=xyxy,
            fractions=np.array([[0.5, 1.0], [0.5, 0.5]]),
            spans_ns=spans_ns,
            now_ns=now_ns,
        )
        for one, since_ns in zip(seen, found.tolist(), strict=True):
            left, top, right, bottom = xyxy[one].tolist()
            y = top + (bottom - top) * (0.5 if one % 2 else 1.0)
            assert since_ns == plain[one].update(now_ns, left + (right - left) * 0.5, y)
            stood += since_ns < now_ns - SECOND_NS
    assert stood > 500, "some stand"


def test_a_row_that_is_free_again_begins_anew() -> None:
    standings = Standings()
    first = standings.begin(10.0)
    spot, still = np.array([[10.0, 10.0, 20.0, 20.0]], np.float32), np.array([[0.5, 0.5]])
    for row, now_ns, since_ns in ((first, 0, 0), (first, 9, 0)):
        found = standings.update(
            np.array([row]),
            boxes=np.zeros(1, np.int64),
            areas=np.zeros(1, np.int64),
            xyxy=spot,
            fractions=still,
            spans_ns=np.array([99]),
            now_ns=now_ns,
        )
        assert found.tolist() == [since_ns]
    standings.end(first)
    again = standings.begin(10.0)
    found = standings.update(
        np.array([again]),
        boxes=np.zeros(1, np.int64),
        areas=np.zeros(1, np.int64),
        xyxy=spot,
        fractions=still,
        spans_ns=np.array([99]),
        now_ns=20,
    )
    assert (again, found.tolist()) == (first, [20])
