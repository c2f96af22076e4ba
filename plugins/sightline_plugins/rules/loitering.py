"""`loitering`: report tracked objects that stay in an area for too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sightline.graph.rule import INSIDE, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.media import Part
from sightline.media.time import Duration
from sightline_plugins.rules.areas import AreaFrame, AreaRule, Data, Tally, seconds
from sightline_plugins.rules.containment import Area
from sightline_plugins.rules.shapes import Shape
from sightline_plugins.rules.standing_areas import StandingWatch, StreamStandingAreas
from sightline_plugins.rules.stays import NEVER_NS


class LoiteringArea(Area):
    """An area, and how long is too long."""

    after: Duration = 30_000_000_000
    """How long an object has to stay, in total."""
    within: Annotated[float, Field(gt=0, le=1)] | None = None
    """Count only the time in which the object has kept to one place: its path has to fit into a square that reaches so
    far to each side, in fractions of the frame's height. It may be anywhere in the area when not given."""


class Loitering(AreaRule):
    """Report tracked objects that stay in an area for too long.

    An object loiters when it has been inside for `after`. Being hidden or outside for less than `gone` does not
    interrupt its stay. With `within`, only the time counts in which it has kept to one place, and it no longer loiters
    when it moves on. Both are events `loitering` with `track_id` and `seconds`: `state: began`, and `state: ended` with
    the whole time. `draw` shows the number inside and the loiterers (each stay once); the report holds the loiterers
    and the longest time.

    ```yaml
    - loitering: {entrance: {polygon: [[0.2, 0.3], [0.6, 0.3], [0.6, 0.9], [0.2, 0.9]], classes: [person], after: 1m}}
    ```
    """

    __pydantic_extra__: dict[str, LoiteringArea] = Field(init=False)

    name: ClassVar[str] = "loitering"
    shape: ClassVar[type[Shape]] = LoiteringArea

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamLoitering(self, earlier if isinstance(earlier, StreamLoitering) else None)


@dataclass(slots=True)
class LoiteringTally(Tally):
    """Loiterers in one area of a stream."""

    loiterers: int = 0
    longest_ns: int = 0


class LoiteringWatch(StandingWatch[LoiteringArea, LoiteringTally]):
    """Who loiters in one area."""

    longest_outside_ns = NEVER_NS

    def __init__(self, name: str, area: LoiteringArea, tally: LoiteringTally) -> None:
        super().__init__(name, area, tally)
        self._since_ns: dict[int, int] = {}
        """Since when each loiterer has been there."""
        self._side = 0.0
        self._inside = 0

    @property
    def span_ns(self) -> int:
        return self.area.after

    def follow(self, frame: AreaFrame) -> Sequence[int]:
        for stay in frame.left:
            self.forget(stay.track_id)
        if self.area.within is None:
            return ()
        side = 2 * self.area.within * frame.size_wh[1]
        if side != self._side:
            self.forget_all()
            self._side = side
        return frame.seen()

    def side(self, track_id: int, frame: AreaFrame) -> float:
        del track_id, frame
        return self._side

    def update(self, frame: AreaFrame) -> Iterator[RuleEvent]:
        """Yield who began to loiter, and who ended it."""
        now_ns = frame.now_ns
        if self._since_ns:
            ended = {stay.track_id: stay.absent_ns or now_ns for stay in frame.left}
            for track_id in [one for one in self._since_ns if one not in frame.stays]:
                yield self._end(track_id, ended.get(track_id, now_ns))
        self._inside = len(frame.stays) - len(frame.missing)
        stood = self._stayed(frame) if self.area.within is None else self.stood
        for track_id in frame.seen() if stood or self._since_ns else ():
            if track_id not in stood:
                if track_id in self._since_ns:
                    yield self._end(track_id, now_ns)
            elif track_id not in self._since_ns:
                since_ns = self._since_ns[track_id] = max(frame.stays[track_id].entered_ns, stood[track_id])
                self.tally.loiterers += 1
                yield self._event("began", track_id, now_ns - since_ns, Part.BEGIN)
        self.wake_ns = self._next_ns(frame) if self.area.within is None else NEVER_NS

    def counts(self) -> Mapping[str, int]:
        return {INSIDE: self._inside, "loiterers": self.tally.loiterers}

    def save(self) -> Saved:
        since_ns = list(map(list, self._since_ns.items()))
        return {"since_ns": since_ns, "standing": self.save_rows(), "side": self._side, "inside": self._inside}

    def restore(self, saved: Saved) -> None:
        self._since_ns = {int(track_id): int(since_ns) for track_id, since_ns in saved["since_ns"]}
        self._side = float(saved["side"])
        if self.area.within is not None:
            self.restore_rows(saved["standing"])
        self._inside = int(saved["inside"])

    def _stayed(self, frame: AreaFrame) -> dict[int, int]:
        """Return who has been there for long enough, and since when; who came first is first."""
        latest_ns = frame.now_ns - self.area.after
        stays = takewhile(lambda stay: stay.entered_ns <= latest_ns, frame.stays.values())
        return {stay.track_id: stay.entered_ns for stay in stays}

    def _next_ns(self, frame: AreaFrame) -> int:
        """Return when the next of those who are seen inside has been there for long enough."""
        for track_id, stay in frame.stays.items():
            if track_id not in frame.missing and track_id not in self._since_ns:
                return stay.entered_ns + self.area.after
        return NEVER_NS

    def _end(self, track_id: int, left_ns: int) -> RuleEvent:
        lasted_ns = left_ns - self._since_ns.pop(track_id)
        self.tally.longest_ns = max(self.tally.longest_ns, lasted_ns)
        return self._event("ended", track_id, lasted_ns, Part.END)

    def _event(self, state: str, track_id: int, lasted_ns: int, part: Part) -> RuleEvent:
        data: Data = {"state": state, "track_id": track_id, "seconds": seconds(lasted_ns)}
        return RuleEvent("loitering", self.name, data, part, track_id)


class StreamLoitering(StreamStandingAreas[LoiteringWatch]):
    """The loiterers of one stream."""

    def make_tally(self) -> LoiteringTally:
        return LoiteringTally()

    def make_watch(self, name: str, area: LoiteringArea, tally: LoiteringTally) -> LoiteringWatch:
        watch = LoiteringWatch(name, area, tally)
        watch.standings = self.standings
        return watch

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `loiterers` and `longest_seconds` of each area, also of those that are gone."""
        return {
            name: {"loiterers": own.loiterers, "longest_seconds": seconds(own.longest_ns)}
            for name, own in self.tally.items()
        }
