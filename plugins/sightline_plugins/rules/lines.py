"""`lines`: count tracked objects that cross lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.graph.rule import Points, RuleEvent, StreamRule, TrackedObjects
from sightline.graph.state import Saved
from sightline_plugins.rules.geometry import Floats, Mask, anchor_points, line_sides, steps_meet_segments
from sightline_plugins.rules.noise import BoxNoise
from sightline_plugins.rules.shapes import (
    Anchor,
    Location,
    Margin,
    Point,
    Shape,
    ShapeRule,
    anchor_fractions,
    continued_tally,
    drawings,
    fixed_margins,
    former_names,
    in_pixels,
    measured_margins,
    places_of,
)

Indices = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.int64]
Signs = npt.NDArray[np.int8]

MEMORY_NS = 60_000_000_000
"""Tracks not seen for longer are forgotten."""
_MOST_UNSETTLED = 10_000


class Line(Shape):
    """A line from one point to another."""

    kind: ClassVar[str] = "line"
    example: ClassVar[str] = "{from: [x, y], to: [x, y]}"

    start: Annotated[Point, Field(alias="from")]
    """Where the line begins, [x, y]."""
    to: Point
    """Where it ends, [x, y]."""
    anchor: Anchor = "bottom"
    """The point of the box that has to cross."""
    margin: Margin = "auto"
    """How far beyond the line a change of side counts, in fractions of the frame's height (or pixels). A box that
    trembles on the line is then counted once instead of in and out and in again. By default a
    crossing counts at once, and the next one when the object is farther from the line than its box trembles; 0
    switches that off."""

    @model_validator(mode="after")
    def _has_length(self) -> Self:
        if self.start == self.to:
            raise ValueError("from and to are the same point: a line needs a length")
        return self

    @property
    def drawing(self) -> tuple[object, ...]:
        """What decides who crosses."""
        return self.start, self.to, self.anchor, self.margin

    def points(self) -> Iterator[tuple[Location, Point]]:
        yield ("from",), self.start
        yield ("to",), self.to


class Lines(ShapeRule):
    """Count tracked objects that cross lines, and emit an event for each crossing.

    Walking from `from` to `to` on the screen, `in` is from the left-hand to the right-hand side: for a line drawn from
    left to right, downwards. Both directions and every crossing count. The step of the box's anchor from one frame to
    the next has to meet the line: a fast object cannot jump it, and one that walks around its end does not count. Each
    crossing is an event `line` with `direction` and `track_id`. `draw` shows the running counts of each stream, and the
    report holds them.

    A box that trembles on a line would cross it again and again. So after a crossing the next one counts when the
    object is farther from the line than its box trembles. A fixed `margin` widens the line instead: crossings are then
    reported a little later.

    ```yaml
    - lines: {gate_in: {from: [0.1, 0.6], to: [0.9, 0.6], classes: [car]}}
    ```
    """

    __pydantic_extra__: dict[str, Line] = Field(init=False)

    name: ClassVar[str] = "lines"
    shape: ClassVar[type[Shape]] = Line
    outline: ClassVar[Literal["line", "zone"]] = "line"

    @property
    def lines(self) -> Mapping[str, Line]:
        return self.__pydantic_extra__

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamLines(self, earlier if isinstance(earlier, StreamLines) else None)


class StreamLines(StreamRule):
    """The lines of one stream, in pixels of its frames, and what crossed them."""

    def __init__(self, options: Lines, earlier: StreamLines | None = None) -> None:
        self._take(options)
        self._noise = BoxNoise()
        self._unsettled: dict[tuple[int, int], int] = {}
        """The side that a track has reached by crossing a line, until it is farther from that than its box trembles."""
        self._size_wh: tuple[int, int] | None = None
        self.counter = CrossingCounter(len(self._lines))
        self.tally: dict[str, dict[str, int]] = (
            {name: _none_crossed() for name in self._names} if earlier is None else earlier.tally
        )
        """The counts by line; those of lines that are gone are behind."""

    def change(self, rule: Lines) -> None:
        """Take over other lines, between two frames.

        Each line that is new or moved takes the side that a track is on from its last position: nobody crosses a line
        because that is moved, and a step over its new place counts. A line whose `anchor` changes to one that no line
        had begins with the next position of each track.
        """
        former_lines, former_pixels, names = self._lines, self._pixels, self._names
        self._take(rule)
        former = former_names(former_lines, self._lines)
        self.tally = continued_tally(self.tally, former=former, names=self._names, make=_none_crossed)
        stays = {
            number: names.index(former[name])
            for number, (name, line) in enumerate(self._lines.items())
            if name in former and self._pixels == former_pixels and line.drawing == former_lines[former[name]].drawing
        }
        numbers = {before: number for number, before in stays.items()}
        self._unsettled = {
            (track_id, numbers[line]): side for (track_id, line), side in self._unsettled.items() if line in numbers
        }
        if self._size_wh is None:
            self.counter = CrossingCounter(len(self._lines))
            return
        self.place(self._size_wh)
        anchors = [line.anchor for line in former_lines.values()]
        points_of = [
            stays.get(number, anchors.index(line.anchor) if line.anchor in anchors else None)
            for number, line in enumerate(self._lines.values())
        ]
        self.counter.change(points_of, stays=stays.keys(), segments=self._segments, near=self._near)

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the lines to pixels of frames of that size."""
        self._size_wh = size_wh
        lines = self._lines.values()
        ends = [point for line in lines for point in (line.start, line.to)]
        self._segments = in_pixels(ends, size_wh=size_wh, pixels=self._pixels).reshape(-1, 2, 2)
        self._lengths = np.linalg.norm(self._segments[:, 1] - self._segments[:, 0], axis=1)
        height = 1 if self._pixels else size_wh[1]
        self._near = self._lengths * fixed_margins((line.margin for line in lines), height=height)
        return {
            name: tuple((x, y) for x, y in own) for name, own in zip(self._names, self._segments.tolist(), strict=True)
        }

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield the crossings of each frame, and count them."""
        points = anchor_points(tracks.xyxy, fractions=self._fractions)
        crossings = self.counter.update(
            track_id=tracks.track_id,
            seen_ns=tracks.pts_ns[tracks.frame],
            points=points,
            segments=self._segments,
            near=self._near,
        )
        if self._is_measured:
            crossings = self._settle(tracks, crossings, points)
        events = self._events(tracks, crossings) if len(crossings) else {}
        for frame in range(len(tracks.pts_ns)):
            found = events.get(frame, ())
            for event in found:
                self.tally[event.rule][str(event.data["direction"])] += 1
            yield found

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many objects crossed each line `in` and `out`."""
        return {name: self.tally[name] for name in self._names}

    def totals(self) -> Mapping[str, Mapping[str, int]]:
        """Return the same for the report, also of lines that are gone."""
        return self.tally

    def save(self) -> Saved:
        """Return the counts, and the side of each line that each track is on."""
        return {
            "drawings": drawings(self._lines, pixels=self._pixels),
            "tally": {name: dict(own) for name, own in self.tally.items()},
            "noise": self._noise.save(),
            "unsettled": [[track_id, line, side] for (track_id, line), side in self._unsettled.items()],
            "counter": self.counter.save(),
        }

    def restore(self, saved: Saved) -> None:
        """Go on with the counts, and with the sides of lines that look the same."""
        moved = places_of(saved["drawings"], drawings(self._lines, pixels=self._pixels))
        tally = {str(name): {one: int(own[one]) for one in _none_crossed()} for name, own in saved["tally"].items()}
        self._noise.restore(saved["noise"])
        self.counter.restore(saved["counter"], moved)
        self._unsettled = {
            (int(track_id), moved[line]): int(side) for track_id, line, side in saved["unsettled"] if line in moved
        }
        self.tally = {**self.tally, **tally}

    def end(self) -> None:
        self.counter = CrossingCounter(len(self._lines))

    def _take(self, options: Lines) -> None:
        self._lines = options.lines
        self._pixels = options.pixels
        self._names = list(self._lines)
        self._fractions = anchor_fractions(line.anchor for line in self._lines.values())
        self._is_measured = any(line.margin == "auto" for line in self._lines.values())

    def _settle(self, tracks: TrackedObjects, crossings: Crossings, points: Floats) -> Crossings:
        """Leave out the crossings of boxes that tremble on a line: after a crossing, the next one counts when the track
        is farther from the line than its box trembles.
        """
        noise = self._noise.update(tracks)
        if not len(crossings) and not self._unsettled:
            return crossings
        margins = measured_margins((line.margin for line in self._lines.values()), noise=noise)
        distance = line_sides(points, segments=self._segments) / self._lengths
        sides = {
            (row, line): sign
            for row, line, sign in zip(
                crossings.row.tolist(), crossings.line.tolist(), crossings.sign.tolist(), strict=True
            )
        }
        kept: list[tuple[int, int, int]] = []
        for row, track_id in enumerate(tracks.track_id.tolist()):
            for line in range(len(self._names)):
                sign, is_far = sides.get((row, line)), bool(abs(distance[row, line]) > margins[row, line])
                reached = self._unsettled.get((track_id, line))
                if reached is None:
                    if sign is not None:
                        kept.append((row, line, sign))
                        if not is_far:
                            self._unsettled[track_id, line] = sign
                elif is_far:
                    del self._unsettled[track_id, line]
                    if reached * distance[row, line] < 0:
                        kept.append((row, line, -reached))
        if len(self._unsettled) > _MOST_UNSETTLED:
            visible = set(tracks.track_id.tolist())
            self._unsettled = {key: side for key, side in self._unsettled.items() if key[0] in visible}
        columns = np.array(kept, np.int64).reshape(-1, 3)
        return Crossings(columns[:, 0].astype(np.intp), columns[:, 1].astype(np.intp), columns[:, 2].astype(np.int8))

    def _events(self, tracks: TrackedObjects, crossings: Crossings) -> dict[int, list[RuleEvent]]:
        """Return the crossings of objects of the right class by frame, of lines that are active then."""
        classes = [line.classes for line in self._lines.values()]
        seen = tracks.when_active()
        events: dict[int, list[RuleEvent]] = {}
        for row, line, sign, label in zip(
            crossings.row.tolist(),
            crossings.line.tolist(),
            crossings.sign.tolist(),
            tracks.labels(crossings.row),
            strict=True,
        ):
            if seen is not None and not seen[row, line]:
                continue
            if (wanted := classes[line]) is None or label in wanted:
                direction = "in" if sign > 0 else "out"
                data: dict[str, str | int | float] = {"direction": direction, "track_id": int(tracks.track_id[row])}
                events.setdefault(int(tracks.frame[row]), []).append(RuleEvent("line", self._names[line], data))
        return events


def _none_crossed() -> dict[str, int]:
    return {"in": 0, "out": 0}


@dataclass(frozen=True, slots=True, eq=False)
class Crossings:
    """M crossings: `row` of the positions, number of the `line`, `sign` of the side that was reached."""

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


_NO_CROSSINGS = Crossings(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.int8))


class CrossingCounter:
    """Find where the tracks of one stream cross L lines; takes their positions in order of time.

    A crossing is a change of strict side of the line between successive positions of a track whose step, from the one
    to the other, meets the segment; so a fast object cannot jump a line. A position on the line, or nearer to it than
    the margin, leaves the track on its former side, and the steps meanwhile count as one path.
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
        """Return the number of remembered tracks."""
        return len(self._memory)

    def update(
        self, *, track_id: Numbers, seen_ns: Numbers, points: Floats, segments: Floats, near: Floats
    ) -> Crossings:
        """Return the crossings of positions `points` (N, L, 2) of tracks (N,), seen at (N,), over segments (L, 2, 2).

        `near` (L,) is each margin times the length of its line. Rows are in order of time, as are the crossings.
        """
        known, count = len(self._memory), len(track_id)
        if not count:
            return _NO_CROSSINGS
        shape = points.shape[:2]
        new = _Positions(track_id, seen_ns, points, np.zeros(shape, np.int8), np.zeros(shape, np.bool_))
        rows = self._memory.followed_by(new)
        order = np.argsort(rows.track_id, kind="stable")
        path, crossed = _walk(rows.select(order), known=order < known, segments=segments, near=near)
        self._remember(path, now_ns=int(seen_ns[-1]))
        if crossed is None or not crossed.any():
            return _NO_CROSSINGS
        step, line = np.nonzero(crossed)
        row = order[step + 1] - known
        by_time = np.lexsort((line, row))
        return Crossings(row[by_time], line[by_time], path.side[step + 1, line][by_time])

    def change(self, points_of: Sequence[int | None], *, stays: Set[int], segments: Floats, near: Floats) -> None:
        """Take over other lines, whose `segments` (L, 2, 2) and `near` (L,) are given.

        `points_of` names, for each, the former line whose memory of positions it takes: itself if it `stays`, else one
        with the same anchor, to judge the side of each track by; None begins anew.
        """
        before = self._memory
        count = len(before)
        points, side = np.zeros((count, len(points_of), 2)), np.zeros((count, len(points_of)), np.int8)
        met = np.zeros((count, len(points_of)), np.bool_)
        for number, former in enumerate(points_of):
            if former is None:
                continue
            points[:, number] = before.points[:, former]
            if number in stays:
                side[:, number], met[:, number] = before.side[:, former], before.met[:, former]
            else:
                cross = line_sides(points[:, [number]], segments=segments[[number]])[:, 0]
                side[:, number] = np.where(np.abs(cross) > near[number], np.sign(cross), 0)
        self._memory = _Positions(before.track_id, before.seen_ns, points, side, met)

    def save(self) -> Saved:
        """Return where each track was last, and its sides."""
        rows = self._memory
        names = ("track_id", "seen_ns", "points", "side", "met")
        return {name: getattr(rows, name).tolist() for name in names}

    def restore(self, saved: Saved, moved: Mapping[int, int]) -> None:
        """Go on with what another process has saved; `moved` holds the numbers of its lines that are here, too."""
        count, lines = len(saved["track_id"]), self._memory.side.shape[1]
        points, side = np.zeros((count, lines, 2)), np.zeros((count, lines), np.int8)
        met = np.zeros((count, lines), np.bool_)
        for before, now in moved.items() if count else ():
            points[:, now] = np.array(saved["points"], np.float64)[:, before]
            side[:, now] = np.array(saved["side"], np.int8)[:, before]
            met[:, now] = np.array(saved["met"], np.bool_)[:, before]
        ids, seen_ns = np.array(saved["track_id"], np.int64), np.array(saved["seen_ns"], np.int64)
        self._memory = _Positions(ids, seen_ns, points, side, met)

    def _remember(self, path: _Positions, *, now_ns: int) -> None:
        latest = np.append(path.track_id[1:] != path.track_id[:-1], True)
        latest &= np.abs(path.seen_ns - now_ns) <= MEMORY_NS
        self._memory = path.select(latest)


def _walk(path: _Positions, *, known: Mask, segments: Floats, near: Floats) -> tuple[_Positions, Mask | None]:
    """Return the positions (N rows, track by track) with their sides, and which steps (N - 1, L) crossed."""
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
    """Return for each row and line (N, L) the row, itself or before, where the track's side was last known."""
    numbers = np.arange(len(side))[:, None]
    begins = np.append(True, ~same_track) | known
    rows = np.where((side != 0) | begins[:, None], numbers, 0)
    result: Indices = np.maximum.accumulate(rows, axis=0)
    return result
