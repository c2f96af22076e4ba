from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline_plugins.rules.lines import CrossingCounter

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


@settings(max_examples=200)
@given(st.lists(walks, min_size=1, max_size=3), st.integers(1, 9))
def test_crossings_are_those_of_the_plain_definition_in_chunks_of_any_size(
    walked: list[list[Point]], chunk: int
) -> None:
    rows = [(time, track, walk[time]) for time in range(25) for track, walk in enumerate(walked) if time < len(walk)]
    counter = CrossingCounter(len(SEGMENTS))
    found = set()
    for first in range(0, len(rows), chunk):
        part = rows[first : first + chunk]
        crossings = counter.update(
            track_id=np.array([track for _, track, _ in part]),
            seen_ns=np.array([time for time, _, _ in part]),
            points=np.repeat(np.array([[point] for _, _, point in part]), 2, axis=1),
            segments=SEGMENTS,
            near=np.zeros(2),
        )
        for row, line, sign in zip(crossings.row, crossings.line, crossings.sign, strict=True):
            found.add((part[row][1], int(line), part[row][0], int(sign)))
    expected = {
        (track, line, time, sign)
        for track, walk in enumerate(walked)
        for line, segment in enumerate(SEGMENTS)
        for time, sign in plain_crossings(walk, segment)
    }
    assert found == expected
