"""Who is near whom in many areas at once is what each area finds by itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sightline_plugins.rules.nearness import NearChange, Nearness

AREAS, TRACKS, FRAMES = 4, 9, 120
SECOND = 1_000_000_000
DISTANCE = np.array([1.0, 2.0, 0.5, 3.0])
AFTER_NS = np.array([0, SECOND // 2, SECOND // 5, SECOND], np.int64)


@pytest.mark.parametrize("seed", range(3))
def test_areas_know_nothing_of_each_other(seed: int) -> None:
    random = np.random.default_rng(seed)
    places = random.uniform(0, 6, (TRACKS, 2))
    together, alone = Nearness(), [Nearness() for _ in range(AREAS)]
    changes = 0
    for frame in range(FRAMES):
        now_ns = frame * SECOND // 5
        places += random.normal(0, 0.3, places.shape)
        seen, area = np.nonzero(random.uniform(size=(TRACKS, AREAS)) < 0.8)
        metres = places[seen] + area[:, None]

        found = together.update(area, seen + 1, metres, distance=DISTANCE, after_ns=AFTER_NS, now_ns=now_ns)

        expected: list[tuple[int, NearChange]] = []
        for number, own in enumerate(alone):
            here = area == number
            count = int(here.sum())
            limits = {"distance": DISTANCE[[number]], "after_ns": AFTER_NS[[number]]}
            told = own.update(np.zeros(count, np.intp), seen[here] + 1, metres[here], **limits, now_ns=now_ns)
            expected += [(number, change) for _, change in told]
        assert sorted(found, key=lambda one: one[0]) == expected
        assert [together.counted()[number] for number in range(AREAS)] == [own.counted()[0] for own in alone]
        changes += len(found)
        if frame == FRAMES // 2:
            saved = json.loads(json.dumps(together.save()))
            together = Nearness()
            together.restore(saved, {number: number for number in range(AREAS)})
    assert changes > 40


def test_pairs_go_with_their_areas() -> None:
    nearness = Nearness()
    area, track_id, places = np.array([0, 0, 1, 1]), np.array([1, 2, 3, 4]), np.zeros((4, 2))
    nearness.update(area, track_id, places, distance=np.ones(2), after_ns=np.zeros(2, np.int64), now_ns=0)

    nearness.renumber({1: 0})

    assert nearness.counted() == {0: 1}
    assert [(number, change.pair) for number, change in nearness.clear({0})] == [(0, (3, 4))]
    assert nearness.is_idle()
