"""`queue`: report how many tracked objects wait in a queue, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.media import Part
from sightline.media.boxes import Boxes
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.areas import AreaFrame, AreaRule, Data, Tally, seconds
from sightline_plugins.rules.containment import Area
from sightline_plugins.rules.exits import POINTS_OF_A_LINE, Exits
from sightline_plugins.rules.shapes import Location, Point, Shape, anchor_fractions, in_pixels, simple_polygon
from sightline_plugins.rules.standing_areas import StandingWatch, StreamStandingAreas
from sightline_plugins.rules.stays import NEVER_NS, NOBODY, Held, Stay
from sightline_plugins.rules.track_table import Ids

_MOST_WAITS = 50
"""Mean and percentile are those of so many latest waits."""
_WINDOW_NS = 1_000_000_000
"""Speed is that of the last second."""


class QueueArea(Area):
    """The area of a queue, and what is too long."""

    kind: ClassVar[str] = "queue"

    exit: Annotated[tuple[Point, ...], Field(min_length=POINTS_OF_A_LINE)] | None = None
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
        if value is None or len(value) > POINTS_OF_A_LINE:
            return None if value is None else simple_polygon(value)
        if len(set(value)) < POINTS_OF_A_LINE:
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


class QueueWatch(StandingWatch[QueueArea, QueueTally]):
    """Who waits in one queue."""

    longest_outside_ns = NEVER_NS

    def __init__(self, name: str, area: QueueArea, tally: QueueTally) -> None:
        super().__init__(name, area, tally)
        self.at_exit: Set[int] = NOBODY
        """Who has reached the exit with this frame, in the queue or not."""
        self._side = 0.0
        self._joined: set[int] = set()
        """Who belongs to the queue; these have a stay."""
        self._served: set[int] = set()
        """Who was served, and has not left the area yet."""
        self._length = 0
        self._long, self._slow = Held(), Held()
        self._shown_waits: list[int] | None = None
        """The waits of which mean and percentile are known."""
        self._mean_wait = self._p90_wait = 0

    def reach(self, track_id: Set[int]) -> None:
        """Take who has reached the exit with the next frame."""
        self.at_exit = track_id
        if not track_id.isdisjoint(self._joined) and (track_id & self._joined) - self._served:
            self.wake_ns = 0

    @property
    def span_ns(self) -> int:
        return _WINDOW_NS

    def follow(self, frame: AreaFrame) -> Sequence[int]:
        if self.area.speed is None or self._joined >= frame.stays.keys():
            return ()
        side = self.area.speed * frame.size_wh[1] * _WINDOW_NS / NANOSECONDS
        if side != self._side:
            self.forget_all()
            self._side = side
        return self._not_joined(frame)

    def side(self, track_id: int, frame: AreaFrame) -> float:
        del track_id, frame
        return self._side

    def update(self, frame: AreaFrame) -> Iterator[RuleEvent]:
        """Yield who was served or gave up, and what became too long or is no longer."""
        for stay in frame.left if frame.is_active else ():
            yield from self._leave(stay, frame.now_ns)
        for stay in frame.left:
            if stay.track_id not in frame.stays:
                self._forget(stay.track_id)
        joining = () if len(self._joined) == len(frame.stays) else self._join(frame)
        self.wake_ns = NEVER_NS if self.area.speed is None or not joining else 0
        for track_id in self._arrived(joining):
            self._served.add(track_id)
            stay = frame.stays[track_id]
            if not stay.is_placed:
                yield self._count(track_id, frame.now_ns - stay.entered_ns, is_served=True)
        joined, served = self._joined, self._served
        outside = len((frame.outside() & joined) - served) if frame.missing else 0
        self._length = len(joined) - len(served) - outside
        if self._length > self.tally.longest_queue:
            self.tally.longest_queue = self._length
        yield from self._limits(frame)

    def counts(self) -> Mapping[str, int]:
        tally = self.tally
        if self._shown_waits is not tally.waits_ns:
            self._shown_waits = tally.waits_ns
            self._mean_wait, self._p90_wait = round(tally.mean_ns / NANOSECONDS), round(tally.p90_ns / NANOSECONDS)
        return {
            "length": self._length,
            "served": tally.served,
            "mean_wait": self._mean_wait,
            "p90_wait": self._p90_wait,
        }

    def save(self) -> Saved:
        return {
            "standing": self.save_rows(),
            "side": self._side,
            "joined": sorted(self._joined),
            "served": sorted(self._served),
            "length": self._length,
            "long": self._long.save(),
            "slow": self._slow.save(),
        }

    def restore(self, saved: Saved) -> None:
        self.restore_rows(saved["standing"])
        self._side = float(saved["side"])
        self._joined, self._served = set(map(int, saved["joined"])), set(map(int, saved["served"]))
        self._length = int(saved["length"])
        self._long, self._slow = Held.restored(saved["long"]), Held.restored(saved["slow"])

    def _forget(self, track_id: int) -> None:
        self._joined.discard(track_id)
        self._served.discard(track_id)
        self.forget(track_id)

    def _join(self, frame: AreaFrame) -> Sequence[int]:
        """Let those join who are seen inside and stay below the speed; return who they are."""
        joining = self._not_joined(frame) if self.area.speed is None else list(self.stood)
        for track_id in joining:
            self.forget(track_id)
        self._joined.update(joining)
        return joining

    def _not_joined(self, frame: AreaFrame) -> list[int]:
        return [track_id for track_id in frame.seen() if track_id not in self._joined]

    def _arrived(self, joining: Sequence[int]) -> list[int]:
        """Return who of those that wait has reached the exit with this frame. A line is crossed by a step, and who
        joins with this frame has made none in the queue.
        """
        if not self.at_exit or self.area.exit is None:
            return []
        arrived = (self.at_exit & self._joined) - self._served
        return sorted(arrived - set(joining) if len(self.area.exit) == POINTS_OF_A_LINE else arrived)

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

    def _longest_wait(self, frame: AreaFrame) -> int:
        """Return how long the one has waited who came first, of those who still wait.

        Who was seen outside may come back: that ends no wait that is too long already, and makes none too long.
        """
        elsewhere = NOBODY if self._slow.is_on or not frame.missing else frame.outside()
        for track_id, stay in frame.stays.items():
            if track_id in self._joined and track_id not in self._served and track_id not in elsewhere:
                return frame.now_ns - stay.entered_ns
        return 0

    def _limits(self, frame: AreaFrame) -> Iterator[RuleEvent]:
        area, after_ns = self.area, self.area.after if frame.is_active else 0
        if area.length_limit is not None or not self._long.is_clear:
            is_long = area.length_limit is not None and self._length >= area.length_limit
            if self._long.update(frame.now_ns, holds=is_long, after_ns=after_ns, clear_after_ns=after_ns):
                yield self._limit_event("queue", {"length": self._length}, is_on=self._long.is_on)
            self.wake_ns = min(self.wake_ns, self._long.due_ns(after_ns=after_ns, clear_after_ns=after_ns))
        if area.wait_limit is not None or not self._slow.is_clear:
            wait_ns = self._longest_wait(frame)
            is_slow = area.wait_limit is not None and wait_ns >= area.wait_limit
            if self._slow.update(frame.now_ns, holds=is_slow, after_ns=0, clear_after_ns=0):
                yield self._limit_event("wait", {"wait_seconds": seconds(wait_ns)}, is_on=self._slow.is_on)
            if area.wait_limit is not None and not is_slow and self._joined:
                self.wake_ns = min(self.wake_ns, frame.now_ns + area.wait_limit - wait_ns)

    def _limit_event(self, kind: str, data: Mapping[str, int | float], *, is_on: bool) -> RuleEvent:
        state, part = ("long", Part.BEGIN) if is_on else ("short", Part.END)
        return RuleEvent(kind, self.name, {"state": state, **data}, part)


class StreamQueues(StreamStandingAreas[QueueWatch]):
    """The queues of one stream."""

    def __init__(self, options: Queue, earlier: StreamQueues | None = None) -> None:
        super().__init__(options, earlier)
        self._exits = Exits()
        self._reached: Sequence[QueueWatch] = ()
        """The queues whose exit somebody has reached."""

    def make_tally(self) -> QueueTally:
        return QueueTally()

    def make_watch(self, name: str, area: QueueArea, tally: QueueTally) -> QueueWatch:
        watch = QueueWatch(name, area, tally)
        watch.standings = self.standings
        return watch

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        places = super().place(size_wh)
        corners = {
            number: in_pixels(watch.area.exit, size_wh=size_wh, pixels=self._pixels)
            for number, watch in enumerate(self.watches)
            if watch.area.exit is not None
        }
        self._exits.place(corners, fractions=anchor_fractions(watch.area.anchor for watch in self.watches))
        return places

    def see(self, track_id: Ids, xyxy: Boxes, now_ns: int) -> None:
        reached = self._exits.reached(track_id, xyxy, now_ns=now_ns, memory_ns=self._gone_ns)
        for watch in self._reached:
            watch.at_exit = NOBODY
        self._reached = [self.watches[number] for number in reached]
        for watch, own in zip(self._reached, reached.values(), strict=True):
            watch.reach(own)

    def save(self) -> Saved:
        return {**super().save(), "exits": self._exits.save()}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        self._exits.restore(saved["exits"])

    def end(self) -> None:
        super().end()
        self._exits.clear()

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
