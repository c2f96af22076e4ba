"""`absence`: report that nobody has been in an area for some time."""

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
from sightline_plugins.rules.stays import NEVER_NS


class WatchedArea(Area):
    """An area in which somebody should be."""

    example: ClassVar[str] = "{polygon: [[x, y], [x, y], [x, y]], after: 5m}"

    after: Annotated[Duration, Field(gt=0)]
    """How long nobody has to be inside."""
    longest_gap: Annotated[Duration, Field(gt=0)] = 10_000_000_000
    """How much of the time between two frames counts. Longer gaps are a stream that was paused or lost: nobody knows
    who was there meanwhile."""


class Absence(AreaRule):
    """Report that nobody has been in an area for some time, and that somebody is there again.

    The time counts from the first frame, or since the last object left. Both are events `absence`: `state: absent` with
    the `seconds` for which nobody was inside, and `state: present` with all of them and the `track_id` of who came.
    Time without frames counts up to `longest_gap`. An object that is hidden is there until it has been `gone`.
    `draw` shows the number inside and the absences; the report holds the absences, all their time, and the longest.

    ```yaml
    - absence: {reception: {polygon: [[0.4, 0.3], [0.8, 0.3], [0.8, 0.8], [0.4, 0.8]], classes: [person], after: 5m}}
    ```
    """

    __pydantic_extra__: dict[str, WatchedArea] = Field(init=False)

    name: ClassVar[str] = "absence"
    shape: ClassVar[type[Shape]] = WatchedArea

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamAbsences(self, earlier if isinstance(earlier, StreamAbsences) else None)


@dataclass(slots=True)
class AbsenceTally(Tally):
    """Absences from one area of a stream."""

    absences: int = 0
    absent_ns: int = 0
    """Sum of all absences that ended."""
    longest_ns: int = 0


class AbsenceWatch(AreaWatch[WatchedArea, AbsenceTally]):
    """For how long nobody has been in one area."""

    def __init__(self, name: str, area: WatchedArea, tally: AbsenceTally) -> None:
        super().__init__(name, area, tally)
        self._empty_ns = 0
        """How long nobody has been seen inside, without the rest of long gaps."""
        self._last_ns: int | None = None
        """When nobody was seen inside last, or somebody came or went."""
        self._inside = 0
        self._is_absent = False

    def update(self, frame: AreaFrame) -> Iterator[RuleEvent]:
        """Yield that nobody has been there for too long, or that somebody came."""
        step_ns = 0 if self._last_ns is None else min(frame.now_ns - self._last_ns, self.area.longest_gap)
        if self._last_ns is None or self._inside == 0:
            self._empty_ns += step_ns
        else:
            self._empty_ns = 0
        seen = frame.seen()
        self._last_ns, self._inside = frame.now_ns, len(seen)
        self.wake_ns = NEVER_NS if seen else 0
        if self._is_absent and (seen or not frame.is_active):
            self._count()
            data: Data = {"state": "present", "seconds": seconds(self._empty_ns)}
            yield RuleEvent("absence", self.name, data | ({"track_id": seen[0]} if seen else {}), Part.END)
        if not frame.is_active:
            self._empty_ns, self._last_ns = 0, None
        elif not frame.stays and not self._is_absent and self._empty_ns >= self.area.after:
            self._is_absent = True
            self.tally.absences += 1
            data = {"state": "absent", "seconds": seconds(self._empty_ns)}
            yield RuleEvent("absence", self.name, data, Part.BEGIN)

    def counts(self) -> Mapping[str, int]:
        return {INSIDE: self._inside, "absences": self.tally.absences}

    def save(self) -> Saved:
        return {
            "empty_ns": self._empty_ns,
            "last_ns": self._last_ns,
            "is_absent": self._is_absent,
            "inside": self._inside,
        }

    def restore(self, saved: Saved) -> None:
        self._empty_ns, self._inside = int(saved["empty_ns"]), int(saved["inside"])
        self._last_ns = None if saved["last_ns"] is None else int(saved["last_ns"])
        self._is_absent = bool(saved["is_absent"])

    def _count(self) -> None:
        self._is_absent = False
        self.tally.absent_ns += self._empty_ns
        self.tally.longest_ns = max(self.tally.longest_ns, self._empty_ns)


class StreamAbsences(StreamAreas[AbsenceWatch]):
    """The absences of one stream."""

    def make_tally(self) -> AbsenceTally:
        return AbsenceTally()

    def make_watch(self, name: str, area: WatchedArea, tally: AbsenceTally) -> AbsenceWatch:
        return AbsenceWatch(name, area, tally)

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `absences`, `absent_seconds` and `longest_seconds` of each area, also of those that are gone."""
        return {
            name: {
                "absences": own.absences,
                "absent_seconds": seconds(own.absent_ns),
                "longest_seconds": seconds(own.longest_ns),
            }
            for name, own in self.tally.items()
        }
