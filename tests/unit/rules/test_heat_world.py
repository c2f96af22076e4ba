"""`heat_map` against sums worked out one step after another, on true tracks of streets and entrances that nobody has
seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil, floor, nextafter

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.rules.stays_world import LABELS, plain_entrance, plain_street

from sightline.devices import Device
from sightline.graph import Outputs, Site
from sightline.media import Batch
from sightline_plugins import HeatMaps
from sightline_plugins.rules.heat_map import StreamHeat

Floats = npt.NDArray[np.float64]
Point = tuple[float, float]
Step = tuple[int, Point, Point, float]
"""A track, where it was and is in cells, and the seconds in between."""
GRID = (32, 18)
LONGEST = 2.0
"""Seconds after which a track that was not seen was elsewhere."""
PART = [(0.15, 0.3), (0.85, 0.4), (0.6, 0.95)]
WORLDS = {"entrance": plain_entrance, "street": plain_street}


def steps(batch: Batch, *, label: str | None = None) -> Iterator[Step]:
    """What each track has done since it was last seen; one that is new stands there since the frame before."""
    (width, height), times = batch.frames[0].size_wh, [frame.pts_ns / 1e9 for frame in batch.frames]
    last: dict[int, tuple[float, Point]] = {}
    objects = batch.objects
    for frame, track_id, class_id, (left, _, right, bottom) in zip(
        objects.frame.tolist(),
        objects.track_id.tolist(),
        objects.class_id.tolist(),
        objects.xyxy.tolist(),
        strict=True,
    ):
        now = times[frame]
        here = _within(GRID[0], (left + right) / 2 / width), _within(GRID[1], bottom / height)
        before, there = last.get(track_id, (-LONGEST - 1, here))
        if now - before > LONGEST + 1e-9:
            before, there = times[max(frame - 1, 0)], here
        last[track_id] = now, here
        if label is None or LABELS[class_id] == label:
            yield track_id, there, here, now - before


def _within(cells: int, share: float) -> float:
    """A coordinate in cells; what is beyond the edge of the frame counts in its outer cells."""
    return min(max(share * cells, 0.0), nextafter(cells, 0.0))


def pieces(there: Point, here: Point) -> Iterator[tuple[int, int, float]]:
    """The column and the row of each cell on a straight way, with the share of the way that is in it."""
    cuts = {0.0, 1.0}
    for start, end in zip(there, here, strict=True):
        low, high = sorted((start, end))
        cuts |= {(edge - start) / (end - start) for edge in range(ceil(low), floor(high) + 1) if start != end}
    for first, last in pairwise(sorted(cuts)):
        x, y = (start + (end - start) * (first + last) / 2 for start, end in zip(there, here, strict=True))
        yield floor(x), floor(y), last - first


def is_in_part(column: int, row: int) -> bool:
    """Whether the middle of a cell is in the triangle: on the same side of all three edges."""
    x, y = (column + 0.5) / GRID[0], (row + 0.5) / GRID[1]
    return all((x2 - x1) * (y - y1) >= (y2 - y1) * (x - x1) for (x1, y1), (x2, y2) in pairwise([*PART, PART[0]]))


def maps(batch: Batch) -> StreamHeat:
    options = {
        "feet": {"grid": GRID},
        "paths": {"grid": GRID, "measure": "paths", "classes": ["person"]},
        "dwell": {"grid": GRID, "measure": "dwell", "polygon": PART},
    }
    operator = HeatMaps.model_validate(options).build(Site(device=Device(), outputs=Outputs(None)))
    operator.process(batch)
    state = operator._latest["cam"]
    assert isinstance(state, StreamHeat)
    return state


@pytest.mark.parametrize(("kind", "seed", "fps"), [("entrance", 611, 10), ("street", 612, 5), ("street", 613, 10)])
def test_cells_hold_the_seconds_and_the_tracks_of_the_truth(kind: str, seed: int, fps: int) -> None:
    batch = WORLDS[kind](seed).batch(fps=fps, seed=seed)
    feet, time_there = np.zeros(GRID[::-1]), np.zeros(GRID[::-1])
    walked: set[tuple[int, int, int]] = set()
    there: set[tuple[int, int, int]] = set()
    for track_id, before, here, seconds in steps(batch):
        for column, row, share in pieces(before, here):
            feet[row, column] += share * seconds
            if is_in_part(column, row):
                time_there[row, column] += share * seconds
                there.add((track_id, row, column))
    for track_id, before, here, _ in steps(batch, label="person"):
        walked |= {(track_id, row, column) for column, row, _ in pieces(before, here)}
    came, passed = (
        np.bincount([row * GRID[0] + column for _, row, column in own], minlength=GRID[0] * GRID[1]).reshape(GRID[::-1])
        for own in (there, walked)
    )

    state = maps(batch)

    assert state.values("feet") == pytest.approx(feet, abs=1e-6)
    assert state.values("paths").tolist() == passed.tolist()
    assert state.values("dwell") == pytest.approx(time_there / np.maximum(came, 1), abs=1e-6)
    assert dict(state.totals()) == {
        "feet": {"seconds": pytest.approx(feet.sum(), abs=1e-3), "tracks": 0},
        "paths": {"seconds": pytest.approx(sum(step[3] for step in steps(batch, label="person")), abs=1e-3)}
        | {"tracks": len({track_id for track_id, _, _ in walked})},
        "dwell": {"seconds": pytest.approx(time_there.sum(), abs=1e-3)}
        | {"tracks": len({track_id for track_id, _, _ in there})},
    }
    assert min(len(walked), len(there)) > 50, "there was something to count"
