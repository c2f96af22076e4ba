"""`queue`: report how many tracked objects wait in a queue, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, field_validator

from sightline.graph.rule import RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.media import Part
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.areas import AreaFrame, AreaRule, AreaWatch, Data, StreamAreas, Tally, seconds
from sightline_plugins.rules.containment import Area
from sightline_plugins.rules.geometry import Floats, inside_polygons, line_sides, polygon_edges, steps_meet_segments
from sightline_plugins.rules.shapes import Location, Point, Shape, in_pixels, simple_polygon
from sightline_plugins.rules.standing import Standing
from sightline_plugins.rules.stays import NEVER_NS, Held, Stay

_POINTS_OF_A_LINE = 2
_MOST_WAITS = 50
"""Mean and percentile are those of so many latest waits."""
_WINDOW_NS = 1_000_000_000
"""Speed is that of the last second."""


class QueueArea(Area):
    """The area of a queue, and what is too long."""

    kind: ClassVar[str] = "queue"

    exit: Annotated[tuple[Point, ...], Field(min_length=_POINTS_OF_A_LINE)] | None = None
    """Where objects are served, [[x, y], ...]: two points are a line that is crossed in either direction, more are the
    corners of an area that is entered. Everybody who leaves the queue is served when not given."""
    speed: Annotated[float, Field(gt=0)] | None = None
    """Who stays below this speed for a second has joined the queue, in heights of the frame a second; everybody inside
    has when not given. From then on an object belongs to the queue until it leaves."""
    length_limit: Annotated[int, Field(ge=1)] | None = None
    """Emit an event when at least so many are waiting, and when no longer."""
    after: Duration = 5_000_000_000
    """How long the queue has to be, or no longer be, of that length."""
    wait_limit: Annotated[Duration, Field(gt=0)] | None = None
    """Emit an event when somebody has been waiting for this long, and when nobody has any more."""

    @field_validator("exit")
    @classmethod
    def _is_line_or_area(cls, value: tuple[Point, ...] | None) -> tuple[Point, ...] | None:
        if value is None or len(value) > _POINTS_OF_A_LINE:
            return None if value is None else simple_polygon(value)
        if len(set(value)) < _POINTS_OF_A_LINE:
            raise ValueError("both points are the same: a line needs a length")
        return value

    def points(self) -> Iterator[tuple[Location, Point]]:
        yield from super().points()
        for number, point in enumerate(self.exit or ()):
            yield ("exit", number), point


class Queue(AreaRule):
    """Report how many tracked objects wait in a queue, for how long, and when that is too long.

    Who enters the area waits until it leaves, or is served at the `exit`; with an exit, who leaves otherwise has given
    up. That is an event `served` with `state: served` or `gave_up`, `track_id` and `wait_seconds`. With `length_limit`,
    events `queue` tell that the queue has become `long` and `short` again (`state`), with its `length`; with
    `wait_limit`, events `wait` tell the same of the longest wait, with `wait_seconds`. Being hidden or outside for less
    than `gone` does not end a wait; who still waits when the stream ends is not counted. `draw` shows the length, who
    was served, and of the last 50 waits the mean and the time that nine of ten did not exceed, in seconds; the report
    holds these with the longest queue and the longest wait.

    ```yaml
    - queue:
        till:
          polygon: [[0.2, 0.4], [0.8, 0.4], [0.8, 0.7], [0.2, 0.7]]
          exit: [[0.8, 0.4], [0.8, 0.7]]
          classes: [person]
          length_limit: 6
          wait_limit: 5m
    ```
    """

    __pydantic_extra__: dict[str, QueueArea] = Field(init=False)

    name: ClassVar[str] = "queue"
    shape: ClassVar[type[Shape]] = QueueArea

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamQueues(self, earlier if isinstance(earlier, StreamQueues) else None)


@dataclass(slots=True)
class QueueTally(Tally):
    """Who waited in one queue of a stream."""

    served: int = 0
    gave_up: int = 0
    longest_queue: int = 0
    longest_ns: int = 0
    """The longest wait that has ended."""
    waits_ns: list[int] = field(default_factory=list)
    """The latest waits of who was served."""

    def add(self, wait_ns: int, *, is_served: bool) -> None:
        """Count a wait that has ended."""
        self.longest_ns = max(self.longest_ns, wait_ns)
        if is_served:
            self.served += 1
            self.waits_ns = [*self.waits_ns, wait_ns][-_MOST_WAITS:]
        else:
            self.gave_up += 1

    @property
    def mean_ns(self) -> float:
        """The mean of the latest waits."""
        return sum(self.waits_ns) / max(1, len(self.waits_ns))

    @property
    def p90_ns(self) -> int:
        """What nine of ten of the latest waits did not exceed."""
        return sorted(self.waits_ns)[ceil(0.9 * len(self.waits_ns)) - 1] if self.waits_ns else 0


class QueueWatch(AreaWatch[QueueArea, QueueTally]):
    """Who waits in one queue."""

    longest_outside_ns = NEVER_NS

    def __init__(self, name: str, area: QueueArea, tally: QueueTally) -> None:
        super().__init__(name, area, tally)
        self.pixels = False
        self._standing: dict[int, Standing] = {}
        self._joined: set[int] = set()
        self._served: set[int] = set()
        """Who was served, and has not left the area yet."""
        self._places: dict[int, tuple[float, float]] = {}
        """Where those were who wait."""
        self._length = 0
        self._long, self._slow = Held(), Held()

    def update(self, frame: AreaFrame) -> Iterator[RuleEvent]:
        """Yield who was served or gave up, and what became too long or is no longer."""
        for stay in frame.left if frame.is_active else ():
            yield from self._leave(stay, frame.now_ns)
        if frame.left:
            self._forget_all_but(frame.stays)
        for stay, row in frame.seen():
            self._join(stay.track_id, frame, row)
        for track_id in self._arrived(frame):
            self._served.add(track_id)
            stay = frame.stays[track_id]
            if not stay.is_placed:
                yield self._count(track_id, frame.now_ns - stay.entered_ns, is_served=True)
        waiting = [stay for one, stay in frame.stays.items() if one in self._joined and one not in self._served]
        self._length = sum(not stay.is_outside for stay in waiting)
        self.tally.longest_queue = max(self.tally.longest_queue, self._length)
        yield from self._limits(frame, max((frame.now_ns - stay.entered_ns for stay in waiting), default=0))

    def counts(self) -> Mapping[str, int]:
        tally = self.tally
        mean, p90 = round(tally.mean_ns / NANOSECONDS), round(tally.p90_ns / NANOSECONDS)
        return {"length": self._length, "served": tally.served, "mean_wait": mean, "p90_wait": p90}

    def save(self) -> Saved:
        return {
            "standing": [[track_id, one.save()] for track_id, one in self._standing.items()],
            "joined": sorted(self._joined),
            "served": sorted(self._served),
            "places": [[track_id, *place] for track_id, place in self._places.items()],
            "length": self._length,
            "long": self._long.save(),
            "slow": self._slow.save(),
        }

    def restore(self, saved: Saved) -> None:
        self._standing = {int(one): Standing.restored(own, span_ns=_WINDOW_NS) for one, own in saved["standing"]}
        self._joined, self._served = set(map(int, saved["joined"])), set(map(int, saved["served"]))
        self._places = {int(track_id): (float(x), float(y)) for track_id, x, y in saved["places"]}
        self._length = int(saved["length"])
        self._long, self._slow = Held.restored(saved["long"]), Held.restored(saved["slow"])

    def _forget_all_but(self, stays: Mapping[int, Stay]) -> None:
        self._joined &= stays.keys()
        self._served &= stays.keys()
        self._standing = {one: standing for one, standing in self._standing.items() if one in stays}
        self._places = {one: place for one, place in self._places.items() if one in stays}

    def _join(self, track_id: int, frame: AreaFrame, row: int) -> None:
        if track_id in self._joined:
            return
        if self.area.speed is not None:
            side = self.area.speed * frame.size_wh[1] * _WINDOW_NS / NANOSECONDS
            standing = self._standing.get(track_id)
            if standing is None or standing.side != side:
                standing = self._standing[track_id] = Standing(side, _WINDOW_NS)
            if frame.now_ns - standing.update(frame.now_ns, *frame.anchor(row)) < _WINDOW_NS:
                return
            del self._standing[track_id]
        self._joined.add(track_id)

    def _arrived(self, frame: AreaFrame) -> list[int]:
        """Return who of those that wait has reached the exit with this frame."""
        waiting = [one for one in self._joined - self._served if one in frame.rows]
        if self.area.exit is None or not waiting:
            return []
        now = np.array([frame.anchor(frame.rows[one]) for one in waiting])
        before = np.array([self._places.get(one, tuple(place)) for one, place in zip(waiting, now, strict=True)])
        self._places |= dict(zip(waiting, map(tuple, now.tolist()), strict=True))
        corners = in_pixels(self.area.exit, size_wh=frame.size_wh, pixels=self.pixels)
        if len(corners) > _POINTS_OF_A_LINE:
            reached = inside_polygons(now[:, None], edges=polygon_edges([corners]))[:, 0]
        else:
            reached = _steps_meet(before[:, None], now[:, None], corners[None])
        return sorted(one for one, is_there in zip(waiting, reached.tolist(), strict=True) if is_there)

    def _leave(self, stay: Stay, now_ns: int) -> Iterator[RuleEvent]:
        track_id = stay.track_id
        if track_id in self._joined and track_id not in self._served and not (stay.is_placed or stay.is_unjudged):
            left_ns = now_ns if stay.absent_ns is None else stay.absent_ns
            yield self._count(track_id, left_ns - stay.entered_ns, is_served=self.area.exit is None)

    def _count(self, track_id: int, wait_ns: int, *, is_served: bool) -> RuleEvent:
        self.tally.add(wait_ns, is_served=is_served)
        state = "served" if is_served else "gave_up"
        data: Data = {"state": state, "track_id": track_id, "wait_seconds": seconds(wait_ns)}
        return RuleEvent("served", self.name, data)

    def _limits(self, frame: AreaFrame, wait_ns: int) -> Iterator[RuleEvent]:
        area, after_ns = self.area, self.area.after if frame.is_active else 0
        is_long = area.length_limit is not None and self._length >= area.length_limit
        if self._long.update(frame.now_ns, holds=is_long, after_ns=after_ns, clear_after_ns=after_ns):
            yield self._limit_event("queue", {"length": self._length}, is_on=self._long.is_on)
        is_slow = area.wait_limit is not None and wait_ns >= area.wait_limit
        if self._slow.update(frame.now_ns, holds=is_slow, after_ns=0, clear_after_ns=0):
            yield self._limit_event("wait", {"wait_seconds": seconds(wait_ns)}, is_on=self._slow.is_on)

    def _limit_event(self, kind: str, data: Mapping[str, int | float], *, is_on: bool) -> RuleEvent:
        state, part = ("long", Part.BEGIN) if is_on else ("short", Part.END)
        return RuleEvent(kind, self.name, {"state": state, **data}, part)


class StreamQueues(StreamAreas[QueueWatch]):
    """The queues of one stream."""

    def make_tally(self) -> QueueTally:
        return QueueTally()

    def make_watch(self, name: str, area: QueueArea, tally: QueueTally) -> QueueWatch:
        return QueueWatch(name, area, tally)

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Any]:
        for watch in self.watches:
            watch.pixels = self._pixels
        return super().place(size_wh)

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `served`, `gave_up`, `longest_queue`, and the mean, 90th percentile and longest wait in seconds of
        each queue, also of those that are gone.
        """
        return {
            name: {
                "served": own.served,
                "gave_up": own.gave_up,
                "longest_queue": own.longest_queue,
                "mean_wait_seconds": seconds(own.mean_ns),
                "p90_wait_seconds": seconds(own.p90_ns),
                "longest_wait_seconds": seconds(own.longest_ns),
            }
            for name, own in self.tally.items()
        }


def _steps_meet(before: Floats, after: Floats, segments: Floats) -> Any:
    """Return whether steps (N, 1, 2) meet the one segment (1, 2, 2) -> (N,)."""
    sides = line_sides(before, segments=segments), line_sides(after, segments=segments)
    return steps_meet_segments(before, after, sides=sides, segments=segments)[:, 0]
