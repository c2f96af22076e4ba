"""What is only looked at where somebody came or went is what looking everywhere on every frame gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.unit.rules.walkers import SIZE_WH, edges, sampled, wander

from sightline.devices import Device
from sightline.graph import Site
from sightline.graph.rule import Rule
from sightline.media import Batch
from sightline_plugins import Absence, Crowd, Flows, Loitering, Parking, Queue, Zones
from sightline_plugins.rules.geometry import Mask
from sightline_plugins.rules.presence import Presence
from sightline_plugins.rules.stays import Stays
from sightline_plugins.rules.track_table import Ids

AREAS = 5
POLYGONS = {
    "a": [(0.1, 0.2), (0.5, 0.25), (0.45, 0.95), (0.05, 0.9)],
    "b": [(0.4, 0.3), (0.9, 0.35), (0.8, 0.9), (0.45, 0.85)],
    "c": [(0.6, 0.2), (0.95, 0.2), (0.95, 0.7)],
}
RULES: tuple[tuple[type[Rule], dict[str, Any]], ...] = (
    (Crowd, {"at_least": 2, "after": "1s", "clear_after": "500ms"}),
    (Absence, {"after": "1s"}),
    (Flows, {}),
    (Loitering, {"after": "2s"}),
    (Loitering, {"after": "1s", "within": 0.1}),
    (Parking, {"after": "500ms", "overtime": "2s"}),
    (Queue, {"length_limit": 2, "after": "1s", "wait_limit": "3s"}),
    (Queue, {"exit": [[0.3, 0], [0.3, 1]], "speed": 0.2, "wait_limit": "3s"}),
    (Queue, {"exit": [[0.1, 0.3], [0.9, 0.3], [0.9, 0.6]], "length_limit": 1, "after": 0}),
    (Zones, {"dwell": "2s", "limit": 1, "limit_after": "500ms"}),
)


class Anew(Presence):
    """Has nothing of the frame before, so every area is looked at on every frame."""

    def take(self, track_id: Ids, inside: Mask, counted: Mask) -> set[int]:
        self.forget()
        return set(super().take(track_id, inside, counted))


def frames(seed: int) -> Iterator[tuple[Ids, Mask, Mask]]:
    """Tracks that come and go, in any order, some of them twice, and where they are; often as on the frame before."""
    random = np.random.default_rng(seed)
    there = np.arange(6)
    inside = random.uniform(size=(20, AREAS)) < 0.4
    for _ in range(100):
        happens, one = random.uniform(), random.integers(20)
        if happens < 0.1:
            there = random.permutation(20)[: random.integers(0, 10)]
        elif happens < 0.6:
            there = there[there != one] if one in there else np.append(there, one)
        elif happens < 0.65 and len(there) > 1:
            there = np.append(there, there[0])
        moves = np.where(np.isin(np.arange(20), there), random.choice([0, 0.02]), 0.3)
        inside = inside ^ (random.uniform(size=inside.shape) < moves[:, None])
        counted = inside & (random.uniform(size=inside.shape) < random.choice([0.9, 1.0]))
        yield there.astype(np.int64), inside[there], counted[there]


@pytest.mark.parametrize("seed", range(5))
def test_areas_have_changed_exactly_where_others_are_there(seed: int) -> None:
    presence = Presence()
    before: list[tuple[set[int], set[int]]] = []
    visible: set[int] = set()
    kept = 0
    for track_id, inside, counted in frames(seed):
        now = [
            (set(track_id[inside[:, area]].tolist()), set(track_id[counted[:, area]].tolist())) for area in range(AREAS)
        ]
        came = set(track_id.tolist()) - visible

        changed = presence.take(track_id, inside, counted)

        assert list(zip(presence.inside, presence.counted, strict=True)) == now
        assert presence.came == came
        assert presence.rows.keys() == set(track_id.tolist())
        others = {area for area in range(AREAS) if not before or now[area] != before[area]}
        assert others <= changed
        is_twice = len(set(track_id.tolist())) < len(track_id)
        kept += not is_twice and changed == others and len(others) < AREAS
        before, visible = now, set(track_id.tolist())
    assert kept > 20


@pytest.mark.parametrize("outside_ns", [0, 4])
@pytest.mark.parametrize("seed", range(5))
def test_stays_that_rest_need_no_update(seed: int, outside_ns: int) -> None:
    every, some, presence = Stays(), Stays(), Presence()
    rested = 0
    for now_ns, (track_id, inside, counted) in enumerate(frames(seed)):
        changed = presence.take(track_id, inside[:, :1], counted[:, :1])
        options: dict[str, Any] = {
            "inside": presence.inside[0],
            "counted": presence.counted[0],
            "visible": presence.rows.keys(),
            "gone_ns": 6,
            "outside_ns": outside_ns,
        }
        began, ended = every.update(now_ns, **options)
        if not changed and some.rests(now_ns, came=presence.came, gone_ns=6, outside_ns=outside_ns):
            rested += 1
            assert not began
            assert not ended
        else:
            some.update(now_ns, **options)
        assert some.save() == every.save()
        assert some.missing == every.missing
    assert rested > 10


@pytest.mark.parametrize("fps", [6, 25])
@pytest.mark.parametrize(("kind", "options"), RULES)
def test_rules_that_sleep_miss_nothing(
    kind: type[Rule], options: dict[str, Any], fps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = [edges([(x * SIZE_WH[0], y * SIZE_WH[1]) for x, y in polygon]) for polygon in POLYGONS.values()]
    walkers = wander(fps, shapes=shapes, count=8, seconds=20, interval=0, longest_hidden=2.5)
    batches = sampled(walkers, fps=fps, uneven=0.5, noise=2, seed=fps, size=7)
    areas = {name: {"polygon": polygon, **options} for name, polygon in POLYGONS.items()}
    element = kind.model_validate({"gone": "1s", **areas})

    def told() -> list[Any]:
        operator = element.build(Site(device=Device()))
        found: list[Any] = []
        for batch in batches:
            seen = operator.process(batch)
            assert isinstance(seen, Batch)
            found += [(event.frame, event.rule, event.kind, dict(event.data)) for event in seen.events]
            found += [[overlay.counts for overlay in overlays] for overlays in seen.columns.overlays]
        operator.close()
        return [*found, operator.totals()]

    asleep = told()
    monkeypatch.setattr("sightline_plugins.rules.areas.Presence", Anew)
    monkeypatch.setattr("sightline_plugins.rules.zones.Presence", Anew)

    assert asleep == told()
    assert sum(isinstance(one, tuple) for one in asleep) > 5
