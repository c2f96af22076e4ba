"""`parking`: report which places are taken, since when, and for how long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from sightline.graph import ChangesLive
from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.media import Part
from sightline.media.time import Duration
from sightline_plugins.rules.areas import AreaFrame, AreaRule, Data, Tally, seconds
from sightline_plugins.rules.containment import Area
from sightline_plugins.rules.shapes import Anchor, Shape
from sightline_plugins.rules.standing_areas import StandingWatch, StreamStandingAreas
from sightline_plugins.rules.stays import NEVER_NS, Stay

_SWITCH_NS = 3_000_000_000
"""A track that appears this soon after another one vanished in the same place is the same object, and one that is seen
outside for less than this is partly hidden: its box has shrunk.
"""
_STILL = 0.5
"""An object stands while its path fits into a square of so many heights of its box."""


class ParkingPlace(Area):
    """A place for one vehicle."""

    kind: ClassVar[str] = "place"

    anchor: Anchor = "center"
    """The point of the box that has to be inside."""
    after: Duration = 10_000_000_000
    """How long an object has to stand in the place to occupy it."""
    overtime: Duration | None = None
    """Emit an event once when the place has been occupied for this long."""

    @model_validator(mode="after")
    def _overtime_is_longer(self) -> Self:
        if self.overtime is not None and self.overtime < self.after:
            raise ValueError("overtime is shorter than after: the place is not occupied before that")
        return self


class Parking(AreaRule):
    """Report which places are taken, since when, and for how long.

    A place is occupied when a tracked object has stood in it for `after`: a car that only passes is none. It is free
    when that object was seen elsewhere for 3 seconds, or was not seen for `gone`, which bridges occlusions. When its
    track breaks off, and another one begins in the same place within 3 seconds, that is the same object. Both are
    events `parking`: `state: occupied`, and `state: free` with `occupied_seconds`, from when the object came to stand;
    with `overtime`, `state: overtime` reports once that it has been there for so long. `draw` shows which places are
    occupied, and frames all of them as `parking` with the number of `occupied` and `free` places; the report holds how
    often and for how long each place, and all of `parking`, was taken.

    ```yaml
    - parking:
        P1: {polygon: [[0.1, 0.6], [0.3, 0.6], [0.3, 0.9], [0.1, 0.9]], classes: [car, van, truck], overtime: 2h}
        P2: {polygon: [[0.3, 0.6], [0.5, 0.6], [0.5, 0.9], [0.3, 0.9]], classes: [car, van, truck], overtime: 2h}
    ```
    """

    __pydantic_extra__: dict[str, ParkingPlace] = Field(init=False)

    name: ClassVar[str] = "parking"
    shape: ClassVar[type[Shape]] = ParkingPlace

    gone: ChangesLive[Duration] = 30_000_000_000
    """An object not seen for this long has left."""

    @model_validator(mode="after")
    def _name_is_free(self) -> Self:
        if self.name in self.areas:
            raise ValueError(f"no place can be named {self.name}: that stands for all of them")
        return self

    def rule_names(self) -> Iterable[str]:
        """Return the names of the places, and that of all of them."""
        return (*self.areas, self.name)

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamParking(self, earlier if isinstance(earlier, StreamParking) else None)


@dataclass(slots=True)
class ParkingTally(Tally):
    """What stood in one place of a stream."""

    parked: int = 0
    occupied_ns: int = 0
    """Sum of the times of all that have left."""
    longest_ns: int = 0


class ParkingWatch(StandingWatch[ParkingPlace, ParkingTally]):
    """Which track occupies one place, and since when."""

    longest_outside_ns = _SWITCH_NS

    def __init__(self, name: str, area: ParkingPlace, tally: ParkingTally) -> None:
        super().__init__(name, area, tally)
        self.holder: Stay | None = None
        self._since_ns = 0
        self._is_overtime = False

    @property
    def span_ns(self) -> int:
        return self.area.after

    def follow(self, frame: AreaFrame) -> Sequence[int]:
        for stay in frame.left:
            self.forget(stay.track_id)
        return frame.seen()

    def side(self, track_id: int, frame: AreaFrame) -> float:
        _, top, _, bottom = frame.xyxy[frame.rows[track_id]].tolist()
        return float(max(_STILL * (bottom - top), 1.0))

    def update(self, frame: AreaFrame) -> Iterator[RuleEvent]:
        """Yield that the place has been taken, is free, or is occupied for too long."""
        self.wake_ns = NEVER_NS
        if self.holder is None and not self.stood:
            return
        standing = self._stand(frame)
        if self.holder is not None and frame.stays.get(self.holder.track_id) is not self.holder:
            successor = self._successor(self.holder, frame.stays.values()) if self._has_vanished(frame) else None
            if successor is None:
                yield self._free(frame.now_ns if self.holder.absent_ns is None else self.holder.absent_ns)
            self.holder = successor
        elif self.holder is not None and self.holder.absent_ns is not None:
            self.holder = self._successor(self.holder, [stay for stay, _ in standing]) or self.holder
        if self.holder is None and standing:
            self.holder, self._since_ns = standing[0]
            self.tally.parked += 1
            yield self._event("occupied", frame.now_ns, Part.BEGIN)
        limit_ns = self.area.overtime
        if self.holder is not None and limit_ns is not None and not self._is_overtime:
            self._is_overtime = frame.now_ns - self._since_ns >= limit_ns
            if self._is_overtime:
                yield self._event("overtime", frame.now_ns, Part.MOMENT)
            else:
                self.wake_ns = self._since_ns + limit_ns

    def counts(self) -> Mapping[str, int]:
        return {"occupied": int(self.holder is not None), "parked": self.tally.parked}

    def save(self) -> Saved:
        return {
            "holder": None if self.holder is None else self.holder.track_id,
            "since_ns": self._since_ns,
            "is_overtime": self._is_overtime,
            "standing": self.save_rows(),
        }

    def restore(self, saved: Saved) -> None:
        self.holder = None if saved["holder"] is None else self.stays.open[saved["holder"]]
        self._since_ns, self._is_overtime = int(saved["since_ns"]), bool(saved["is_overtime"])
        self.restore_rows(saved["standing"])

    def _stand(self, frame: AreaFrame) -> list[tuple[Stay, int]]:
        """Return who is seen inside and has stood for long enough, and since when; who came first is first."""
        found = [(frame.stays[track_id], since_ns) for track_id, since_ns in self.stood.items()]
        return sorted([(stay, max(stay.entered_ns, since_ns)) for stay, since_ns in found], key=itemgetter(1))

    def _has_vanished(self, frame: AreaFrame) -> bool:
        return frame.is_active and self.holder is not None and self.holder.track_id not in frame.rows

    @staticmethod
    def _successor(holder: Stay, stays: Iterable[Stay]) -> Stay | None:
        """Return the stay that goes on with that of a track that vanished."""
        assert holder.absent_ns is not None
        latest_ns = holder.absent_ns + _SWITCH_NS
        others = [stay for stay in stays if stay is not holder and stay.entered_ns <= latest_ns]
        return min(others, key=lambda stay: stay.entered_ns, default=None)

    def _free(self, left_ns: int) -> RuleEvent:
        lasted_ns = left_ns - self._since_ns
        self.tally.occupied_ns += lasted_ns
        self.tally.longest_ns = max(self.tally.longest_ns, lasted_ns)
        self._is_overtime = False
        return self._event("free", left_ns, Part.END)

    def _event(self, state: str, until_ns: int, part: Part) -> RuleEvent:
        assert self.holder is not None
        lasted = seconds(until_ns - self._since_ns)
        data: Data = {"state": state, "track_id": self.holder.track_id, "occupied_seconds": lasted}
        return RuleEvent("parking", self.name, data, part)


class StreamParking(StreamStandingAreas[ParkingWatch]):
    """The places of one stream."""

    def make_tally(self) -> ParkingTally:
        return ParkingTally()

    def make_watch(self, name: str, area: ParkingPlace, tally: ParkingTally) -> ParkingWatch:
        watch = ParkingWatch(name, area, tally)
        watch.standings = self.standings
        return watch

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the places to pixels, and frame all of them."""
        places = super().place(size_wh)
        x, y = zip(*(point for points in places.values() for point in points), strict=True)
        left, top, right, bottom = min(x), min(y), max(x), max(y)
        return {**places, Parking.name: ((left, top), (right, top), (right, bottom), (left, bottom))}

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return the counts of each place, and how many places are occupied and free."""
        occupied = sum(watch.holder is not None for watch in self.watches)
        return {**super().counts(), Parking.name: {"occupied": occupied, "free": len(self.watches) - occupied}}

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `parked`, `occupied_seconds` and `longest_seconds` of each place, also of those that are gone, and of
        all.
        """
        all_of_them = ParkingTally(
            sum(own.parked for own in self.tally.values()),
            sum(own.occupied_ns for own in self.tally.values()),
            max(own.longest_ns for own in self.tally.values()),
        )
        return {
            name: {
                "parked": own.parked,
                "occupied_seconds": seconds(own.occupied_ns),
                "longest_seconds": seconds(own.longest_ns),
            }
            for name, own in {**self.tally, Parking.name: all_of_them}.items()
        }
