"""Lines and zones of a clip, and what they say about a track: crossings and stays."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from tools.world.arrays import Floats

Fraction = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """A named line; `start` and `stop` are fractions of the image."""

    name: str
    start: Fraction
    stop: Fraction


@dataclass(frozen=True, slots=True)
class Zone:
    """A named polygon; its corners are fractions of the image."""

    name: str
    corners: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Crossing:
    """The step that ended at index `step` of a track crossed a line; direction `in` or `out`."""

    step: int
    direction: str


@dataclass(frozen=True, slots=True)
class Stay:
    """A track was inside a zone from index `enter` on and outside again at `leave` (None: still inside)."""

    enter: int
    leave: int | None


def anchors(xyxy: Floats) -> Floats:
    """The middle of the bottom edge of each box: (N, 2)."""
    return np.stack([(xyxy[:, 0] + xyxy[:, 2]) / 2, xyxy[:, 3]], axis=1)


def side(points: Floats, *, start: Floats, stop: Floats) -> Floats:
    """cross(stop - start, point - start) of each point: positive on the right hand of who walks to `stop`."""
    along, across = stop - start, points - start
    sides: Floats = along[0] * across[:, 1] - along[1] * across[:, 0]
    return sides


def crossings(points: Floats, *, line: Line, size_wh: tuple[int, int]) -> list[Crossing]:
    """Crossings of a track of anchors (N, 2), pixels.

    A crossing is a change of the strict side (points exactly on the line keep the last side) whose step,
    from the last point on the old side to the first on the new one, meets the segment.
    """
    start, stop = (np.array(point) * np.array(size_wh, dtype=np.float64) for point in (line.start, line.stop))
    signs = np.sign(side(points, start=start, stop=stop))
    strict = np.flatnonzero(signs)
    found = []
    for before, after in pairwise(strict):
        if signs[before] != signs[after] and _meets(points[before], points[after], start=start, stop=stop):
            found.append(Crossing(int(after), "in" if signs[after] > 0 else "out"))
    return found


def _meets(before: Floats, after: Floats, *, start: Floats, stop: Floats) -> bool:
    """Whether the segment start-stop touches the line through the step (whose ends lie on its two sides)."""
    ends = side(np.stack([start, stop]), start=before, stop=after)
    return bool(ends[0] * ends[1] <= 0)


def inside(points: Floats, *, corners: Floats) -> npt.NDArray[np.bool_]:
    """Whether each point lies in the polygon, by the even-odd rule."""
    within = np.zeros(len(points), dtype=bool)
    x, y = points[:, 0], points[:, 1]
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if y0 == y1:
            continue
        spans = (y0 > y) != (y1 > y)
        within ^= spans & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    return within


def stays(points: Floats, *, zone: Zone, size_wh: tuple[int, int]) -> list[Stay]:
    """Stays of a track of anchors (N, 2), pixels, in a zone."""
    corners = np.array(zone.corners) * np.array(size_wh, dtype=np.float64)
    within = np.concatenate([[False], inside(points, corners=corners), [False]])
    enters = np.flatnonzero(within[1:] & ~within[:-1])
    leaves = np.flatnonzero(~within[1:] & within[:-1])
    return [
        Stay(int(enter), int(leave) if leave < len(points) else None)
        for enter, leave in zip(enters, leaves, strict=True)
    ]
