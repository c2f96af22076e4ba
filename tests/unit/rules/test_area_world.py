"""Rules on areas against a plain computation: on the true tracks of the sample clips, of streets and entrances that
nobody has seen, and on walkers of any seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.unit.rules.plain_areas import AREAS, GONE, SECOND, occupancy, runs, stays, times_of, ways
from tests.unit.rules.stays_world import plain_entrance, plain_street
from tests.unit.rules.walkers import SIZE_WH, edges, sampled, wander

from sightline.devices import Device
from sightline.graph import Site
from sightline.graph.rule import Rule
from sightline.media import Batch, Objects, Origin
from sightline.testing import make_batches, make_frames
from sightline_plugins import Absence, Crowd, Flows, Loitering, Queue

AFTER = 2 * SECOND


def clip(repository: Path, name: str) -> list[Batch]:
    table = np.loadtxt(repository / "sample_videos" / f"{name}.mot.txt", delimiter=",")
    batches = []
    for batch in make_batches(make_frames(540, size_wh=(640, 360), fps=25), size=90):
        own = table[np.isin(table[:, 0] - 1, [frame.index for frame in batch.frames])]
        objects = Objects.from_columns(
            frame=own[:, 0] - 1 - batch.frames[0].index,
            xyxy=np.concatenate([own[:, 2:4], own[:, 2:4] + own[:, 4:6]], axis=1),
            confidence=np.ones(len(own)),
            class_id=np.zeros(len(own)),
            track_id=own[:, 1],
            source=Origin("truth", ("thing",)),
        )
        batches.append(batch.with_objects(objects))
    return batches


@cache
def scene(repository: Path, name: str) -> list[Batch]:
    kind, _, seed = name.partition(" ")
    if seed:
        world = plain_street(int(seed)) if kind == "street" else plain_entrance(int(seed))
        return [world.batch(fps=5, seed=int(seed))]
    if not name.isdigit():
        return clip(repository, name)
    shapes = [edges([(x * SIZE_WH[0], y * SIZE_WH[1]) for x, y in polygon]) for polygon in AREAS.values()]
    walkers = wander(int(name), shapes=shapes, count=6, seconds=30, interval=0, longest_hidden=2.5)
    return sampled(walkers, fps=11, uneven=0.6, seed=int(name))


def totals(rule: Rule, batches: Sequence[Batch]) -> dict[str, dict[str, object]]:
    operator = rule.build(Site(device=Device()))
    for batch in batches:
        operator.process(batch)
    operator.close()
    return {name: dict(own) for name, own in operator.totals()["cam"].items()}


def element(kind: type[Rule], names: str = "a", **options: object) -> Rule:
    return kind.model_validate(
        {"gone": GONE / SECOND, **{name: {"polygon": AREAS[name], "margin": 0, **options} for name in names}}
    )


@pytest.fixture(params=["entrance", "street", "11", "entrance 808", "entrance 809", "street 909"])
def batches(request: pytest.FixtureRequest, repository: Path) -> list[Batch]:
    return scene(repository, request.param)


def test_crowds_and_absences(batches: list[Batch]) -> None:
    times, where = times_of(batches), ways(batches, "a")
    inside = occupancy([stay for own in where.values() for stay in stays(own, times, outside=0)], len(times))
    crowds = [0]
    for first, end in pairwise([0, *(np.flatnonzero(np.diff(inside >= 2)) + 1).tolist(), len(times)]):
        lasts = times[end - 1] - times[first] >= AFTER
        if lasts and bool(inside[first] >= 2) != bool(crowds[-1]):
            crowds.append(int(not crowds[-1]))
    empty = runs(np.array([own == 1 for own in where.values()]).sum(axis=0) == 0)
    absences = sum(
        any(times[frame] - times[first] >= AFTER and not inside[frame] for frame in range(first, end))
        for first, end in empty
    )

    crowd = totals(element(Crowd, at_least=2, after=AFTER / SECOND), batches)["a"]
    assert (crowd["crowds"], crowd["largest"]) == (sum(crowds), inside.max())
    assert totals(element(Absence, after=AFTER / SECOND), batches)["a"]["absences"] == absences


def test_loiterers_and_waits(batches: list[Batch]) -> None:
    times, where = times_of(batches), ways(batches, "a")
    found = [(stay, own) for own in where.values() for stay in stays(own, times, outside=GONE)]
    loiterers = sum(
        bool(((own == 1) & (times - times[stay.first] >= AFTER))[stay.first : stay.known].any()) for stay, own in found
    )
    waits = [times[stay.missing] - times[stay.first] for stay, _ in found if stay.known < len(times)]

    assert totals(element(Loitering, after=AFTER / SECOND), batches)["a"]["loiterers"] == loiterers
    queue = totals(element(Queue), batches)["a"]
    assert queue["served"] == len(waits)
    assert queue["longest_wait_seconds"] == pytest.approx(max(waits) / SECOND, abs=0.001)


def test_flows(batches: list[Batch]) -> None:
    times = times_of(batches)
    entered: dict[int, list[tuple[int, str]]] = {}
    for name in AREAS:
        for track_id, own in ways(batches, name).items():
            entered.setdefault(track_id, []).extend((stay.first, name) for stay in stays(own, times, outside=0))
    trips = Counter(
        (before, after)
        for own in entered.values()
        for (_, before), (_, after) in pairwise(sorted(own))
        if before != after
    )

    matrix = totals(element(Flows, "ab"), batches)
    assert {(one, other): n for one, own in matrix.items() for other, n in dict(own["to"]).items()} == dict(trips)  # type: ignore[call-overload]
