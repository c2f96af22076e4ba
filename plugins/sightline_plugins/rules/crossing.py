"""Line crossings: from successive positions of tracks to changes of side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline_plugins.rules.geometry import Floats, Mask, line_sides, steps_meet_segments

Indices = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.int64]
Signs = npt.NDArray[np.int8]

MEMORY_NS = 60_000_000_000
"""A track not seen for longer is forgotten."""


@dataclass(frozen=True, slots=True, eq=False)
class Crossings:
    """M crossings: `row` in the positions given, number of the `line`, `sign` of the side that was reached."""

    row: Indices
    line: Indices
    sign: Signs

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True, eq=False)
class _Positions:
    """Positions of tracks relative to L lines, as columns over N rows; one row for each track where it is a memory."""

    track_id: Numbers
    seen_ns: Numbers
    points: Floats
    """(N, L, 2), as anchors differ from line to line."""
    side: Signs
    """(N, L) last strict side, 0 before the first."""
    met: Mask
    """(N, L) whether a step since that strict side met the segment."""

    def __len__(self) -> int:
        return len(self.track_id)

    def select(self, rows: Mask | Indices) -> _Positions:
        return _Positions(self.track_id[rows], self.seen_ns[rows], self.points[rows], self.side[rows], self.met[rows])

    def followed_by(self, other: _Positions) -> _Positions:
        return _Positions(
            np.concatenate([self.track_id, other.track_id]),
            np.concatenate([self.seen_ns, other.seen_ns]),
            np.concatenate([self.points, other.points]),
            np.concatenate([self.side, other.side]),
            np.concatenate([self.met, other.met]),
        )


_NOTHING = Crossings(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.int8))


class CrossingCounter:
    """Finds where the tracks of one stream cross L lines; feed it their positions in order of time.

    A crossing is a change of strict side of the line between successive positions of a track whose step, from the one
    to the other, meets the segment; so a fast object can not jump a line. A position on the line, or nearer to it than
    the margin, leaves the track on its former side, and the steps made meanwhile count as one path.
    """

    def __init__(self, count: int) -> None:
        self._memory = _Positions(
            track_id=np.empty(0, np.int64),
            seen_ns=np.empty(0, np.int64),
            points=np.empty((0, count, 2)),
            side=np.empty((0, count), np.int8),
            met=np.empty((0, count), np.bool_),
        )

    def __len__(self) -> int:
        """How many tracks it remembers."""
        return len(self._memory)

    def update(
        self, *, track_id: Numbers, seen_ns: Numbers, points: Floats, segments: Floats, near: Floats
    ) -> Crossings:
        """The crossings of positions `points` (N, L, 2) of tracks (N,), seen at (N,), over segments (L, 2, 2).

        `near` (L,) is each margin times the length of its line. Rows are in order of time, as are the crossings.
        """
        known, count = len(self._memory), len(track_id)
        if not count:
            return _NOTHING
        shape = points.shape[:2]
        new = _Positions(track_id, seen_ns, points, np.zeros(shape, np.int8), np.zeros(shape, np.bool_))
        rows = self._memory.followed_by(new)
        order = np.argsort(rows.track_id, kind="stable")
        path, crossed = _walk(rows.select(order), known=order < known, segments=segments, near=near)
        self._remember(path, now_ns=int(seen_ns[-1]))
        if crossed is None or not crossed.any():
            return _NOTHING
        step, line = np.nonzero(crossed)
        row = order[step + 1] - known
        by_time = np.lexsort((line, row))
        return Crossings(row[by_time], line[by_time], path.side[step + 1, line][by_time])

    def _remember(self, path: _Positions, *, now_ns: int) -> None:
        latest = np.append(path.track_id[1:] != path.track_id[:-1], True)
        latest &= np.abs(path.seen_ns - now_ns) <= MEMORY_NS
        self._memory = path.select(latest)


def _walk(path: _Positions, *, known: Mask, segments: Floats, near: Floats) -> tuple[_Positions, Mask | None]:
    """The positions (N rows, those of one track together) with their sides, and which steps (N - 1, L) crossed."""
    cross = line_sides(path.points, segments=segments)
    side = np.where(np.abs(cross) > near, np.sign(cross), 0).astype(np.int8)
    side[known] = path.side[known]
    same_track = path.track_id[1:] == path.track_id[:-1]
    touches = (cross[1:] * cross[:-1] <= 0) & same_track[:, None]
    if side.all() and not touches.any() and not path.met.any():
        return _Positions(path.track_id, path.seen_ns, path.points, side, path.met), None
    settled = _last_settled(side, same_track=same_track, known=known), np.arange(side.shape[1])
    side, met_before = side[settled], path.met[settled]
    meets = touches & steps_meet_segments(
        path.points[:-1], path.points[1:], sides=(cross[:-1], cross[1:]), segments=segments
    )
    steps = np.concatenate([np.zeros((1, meets.shape[1]), np.intp), np.cumsum(meets, axis=0)])
    since = steps[settled]
    turned = same_track[:, None] & (side[1:] * side[:-1] < 0)
    crossed = turned & ((steps[1:] > since[:-1]) | met_before[:-1])
    return _Positions(path.track_id, path.seen_ns, path.points, side, (steps > since) | met_before), crossed


def _last_settled(side: Signs, *, same_track: Mask, known: Mask) -> Indices:
    """For each row and line (N, L) the row, itself or before, where the track's side was last known."""
    numbers = np.arange(len(side))[:, None]
    begins = np.append(True, ~same_track) | known
    rows = np.where((side != 0) | begins[:, None], numbers, 0)
    result: Indices = np.maximum.accumulate(rows, axis=0)
    return result
