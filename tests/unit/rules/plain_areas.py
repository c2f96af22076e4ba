"""Who is in areas when, worked out plainly from where tracks are on each frame: for tests of rules on true tracks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sightline.media import Batch

SECOND = 1_000_000_000
GONE = SECOND
AREAS = {
    "a": [(0.1, 0.35), (0.5, 0.4), (0.45, 0.95), (0.05, 0.9)],
    "b": [(0.6, 0.3), (0.95, 0.35), (0.9, 0.9), (0.55, 0.85)],
}
Times = npt.NDArray[np.int64]
"""Nanoseconds of the frames."""
Where = npt.NDArray[np.int8]
"""Of one track on each frame: 1 inside, 0 seen outside, -1 not seen."""


@dataclass(frozen=True)
class Stay:
    """The frames on which it began, on which the track was first missing, and on which that was known to be its end."""

    first: int
    missing: int
    known: int


def times_of(batches: Sequence[Batch]) -> Times:
    return np.array([frame.pts_ns for batch in batches for frame in batch.frames])


def ways(batches: Sequence[Batch], name: str) -> dict[int, Where]:
    """Where each track is on each frame, by winding: the angles from the anchor to the corners add up to a turn."""
    width, height = batches[0].frames[0].size_wh
    corners = np.array(AREAS[name]) * (width, height)
    count, found, first = sum(len(batch) for batch in batches), dict[int, Where](), 0
    for batch in batches:
        left, _, right, bottom = batch.objects.xyxy.astype(np.float64).T
        offset = corners - np.stack([(left + right) / 2, bottom], axis=1)[:, None]
        angles = np.arctan2(offset[..., 1], offset[..., 0])
        turns = np.angle(np.exp(1j * (np.roll(angles, -1, axis=1) - angles))).sum(axis=1)
        inside = (np.abs(turns) > np.pi).tolist()
        for frame, track_id, here in zip(
            batch.objects.frame.tolist(), batch.objects.track_id.tolist(), inside, strict=True
        ):
            found.setdefault(track_id, np.full(count, -1, np.int8))[first + frame] = here
        first += len(batch)
    return found


def stays(where: Where, times: Times, *, outside: int) -> list[Stay]:
    """A stay ends when the track has been missing for `outside` and was seen outside, or was not seen for `GONE`."""
    found: list[Stay] = []
    inside, first = np.flatnonzero(where == 1).tolist(), None
    for here, there in pairwise([*inside, len(where)]):
        first = here if first is None else first
        for frame in range(here + 1, there):
            was_seen = bool((where[here + 1 : frame + 1] == 0).any())
            if times[frame] - times[here + 1] >= (outside if was_seen else GONE):
                found.append(Stay(first, here + 1, frame))
                first = None
                break
    return found if first is None else [*found, Stay(first, len(where), len(where))]


def occupancy(found: Sequence[Stay], count: int) -> npt.NDArray[np.intp]:
    return np.array([sum(stay.first <= frame < stay.known for stay in found) for frame in range(count)])


def runs(holds: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First frame and end of each run of frames on which something holds."""
    edge = np.flatnonzero(np.diff([False, *holds, False]))
    return list(zip(edge[::2].tolist(), edge[1::2].tolist(), strict=True))
