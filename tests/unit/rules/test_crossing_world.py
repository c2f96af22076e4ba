"""`lines` and `zones` count exactly what the sample world says of tracks, at streets and entrances nobody has seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from tests.unit.rules.stays_world import World, plain_entrance, plain_street
from tools.world.rules import Line, Zone, anchors, crossings, stays

from sightline.devices import Device
from sightline.graph import Site
from sightline.graph.rule import Rule
from sightline.media import Batch
from sightline_plugins import Lines, Zones

LINES = (Line("across", (0.08, 0.62), (0.94, 0.55)), Line("short", (0.45, 0.3), (0.55, 0.95)))
ZONES = (
    Zone("box", ((0.15, 0.5), (0.7, 0.4), (0.85, 0.6), (0.2, 0.9))),
    Zone("notched", ((0.1, 0.35), (0.9, 0.35), (0.9, 0.95), (0.5, 0.5), (0.1, 0.95))),
)


def tracks(batch: Batch) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """The anchors (N, 2) of each track, in order."""
    objects = batch.objects
    found = anchors(objects.xyxy.astype(np.float64))
    return [found[objects.track_id == track_id] for track_id in np.unique(objects.track_id).tolist()]


def totals(element: Rule, batch: Batch) -> dict[str, dict[str, int]]:
    operator = element.build(Site(device=Device()))
    operator.process(batch)
    return {name: dict(own) for name, own in operator.totals()["cam"].items()}


@pytest.mark.parametrize("fps", [5, 10])
@pytest.mark.parametrize(
    ("build", "seed"), [(plain_street, 707), (plain_street, 717), (plain_entrance, 727), (plain_entrance, 737)]
)
def test_lines_and_zones(build: Callable[[int], World], seed: int, fps: int) -> None:
    world = build(seed)
    batch = world.batch(fps=fps, seed=1, noise=0)
    wh = world.camera.size_wh
    crossed = Counter(
        (line.name, crossing.direction)
        for line in LINES
        for points in tracks(batch)
        for crossing in crossings(points, line=line, size_wh=wh)
    )
    entered = Counter(
        zone.name for zone in ZONES for points in tracks(batch) for _ in stays(points, zone=zone, size_wh=wh)
    )
    assert sum(crossed.values()) > 10
    assert min(entered.values()) > 5

    lines = Lines.model_validate({line.name: {"from": line.start, "to": line.stop, "margin": 0} for line in LINES})
    zones = Zones.model_validate({zone.name: {"polygon": zone.corners, "margin": 0} for zone in ZONES})

    assert {(name, way): n for name, own in totals(lines, batch).items() for way, n in own.items() if n} == crossed
    assert {name: own["entered"] for name, own in totals(zones, batch).items()} == entered
