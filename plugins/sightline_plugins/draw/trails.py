"""Where the tracks of one stream were lately."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

Point = tuple[float, float]


class Trails:
    """The ways of tracks over the last `duration_ns`; what is older is forgotten, and so are tracks that are gone."""

    def __init__(self, duration_ns: int) -> None:
        self._duration_ns = duration_ns
        self._ways: dict[int, deque[tuple[int, Point]]] = {}

    def __len__(self) -> int:
        return len(self._ways)

    def update(
        self, pts_ns: int, positions: Iterable[tuple[int, Point]], *, spacing: float
    ) -> list[tuple[int, list[Point]]]:
        """Say where tracks are now; return the way of each that moved, oldest point first, the last being now.

        Points nearer than `spacing` pixels to the one before are not kept. Numbers below 0 are no tracks.
        """
        oldest_ns = pts_ns - self._duration_ns
        moved = []
        for track, now in positions:
            if track < 0:
                continue
            way = self._ways.setdefault(track, deque())
            while way and way[0][0] < oldest_ns:
                way.popleft()
            line = [point for _, point in way]
            if not line or _far(line[-1], now, spacing=spacing):
                way.append((pts_ns, now))
            if line and line[-1] != now:
                moved.append((track, [*line, now]))
        self._forget(oldest_ns)
        return moved

    def _forget(self, oldest_ns: int) -> None:
        for track in [track for track, way in self._ways.items() if way[-1][0] < oldest_ns]:
            del self._ways[track]


def _far(a: Point, b: Point, *, spacing: float) -> bool:
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 >= spacing * spacing
