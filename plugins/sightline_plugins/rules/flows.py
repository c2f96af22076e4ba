"""`flows`: count from which area to which tracked objects go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from sightline.graph import ChangesLive
from sightline.graph.rule import RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media.time import Duration
from sightline_plugins.rules.areas import AreaFrame, AreaRule, AreaWatch, Data, StreamAreas, Tally, seconds
from sightline_plugins.rules.containment import Area
from sightline_plugins.rules.shapes import Shape, former_names
from sightline_plugins.rules.stays import NEVER_NS

_MOST_TRIPS = 10_000


class FlowArea(Area):
    """An area in which trips begin and end."""

    other_options: ClassVar[tuple[str, ...]] = ("id", "streams", "pixels", "gone", "within", "through")


class Flows(AreaRule):
    """Count from which area to which tracked objects go: a matrix of origins and destinations.

    An object that was in one area and is later in another one has gone from there to here, when it arrives `within`
    some time after it left. That is an event `flow` of the area where it arrives, with `from`, `to`, `track_id` and the
    `seconds` in between. Who passes through several areas is counted from each to the next; with `through: false`, only
    from the first to the last, when the trip has ended: when the object has been in no area for `within`. `draw` shows
    how many arrived in each area and departed from it; the report holds the number of trips from each area `to` each
    other one.

    ```yaml
    - flows:
        door: {polygon: [[0, 0.4], [0.2, 0.4], [0.2, 0.9], [0, 0.9]]}
        till: {polygon: [[0.7, 0.4], [1, 0.4], [1, 0.9], [0.7, 0.9]]}
    ```
    """

    __pydantic_extra__: dict[str, FlowArea] = Field(init=False)

    name: ClassVar[str] = "flows"
    shape: ClassVar[type[Shape]] = FlowArea

    within: ChangesLive[Annotated[Duration, Field(gt=0)]] = 600_000_000_000
    """How long after it left an area an object may arrive in the next one."""
    through: ChangesLive[bool] = True
    """Count areas that a trip passes through, too."""

    @model_validator(mode="after")
    def _has_two(self) -> Self:
        if len(self.areas) == 1:
            raise ValueError("only one zone is given: flows go from one to another")
        return self

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamFlows(self, earlier if isinstance(earlier, StreamFlows) else None)


@dataclass(slots=True)
class FlowTally(Tally):
    """Trips from and to one area of a stream."""

    arrived: int = 0
    to: dict[str, int] = field(default_factory=dict)
    """Trips from here, by the area where they ended."""


@dataclass(slots=True, eq=False)
class _Trip:
    """The way of a track: the first area it was in and when it left it, the latest one and when it entered that."""

    origin: str
    area: str
    left_ns: int = 0
    entered_ns: int = 0


class Trips:
    """The trips of the tracks of one stream. Areas go by their names."""

    def __init__(self, options: Flows) -> None:
        self.options = options
        self.tally: dict[str, FlowTally] = {}
        self._trips: dict[int, _Trip] = {}
        self._away_ns: dict[int, int] = {}
        """When each track that is in no area left the latest one, in this order."""

    def enter(self, name: str, track_id: int, now_ns: int) -> Iterator[RuleEvent]:
        """Take that a track has entered an area; yield from where it came."""
        left_ns = self._away_ns.pop(track_id, None)
        trip = self._trips.get(track_id)
        if trip is None:
            self._trips[track_id] = _Trip(name, name, now_ns, now_ns)
            self._shrink()
        elif name != trip.area:
            passed_ns = 0 if left_ns is None else now_ns - left_ns
            if trip.origin == trip.area:
                trip.left_ns = now_ns - passed_ns
            before, trip.area, trip.entered_ns = trip.area, name, now_ns
            if self.options.through:
                yield self._count(before, name, track_id, passed_ns)

    def leave(self, name: str, track_id: int, left_ns: int) -> None:
        """Take that a track has left an area."""
        trip = self._trips.setdefault(track_id, _Trip(name, name, left_ns, left_ns))
        if trip.area == name:
            self._away_ns.pop(track_id, None)
            self._away_ns[track_id] = left_ns

    def finish(self, before_ns: int) -> Iterator[RuleEvent]:
        """End the trips of tracks that were last in an area before that time."""
        while self._away_ns:
            track_id, left_ns = next(iter(self._away_ns.items()))
            if left_ns >= before_ns:
                return
            yield from self._end(track_id)

    def finish_in(self, name: str) -> Iterator[RuleEvent]:
        """End the trips of tracks that were last in this area."""
        for track_id in [one for one, trip in self._trips.items() if trip.area == name]:
            yield from self._end(track_id)

    def rename(self, names: Mapping[str, str], now_ns: int) -> None:
        """Take other names of areas, by those of before; areas that are not among them are gone."""
        for track_id, trip in self._trips.items():
            if trip.area not in names:
                self._away_ns.setdefault(track_id, now_ns)
            trip.origin, trip.area = (names.get(one, one) for one in (trip.origin, trip.area))
        for own in self.tally.values():
            own.to = {names.get(name, name): count for name, count in own.to.items()}

    def save(self) -> Saved:
        """Return the trips that have not ended."""
        trips = [[track_id, one.origin, one.area, one.left_ns, one.entered_ns] for track_id, one in self._trips.items()]
        return {"trips": trips, "away_ns": [list(one) for one in self._away_ns.items()]}

    def restore(self, saved: Saved) -> None:
        """Go on with them."""
        self._trips = {
            int(track_id): _Trip(str(origin), str(area), int(left_ns), int(entered_ns))
            for track_id, origin, area, left_ns, entered_ns in saved["trips"]
        }
        self._away_ns = {int(track_id): int(left_ns) for track_id, left_ns in saved["away_ns"]}

    def _end(self, track_id: int) -> Iterator[RuleEvent]:
        trip = self._trips.pop(track_id)
        self._away_ns.pop(track_id, None)
        if not self.options.through and trip.origin != trip.area:
            yield self._count(trip.origin, trip.area, track_id, trip.entered_ns - trip.left_ns)

    def _count(self, origin: str, destination: str, track_id: int, passed_ns: int) -> RuleEvent:
        to = self.tally.setdefault(origin, FlowTally()).to
        to[destination] = to.get(destination, 0) + 1
        self.tally.setdefault(destination, FlowTally()).arrived += 1
        data: Data = {"from": origin, "to": destination, "track_id": track_id, "seconds": seconds(passed_ns)}
        return RuleEvent("flow", destination, data)

    def _shrink(self) -> None:
        if len(self._trips) > _MOST_TRIPS:
            oldest = next(iter(self._trips))
            del self._trips[oldest]
            self._away_ns.pop(oldest, None)


class FlowWatch(AreaWatch[FlowArea, FlowTally]):
    """Who enters and leaves one area."""

    trips: Trips

    def update(self, frame: AreaFrame) -> Iterator[RuleEvent]:
        """Yield the trips that led here."""
        self.wake_ns = NEVER_NS
        for stay in frame.left:
            self.trips.leave(self.name, stay.track_id, frame.now_ns if stay.absent_ns is None else stay.absent_ns)
        for stay in frame.entered:
            yield from self.trips.enter(self.name, stay.track_id, frame.now_ns)
        if not frame.is_active:
            yield from self.trips.finish_in(self.name)

    def counts(self) -> Mapping[str, int]:
        return {"arrived": self.tally.arrived, "departed": sum(self.tally.to.values())}

    def save(self) -> Saved:
        return {}

    def restore(self, saved: Saved) -> None:
        pass


class StreamFlows(StreamAreas[FlowWatch]):
    """The trips between the areas of one stream."""

    def __init__(self, options: Flows, earlier: StreamFlows | None = None) -> None:
        self._trips = Trips(options)
        super().__init__(options, earlier)
        self._trips.tally = self.tally

    def make_tally(self) -> FlowTally:
        return FlowTally()

    def make_watch(self, name: str, area: FlowArea, tally: FlowTally) -> FlowWatch:
        watch = FlowWatch(name, area, tally)
        watch.trips = self._trips
        return watch

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield the trips that led from one area to another, and those that have ended in areas that are there."""
        seen = super().update(tracks)
        for now_ns in tracks.pts_ns.tolist():
            ended = self._trips.finish(now_ns - self._trips.options.within)
            yield [*(event for event in ended if event.rule in self._areas), *next(seen)]

    def change(self, rule: AreaRule) -> None:
        """Take over other areas; trips go on under their new names."""
        former = former_names(self._areas, rule.areas)
        super().change(rule)
        assert isinstance(rule, Flows)
        self._trips.options, self._trips.tally = rule, self.tally
        self._trips.rename({before: now for now, before in former.items()}, self._last_ns or 0)

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `arrived`, `departed` and the trips `to` other areas of each area, also of those that are gone."""
        return {
            name: {"arrived": own.arrived, "departed": sum(own.to.values()), "to": dict(own.to)}
            for name, own in self.tally.items()
        }

    def save(self) -> Saved:
        return {**super().save(), "trips": self._trips.save()}

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        self._trips.restore(saved["trips"])
        self._trips.tally = self.tally
