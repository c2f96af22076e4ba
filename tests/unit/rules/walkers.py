"""Walkers on known ways, seen at any frame rate: what crosses a line or stays in a zone is worked out exactly.

A walker goes in straight legs, so the truth is a matter of solving linear equations and does not depend on frames.
`sampled` sees walkers at 1 to 60 frames a second, with irregular frames, hidden times and boxes that tremble.

A camera cannot see everything: who crosses a line and returns between two frames has not crossed it in any of them. A
crossing is *visible* at an interval when, for that long before and after it, the walker is on the same leg and crosses
no other edge of the shape: then at least one frame sees it on either side, and its step goes along the true way.
`wander` makes walkers all of whose crossings are visible, so that totals have to be the same at every frame rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Frame, Objects, Origin
from sightline.testing import make_frames

SIZE_WH, BOX_WH = (1280, 720), (40.0, 100.0)
LABELS = ("person", "car")
NANOSECONDS = 1_000_000_000
AFTERWARDS = 8.0
"""Seconds for which nobody is seen at the end."""

Floats = npt.NDArray[np.float64]
Point = tuple[float, float]
Interval = tuple[float, float]
"""From and to, in seconds."""
FOREVER = (-np.inf, np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Walker:
    """Goes straight from point to point (the middle of the box's bottom edge, in pixels), and is at each at its time.

    It is seen from the first time to the last, except in the intervals `hidden`.
    """

    track_id: int
    seconds: tuple[float, ...]
    points: tuple[Point, ...]
    hidden: tuple[Interval, ...] = ()
    label: str = "person"
    box_wh: tuple[float, float] = BOX_WH

    def at(self, seconds: Floats) -> Floats:
        """Return where it is at times (T,), as (T, 2); NaN where it is not seen."""
        axes = [
            np.interp(seconds, self.seconds, axis, left=np.nan, right=np.nan) for axis in zip(*self.points, strict=True)
        ]
        places = np.stack(axes, axis=1)
        for begin, end in self.hidden:
            places[(begin <= seconds) & (seconds < end)] = np.nan
        return places

    def legs(self) -> Iterator[tuple[Interval, Floats, Floats]]:
        """Yield the time, the beginning and the end of each leg."""
        ways = pairwise(np.array(self.points, np.float64))
        for interval, (start, end) in zip(pairwise(self.seconds), ways, strict=True):
            yield interval, start, end


def walker(*stops: tuple[float, float, float], track_id: int = 1, hidden: Sequence[Interval] = ()) -> Walker:
    """Return a walker by the second and the place of each of its `stops`."""
    return Walker(track_id, tuple(at for at, _, _ in stops), tuple((x, y) for _, x, y in stops), tuple(hidden))


def edges(polygon: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Return the edges of a polygon, each with both its ends."""
    return list(zip(polygon, [*polygon[1:], polygon[0]], strict=True))


def crossings(way: Walker, start: Point, end: Point) -> list[tuple[float, str]]:
    """Return when a walker crosses the line from `start` to `end`, and in which direction: `in` or `out`.

    `in` is from the left-hand to the right-hand side of somebody who goes along the line. Hidden or not, it crosses.
    """
    return [(at, "in" if sign > 0 else "out") for at, sign, _ in _meetings(way, start, end)]


def stays(way: Walker, polygon: Sequence[Point]) -> list[Interval]:
    """Return the intervals that a walker spends inside a polygon, hidden or not."""
    times = sorted(at for start, end in edges(polygon) for at, _, _ in _meetings(way, start, end))
    times = [way.seconds[0], *times, way.seconds[-1]]
    return [(begin, end) for begin, end in pairwise(times) if end > begin and _is_inside(way, polygon, begin, end)]


def are_visible(way: Walker, shape: Iterable[tuple[Point, Point]], *, interval: float) -> bool:
    """Return whether each crossing of an edge of one shape is visible to frames at most this many seconds apart.

    The longest hidden time of the walker counts to the interval.
    """
    interval += max((end - begin for begin, end in way.hidden), default=0.0)
    found = sorted((at, leg) for start, end in shape for at, _, leg in _meetings(way, start, end))
    on_one_leg = all(leg[0] + interval <= at <= leg[1] - interval for at, leg in found)
    return on_one_leg and all(after - before > interval for (before, _), (after, _) in pairwise(found))


def wander(
    seed: int,
    *,
    shapes: Sequence[Sequence[tuple[Point, Point]]],
    count: int = 8,
    seconds: float = 60.0,
    interval: float = 1.0,
    longest_hidden: float = 0.0,
    clearance: float = 0.0,
    size_wh: tuple[int, int] = SIZE_WH,
) -> list[Walker]:
    """Return walkers who go here and there; each of their crossings of `shapes` is visible at this interval.

    They cross lines and zones again and again, are hidden now and then for up to `longest_hidden` seconds, turn no
    nearer to an edge than `clearance` pixels, and pass no nearer to an end of one. An `interval` of 0 allows crossings
    that no frame sees.
    """
    random = np.random.default_rng(seed)
    longest = interval + longest_hidden
    walkers = []
    for number in range(count):
        hidden: list[Interval] = []
        at = random.uniform(0, 2)
        while longest_hidden and (at := at + random.uniform(2, 10)) < seconds:
            hidden.append((at, at + random.uniform(0.2, 1) * longest_hidden))
            at = hidden[-1][1]
        way = Walker(number + 1, (random.uniform(0, 3),), (_place(random, size_wh, shapes, clearance),), tuple(hidden))
        while way.seconds[-1] < seconds:
            arrival = way.seconds[-1] + random.uniform(2, 5) * max(longest, 0.5)
            longer = Walker(
                way.track_id,
                (*way.seconds, arrival),
                (*way.points, _place(random, size_wh, shapes, clearance)),
                way.hidden,
            )
            _, here, there = list(longer.legs())[-1]
            is_clear = all(
                _distance(end, (here, there)) >= clearance for shape in shapes for edge in shape for end in edge
            )
            if is_clear and (not interval or all(are_visible(longer, shape, interval=interval) for shape in shapes)):
                way = longer
        walkers.append(way)
    return walkers


def sampled(
    walkers: Sequence[Walker],
    *,
    fps: float,
    seconds: float | None = None,
    uneven: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
    size: int = 64,
    size_wh: tuple[int, int] = SIZE_WH,
    stream: str = "cam",
) -> list[Batch]:
    """Return what a camera with `fps` sees of walkers, in batches of `size` frames.

    It looks for so many seconds: until `AFTERWARDS` when the last one has gone, by default.
    Frames are early or late by up to half of `uneven` of their interval (0 to 1), so that the longest interval is
    (1 + `uneven`) / `fps`. The edges of boxes are off by up to `noise` pixels (uniform).
    """
    random = np.random.default_rng(seed)
    if seconds is None:
        seconds = max(one.seconds[-1] for one in walkers) + AFTERWARDS
    count = int(seconds * fps)
    late = random.uniform(-0.5, 0.5, count) * uneven
    times = np.maximum((np.arange(count) + late) / fps, 0.0)
    times_ns = np.round(times * NANOSECONDS).astype(np.int64)
    surface = make_frames(1, size_wh=size_wh, stream=stream)[0]
    frames = [Frame(surface.stream, index, int(pts_ns), surface.surface) for index, pts_ns in enumerate(times_ns)]
    boxes = np.stack([_boxes(one, times) for one in walkers], axis=1)
    boxes += random.uniform(-noise, noise, boxes.shape)
    classes = np.array([LABELS.index(one.label) for one in walkers])
    ids = np.array([one.track_id for one in walkers])
    batches = []
    for first in range(0, count, size):
        own = boxes[first : first + size]
        frame, row = np.nonzero(~np.isnan(own[..., 0]))
        objects = Objects.from_columns(
            frame=frame,
            xyxy=own[frame, row],
            confidence=np.full(len(row), 0.9),
            class_id=classes[row],
            track_id=ids[row],
            source=Origin("walkers", LABELS),
        )
        batches.append(Batch(tuple(frames[first : first + size]), objects))
    return batches


def _boxes(way: Walker, seconds: Floats) -> Floats:
    width, height = way.box_wh
    boxes: Floats = np.tile(way.at(seconds), 2) + np.array([-width / 2, -height, width / 2, 0])
    return boxes


def _meetings(way: Walker, start: Point, end: Point) -> Iterator[tuple[float, int, Interval]]:
    """Yield when a walker meets a segment, the sign of the side that it reaches, and the time of the leg."""
    origin, along = np.array(start, np.float64), np.subtract(end, start)
    for (begin, until), here, there in way.legs():
        before, after = _cross(along, here - origin), _cross(along, there - origin)
        if before * after >= 0:
            continue
        share = before / (before - after)
        place = float(np.dot(here + share * (there - here) - origin, along))
        if 0 <= place <= float(np.dot(along, along)):
            yield begin + share * (until - begin), 1 if after > 0 else -1, (begin, until)


def _cross(one: Floats, other: Floats) -> float:
    return float(one[0] * other[1] - one[1] * other[0])


def _is_inside(way: Walker, polygon: Sequence[Point], begin: float, end: float) -> bool:
    """Return whether a walker is inside between two successive crossings, by the even-odd rule."""
    unseen = Walker(way.track_id, way.seconds, way.points)
    x, y = unseen.at(np.array([(begin + end) / 2]))[0].tolist()
    crossed = [
        x < (x2 - x1) * (y - y1) / (y2 - y1) + x1 for (x1, y1), (x2, y2) in edges(polygon) if (y1 > y) != (y2 > y)
    ]
    return bool(sum(crossed) % 2)


def _place(
    random: np.random.Generator,
    size_wh: tuple[int, int],
    shapes: Sequence[Sequence[tuple[Point, Point]]],
    clearance: float,
) -> Point:
    """Return a random place, farther from all edges than `clearance`."""
    while True:
        x, y = random.uniform((40, 110), np.array(size_wh, np.float64) - (40, 10)).tolist()
        if all(_distance((x, y), edge) > clearance for shape in shapes for edge in shape):
            return x, y


def _distance(point: Point, edge: tuple[Point, Point] | tuple[Floats, Floats]) -> float:
    start, along = np.array(edge[0], np.float64), np.subtract(edge[1], edge[0])
    offset = np.subtract(point, start)
    share = np.clip(np.dot(offset, along) / np.dot(along, along), 0, 1)
    return float(np.linalg.norm(offset - share * along))
