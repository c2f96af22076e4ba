"""`lines`: count tracked objects that cross lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sightline.graph import Capability, Element, Operator, Site
from sightline.media import Batch, Event, Objects, Overlay, Stream
from sightline_plugins.rules.geometry import Floats, Mask, anchor_points, line_sides, steps_meet_segments
from sightline_plugins.rules.shapes import (
    Anchor,
    Point,
    anchor_fractions,
    groups,
    in_pixels,
    require_fractions,
    require_shape,
)

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
    to the other, meets the segment; so a fast object cannot jump a line. A position on the line, or nearer to it than
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


DIRECTIONS = ("in", "out")


class Line(BaseModel):
    """A line from one point to another."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True, populate_by_name=True
    )

    start: Annotated[Point, Field(alias="from")]
    """Where the line begins, [x, y]."""
    to: Point
    """Where it ends, [x, y]."""
    classes: tuple[str, ...] | None = None
    """Labels of the objects that count; all when not given."""
    anchor: Anchor = "bottom"
    """The point of the box that has to cross."""
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    """How far beyond the line a change of side counts, in fractions of the image's height (or pixels). A box that
    trembles on the line is then counted once instead of in and out and in again."""

    @model_validator(mode="before")
    @classmethod
    def _is_line(cls, value: object) -> object:
        return require_shape(value, kind="line", example="{from: [x, y], to: [x, y]}")

    @model_validator(mode="after")
    def _has_length(self) -> Self:
        if self.start == self.to:
            raise ValueError("from and to are the same point: a line needs a length")
        return self


class Lines(Element):
    """Count tracked objects that cross lines, and say each time one does.

    Walking from `from` to `to` on the screen, `in` is from the left-hand to the right-hand side: for a line drawn from
    left to right, downwards. Both directions and every crossing count. What matters is the step of the box's anchor
    from one image to the next: it has to meet the line, so a fast object cannot jump it, and one that walks around
    its end does not count. Each crossing is an event `line` with `direction` and `track_id`; the running counts of each
    stream are drawn by `draw` and stand in the report.

    A box that trembles while it stands on a line crosses it again and again, in and out alike, so the difference stays
    right. A `margin` widens the line: then it counts once, and a crossing is told a little later.

    ```yaml
    - lines: {gate_in: {from: [0.1, 0.6], to: [0.9, 0.6], classes: [car]}}
    ```
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Line] = Field(init=False)

    name: ClassVar[str] = "lines"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TRACKS})
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})

    pixels: bool = False
    """Coordinates are pixels of the image instead of fractions of it."""

    @property
    def lines(self) -> Mapping[str, Line]:
        """The lines by name."""
        return self.__pydantic_extra__

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not self.lines:
            raise ValueError("no line is given: write NAME: {from: [x, y], to: [x, y]}")
        if not self.pixels:
            places = [
                ((name, key), point)
                for name, line in self.lines.items()
                for key, point in (("from", line.start), ("to", line.to))
            ]
            require_fractions("lines", places)
        return self

    def found_rules(self) -> frozenset[str]:
        """The names of the lines."""
        return frozenset(self.lines)

    def wanted_labels(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """The classes of each line."""
        for name, line in self.lines.items():
            for number, label in enumerate(line.classes or ()):
                yield (name, "classes", number), label

    def serves_all_gpus(self) -> bool:
        """True: counts go on when a GPU is lost."""
        return True

    def build(self, site: Site) -> LineRule:
        """Make the operator."""
        return LineRule(self.lines, pixels=self.pixels, step=site.element_id)


@dataclass(slots=True, eq=False)
class _StreamLines:
    """The lines of one stream: in pixels of its images, what crossed them, and how they are drawn."""

    size_wh: tuple[int, int]
    segments: Floats
    near: Floats
    counter: CrossingCounter
    overlays: tuple[Overlay, ...]


class LineRule(Operator):
    """Finds crossings and keeps counts for each stream."""

    def __init__(self, lines: Mapping[str, Line], *, pixels: bool, step: str = "") -> None:
        self._lines = lines
        self._step = step
        self._pixels = pixels
        self._names = list(lines)
        self._fractions = anchor_fractions(line.anchor for line in lines.values())
        self._streams: dict[Stream, _StreamLines] = {}
        self._totals: dict[str, dict[str, dict[str, int]]] = {}

    def process(self, batch: Batch) -> Batch:
        """Add the crossings as events, and the lines with their counts as overlays."""
        events: list[Event] = []
        overlays: list[tuple[Overlay, ...]] = [()] * len(batch)
        for stream, size_wh, rows in groups(batch):
            state = self._state(stream, size_wh)
            found = self._crossings(batch, rows, state)
            events += found
            self._count(stream, state, rows=rows, events=found, overlays=overlays)
        return batch.with_events(events).with_overlays(overlays)

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's tracks; its totals stay."""
        self._streams.pop(stream, None)

    def totals(self) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """How many crossed each line in each direction: stream, line, `in` and `out`."""
        return self._totals

    def _crossings(self, batch: Batch, rows: list[int], state: _StreamLines) -> list[Event]:
        objects = batch.objects
        tracked = objects.track_id >= 0
        if len(rows) < len(batch):
            tracked &= np.isin(objects.frame, rows)
        index = np.flatnonzero(tracked)
        frame = objects.frame[index]
        pts_ns = np.array([own.pts_ns for own in batch.frames], np.int64)
        crossings = state.counter.update(
            track_id=objects.track_id[index],
            seen_ns=pts_ns[frame],
            points=anchor_points(objects.xyxy[index], fractions=self._fractions),
            segments=state.segments,
            near=state.near,
        )
        return self._events(objects, index, crossings) if len(crossings) else []

    def _events(self, objects: Objects, index: npt.NDArray[np.intp], crossings: Crossings) -> list[Event]:
        found = index[crossings.row]
        classes = [line.classes for line in self._lines.values()]
        labels = objects.select(found).labels()
        return [
            Event(
                "line",
                self._names[line],
                int(objects.frame[row]),
                {"direction": DIRECTIONS[0] if sign > 0 else DIRECTIONS[1], "track_id": int(objects.track_id[row])},
                self._step,
            )
            for row, line, sign, label in zip(
                found.tolist(), crossings.line.tolist(), crossings.sign.tolist(), labels, strict=True
            )
            if (wanted := classes[line]) is None or label in wanted
        ]

    def _count(
        self,
        stream: Stream,
        state: _StreamLines,
        *,
        rows: list[int],
        events: list[Event],
        overlays: list[tuple[Overlay, ...]],
    ) -> None:
        """Count the events in the order of their frames and lay the overlay of each frame down."""
        totals = self._totals[stream.name]
        waiting = iter(events)
        event = next(waiting, None)
        for row in rows:
            changed = False
            while event is not None and event.frame == row:
                totals[event.rule][str(event.data["direction"])] += 1
                changed = True
                event = next(waiting, None)
            if changed:
                state.overlays = self._overlays(state.segments, totals)
            overlays[row] = state.overlays

    def _state(self, stream: Stream, size_wh: tuple[int, int]) -> _StreamLines:
        state = self._streams.get(stream)
        if state is not None and state.size_wh == size_wh:
            return state
        totals = self._totals.setdefault(stream.name, {name: dict.fromkeys(DIRECTIONS, 0) for name in self._names})
        lines = self._lines.values()
        ends = [point for line in lines for point in (line.start, line.to)]
        segments = in_pixels(ends, size_wh=size_wh, pixels=self._pixels).reshape(-1, 2, 2)
        margin = np.array([line.margin for line in lines], np.float64) * (1 if self._pixels else size_wh[1])
        near = margin * np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
        counter = CrossingCounter(len(self._names)) if state is None else state.counter
        state = _StreamLines(size_wh, segments, near, counter, self._overlays(segments, totals))
        self._streams[stream] = state
        return state

    def _overlays(self, segments: Floats, totals: Mapping[str, Mapping[str, int]]) -> tuple[Overlay, ...]:
        return tuple(
            Overlay("line", name, tuple(map(tuple, segment)), tuple(totals[name].items()))
            for name, segment in zip(self._names, segments.tolist(), strict=True)
        )
