from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Batch, Objects, Origin
from sightline.testing import make_frames
from sightline_plugins.rules.settling import LineSettling

SEGMENTS = np.array([[[2.0, 5.0], [8.0, 5.0]], [[3.0, 1.0], [6.0, 9.0]]])
Point = tuple[float, float]


def plain_crossings(points: list[Point], segment: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """The definition, one step at a time: position and sign of each crossing."""
    corners: list[list[float]] = segment.tolist()
    (ax, ay), (bx, by) = corners

    def side(p: Point) -> float:
        return (bx - ax) * (p[1] - ay) - (by - ay) * (p[0] - ax)

    def meets(p: Point, q: Point) -> bool:
        if side(p) * side(q) > 0 or side(p) == side(q):
            return False
        share = side(p) / (side(p) - side(q))
        x, y = p[0] + share * (q[0] - p[0]), p[1] + share * (q[1] - p[1])
        along = (x - ax) * (bx - ax) + (y - ay) * (by - ay)
        return 0 <= along <= (bx - ax) ** 2 + (by - ay) ** 2

    found, last, met = [], np.sign(side(points[0])), False
    for number, (p, q) in enumerate(pairwise(points), 1):
        met = met or meets(p, q)
        now = np.sign(side(q))
        if now:
            if last * now < 0 and met:
                found.append((number, int(now)))
            last, met = now, False
    return found


grid = st.integers(0, 10).map(float)
walks = st.lists(st.tuples(grid, grid), min_size=2, max_size=25)


def positions(rows: list[tuple[int, int, Point]]) -> TrackedObjects:
    """Boxes without size at the points of rows of time, track and point."""
    frames = make_frames(rows[-1][0] - rows[0][0] + 1, fps=1)
    objects = Objects.from_columns(
        frame=np.array([time - rows[0][0] for time, _, _ in rows]),
        xyxy=np.array([[*point, *point] for _, _, point in rows]),
        confidence=np.ones(len(rows)),
        class_id=np.zeros(len(rows)),
        track_id=np.array([track for _, track, _ in rows]),
        source=Origin("test", ("person",)),
    )
    times_ns = [(rows[0][0] + number) * 1_000_000_000 for number in range(len(frames))]
    return TrackedObjects.of(Batch(tuple(frames), objects), range(len(frames)), times_ns=times_ns, shift_ns=times_ns[0])


@settings(max_examples=200)
@given(st.lists(walks, min_size=1, max_size=3), st.integers(1, 9))
def test_crossings_are_those_of_the_plain_definition_in_chunks_of_any_size(
    walked: list[list[Point]], chunk: int
) -> None:
    rows = [(time, track, walk[time]) for time in range(25) for track, walk in enumerate(walked) if time < len(walk)]
    settling = LineSettling(len(SEGMENTS))
    settling.place(SEGMENTS, fractions=np.zeros((2, 2)), margins=np.zeros(2), widths=np.zeros(2))
    found = set()
    for first in range(0, len(rows), chunk):
        part = rows[first : first + chunk]
        crossed = settling.judge(positions(part))
        for row, line in zip(*np.nonzero(crossed), strict=True):
            found.add((part[row][1], int(line), part[row][0], int(crossed[row, line])))
    expected = {
        (track, line, time, sign)
        for track, walk in enumerate(walked)
        for line, segment in enumerate(SEGMENTS)
        for time, sign in plain_crossings(walk, segment)
    }
    assert found == expected
