"""`crowd`: report when many tracked objects are in an area for some time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sightline.graph.rule import INSIDE, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.media import Part
from sightline.media.time import Duration
from sightline_plugins.rules.areas import AreaFrame, AreaRule, AreaWatch, Data, StreamAreas, Tally, seconds
from sightline_plugins.rules.containment import Area
from sightline_plugins.rules.shapes import Shape
from sightline_plugins.rules.stays import Held


class CrowdArea(Area):
    """An area, and how many are a crowd."""

    example: ClassVar[str] = "{polygon: [[x, y], [x, y], [x, y]], at_least: 5}"

    at_least: Annotated[int, Field(ge=1)]
    """How many objects are a crowd."""
    after: Duration = 2_000_000_000
    """How long so many have to be inside."""
    clear_after: Duration | None = None
    """How long fewer have to be inside for the crowd to have cleared; `after` when not given."""


class Crowd(AreaRule):
    """Report when at least so many tracked objects are in an area for some time, and when they no longer are.

    Both are events `crowd`: `state: crowded` with the `occupancy`, and `state: cleared` with the occupancy and
    `crowded_seconds`, from the moment the number was reached to the moment it no longer was. Changes that are shorter
    than `after` and `clear_after` are no events. An object that is hidden counts until it has been `gone`, so
    occlusions do not clear a crowd. `draw` shows the number inside and the crowds; the report holds the crowds, the
    largest number inside, and the time that was crowded.

    ```yaml
    - crowd: {platform: {polygon: [[0.1, 0.4], [0.9, 0.4], [0.9, 0.9], [0.1, 0.9]], at_least: 8, after: 5s}}
    ```
    """

    __pydantic_extra__: dict[str, CrowdArea] = Field(init=False)

    name: ClassVar[str] = "crowd"
    shape: ClassVar[type[Shape]] = CrowdArea

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamCrowds(self, earlier if isinstance(earlier, StreamCrowds) else None)


@dataclass(slots=True)
class CrowdTally(Tally):
    """Crowds in one area of a stream."""

    crowds: int = 0
    largest: int = 0
    """Most objects inside at once."""
    crowded_ns: int = 0
    """Sum of all crowds that have cleared."""


class CrowdWatch(AreaWatch[CrowdArea, CrowdTally]):
    """Whether one area is crowded."""

    def __init__(self, name: str, area: CrowdArea, tally: CrowdTally) -> None:
        super().__init__(name, area, tally)
        self._crowd = Held()
        self._occupancy = 0

    def update(self, frame: AreaFrame) -> Iterator[RuleEvent]:
        """Yield that the area has become crowded, or has cleared."""
        area, crowd = self.area, self._crowd
        self._occupancy = len(frame.stays)
        self.tally.largest = max(self.tally.largest, self._occupancy)
        clear_after_ns = area.after if area.clear_after is None else area.clear_after
        has_changed = crowd.update(
            frame.now_ns,
            holds=self._occupancy >= area.at_least,
            after_ns=area.after,
            clear_after_ns=clear_after_ns if frame.is_active else 0,
        )
        self.wake_ns = crowd.due_ns(after_ns=area.after, clear_after_ns=clear_after_ns)
        if not has_changed:
            return
        data: Data = {"state": "cleared", "occupancy": self._occupancy}
        if crowd.is_on:
            self.tally.crowds += 1
            yield RuleEvent("crowd", self.name, {**data, "state": "crowded"}, Part.BEGIN)
        else:
            lasted_ns = crowd.ended_ns - crowd.began_ns
            self.tally.crowded_ns += lasted_ns
            yield RuleEvent("crowd", self.name, {**data, "crowded_seconds": seconds(lasted_ns)}, Part.END)

    def counts(self) -> Mapping[str, int]:
        return {INSIDE: self._occupancy, "crowds": self.tally.crowds}

    def save(self) -> Saved:
        return {"crowd": self._crowd.save(), "occupancy": self._occupancy}

    def restore(self, saved: Saved) -> None:
        self._crowd, self._occupancy = Held.restored(saved["crowd"]), int(saved["occupancy"])


class StreamCrowds(StreamAreas[CrowdWatch]):
    """The crowds of one stream."""

    def make_tally(self) -> CrowdTally:
        return CrowdTally()

    def make_watch(self, name: str, area: CrowdArea, tally: CrowdTally) -> CrowdWatch:
        return CrowdWatch(name, area, tally)

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `crowds`, `largest` and `crowded_seconds` of each area, also of those that are gone."""
        return {
            name: {"crowds": own.crowds, "largest": own.largest, "crowded_seconds": seconds(own.crowded_ns)}
            for name, own in self.tally.items()
        }
