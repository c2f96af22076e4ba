"""What the history keeps of rules: how often lines and zones were crossed, how long stays lasted, and how many were in
zones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sightline.graph.rule import Occupancy
from sightline.server.feed_records import FeedRecord

DWELL_LIMITS = (1, 2, 5, 10, 20, 60, 120, 300, 600, 1_200, 3_600, 7_200, 21_600)
"""The limits between the buckets of a dwell histogram, in seconds: each two to three times the one before. The first
bucket begins at 0, the last one has no end.
"""
_TOTAL = -1
"""The place of the sum of all stays, in milliseconds."""
_LONGEST_SECONDS = 30 * 86_400
_MOST_RULES = 1_000
Dwell = dict[int, int]
"""Stays by bucket, those that are not 0, and the sum of their durations in milliseconds at -1."""
Inside = tuple[int, int, int]
"""Frames, the sum of the numbers inside on them, and the largest of these."""


@dataclass(slots=True, eq=False)
class ReportedEvents:
    """What the events of one stream add up to, since the beginning: `events` by `element.rule`, `crossings` by
    `element.rule.direction`, `dwell` by `element.rule` and bucket.
    """

    events: Counter[str] = field(default_factory=Counter)
    crossings: Counter[str] = field(default_factory=Counter)
    dwell: Counter[tuple[str, int]] = field(default_factory=Counter)

    def add(self, record: FeedRecord) -> None:
        """Count an event. One with a `direction` is a crossing, and with `dwell_seconds` as well it ends a stay."""
        name = f"{record.element}.{record.rule}"
        self.events[name] += 1
        event: Mapping[str, object] = record.rest["event"]
        direction, seconds = event.get("direction"), event.get("dwell_seconds")
        if not isinstance(direction, str):
            return
        self.crossings[f"{name}.{direction}"] += 1
        if isinstance(seconds, int | float) and 0 <= seconds <= _LONGEST_SECONDS:
            self.dwell[name, bisect_right(DWELL_LIMITS, seconds)] += 1
            self.dwell[name, _TOTAL] += round(seconds * 1_000)

    def copy(self) -> ReportedEvents:
        """What is counted now, which does not change any more."""
        return ReportedEvents(self.events.copy(), self.crossings.copy(), self.dwell.copy())

    def since(self, earlier: ReportedEvents) -> ReportedEvents:
        """What was counted after `earlier`."""
        return ReportedEvents(
            self.events - earlier.events, self.crossings - earlier.crossings, self.dwell - earlier.dwell
        )

    def shrink(self) -> None:
        """Keep the counts of a bounded number of rules."""
        if max(len(self.events), len(self.crossings), len(self.dwell)) > _MOST_RULES:
            self.events = Counter(dict(self.events.most_common(_MOST_RULES // 2)))
            self.crossings = Counter(dict(self.crossings.most_common(_MOST_RULES // 2)))
            self.dwell = Counter({key: count for key, count in self.dwell.items() if key[0] in self.events})


def dwell_by_rule(counted: Mapping[tuple[str, int], int], *, most: int) -> dict[str, Dwell]:
    """Histograms by `element.rule`, of `most` rules."""
    found: dict[str, Dwell] = {}
    for (name, place), count in counted.items():
        if name in found or len(found) < most:
            found.setdefault(name, {})[place] = count
    return found


def added_dwell(histograms: Iterable[Mapping[str, Dwell]]) -> dict[str, Dwell]:
    """The sum of histograms."""
    added: dict[str, Counter[int]] = {}
    for one in histograms:
        for name, dwell in one.items():
            added.setdefault(name, Counter()).update(dwell)
    return {name: dict(dwell) for name, dwell in added.items()}


@dataclass(frozen=True, slots=True)
class DwellHistogram:
    """How long stays in one zone lasted that ended in a span of time: `stays` has a number for each bucket, one more
    than there are `DWELL_LIMITS`; `seconds` is the sum of all.
    """

    stream: str
    name: str
    stays: list[int]
    seconds: float

    @classmethod
    def of(cls, stream: str, name: str, dwell: Dwell) -> DwellHistogram:
        """The histogram of what samples hold."""
        stays = [dwell.get(place, 0) for place in range(len(DWELL_LIMITS) + 1)]
        return cls(stream, name, stays, dwell.get(_TOTAL, 0) / 1_000)


def flat_occupancy(occupancy: Mapping[str, Mapping[str, Occupancy]], stream: str) -> dict[str, Counter[int]]:
    """The occupancy of a stream's zones by `element.rule`."""
    return {
        f"{element}.{rule}": Counter(dict(frames))
        for element, by_stream in occupancy.items()
        for rule, frames in by_stream.get(stream, {}).items()
    }


def inside_since(
    now: Mapping[str, Counter[int]], earlier: Mapping[str, Counter[int]], *, most: int
) -> dict[str, Inside]:
    """How many were inside on the frames since an earlier moment, of `most` zones. A step that was built anew since
    then counts from 0.
    """
    found: dict[str, Inside] = {}
    for name, frames in now.items():
        before = earlier.get(name)
        new = frames if before is None or before.total() > frames.total() else frames - before
        if new and len(found) < most:
            found[name] = (new.total(), sum(number * count for number, count in new.items()), max(new))
    return found


def added_inside(parts: Iterable[Mapping[str, Inside]]) -> dict[str, Inside]:
    """The occupancy of successive intervals as that of one."""
    added: dict[str, Inside] = {}
    for one in parts:
        for name, (frames, total, largest) in one.items():
            before = added.get(name, (0, 0, 0))
            added[name] = (before[0] + frames, before[1] + total, max(before[2], largest))
    return added
