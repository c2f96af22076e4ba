"""Keep track of who is in the zones of a stream: stays, visitors, dwell and crowds. Sets of tracks in, changes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter

from sightline.graph.state import Saved
from sightline_plugins.rules.stays import NEVER_NS, NOBODY, Held, Stay, Stays

MEMORY_NS = 60_000_000_000
"""A track that left longer ago counts as a new visitor when it comes back."""

Presence = tuple[int, int]
"""(zone, track)."""


class Change(StrEnum):
    """What can happen in a zone."""

    ENTER = "enter"
    LEAVE = "leave"
    DWELL = "dwell"
    CROWDED = "crowded"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True)
class ZoneLimits:
    """Limits of one zone: `dwell_ns` after which a stay is reported, and `limit` of tracks inside; None for neither.

    A zone is crowded when more than `limit` tracks have been inside for `limit_after_ns`, and cleared when no more
    than that have been for as long.
    """

    dwell_ns: int | None = None
    limit: int | None = None
    limit_after_ns: int = 0


@dataclass(frozen=True, slots=True)
class ZoneChange:
    """One change in one zone. `track_id` is -1 where it concerns all; `dwell_ns` is how long the stay has lasted."""

    change: Change
    zone: int
    track_id: int = -1
    dwell_ns: int = 0


@dataclass(slots=True)
class ZoneCounts:
    """Counts of one zone on one stream."""

    inside: int = 0
    """Tracks inside on the last frame."""
    largest: int = 0
    """Most tracks inside on one frame."""
    entered: int = 0
    left: int = 0
    visitors: int = 0
    """Different tracks that entered."""
    dwell_ns: int = 0
    """Sum of all stays that ended."""


@dataclass(slots=True, eq=False)
class ZoneMonitor:
    """Keeps track of the objects in the zones of one stream; takes every frame in order.

    A track enters when it is inside, leaves when it is seen outside, and also when it has not been seen for
    `gone_ns`: it then left at the first frame without it. Meanwhile it does not count as inside.
    """

    zones: Sequence[ZoneLimits]
    counts: Sequence[ZoneCounts]
    gone_ns: int
    _stays: list[Stays] = field(init=False)
    """The open stays in each zone."""
    _due_ns: dict[Presence, int] = field(default_factory=dict)
    _left_ns: dict[Presence, int] = field(default_factory=dict)
    _crowds: dict[int, Held] = field(default_factory=dict)
    _next_due_ns: int = NEVER_NS
    _last_ns: int | None = None
    _interval_ns: int = 0

    def __post_init__(self) -> None:
        self._stays = [Stays() for _ in self.zones]

    def update(
        self,
        now_ns: int,
        *,
        changed: Set[int],
        inside: Sequence[Set[int]],
        counted: Sequence[Set[int]],
        visible: Set[int],
        came: Set[int],
    ) -> list[ZoneChange]:
        """Return what changed on the frame at `now_ns`.

        `inside` holds the tracks in each zone, `counted` those of them that may begin a stay (the class is right),
        `visible` all tracks on the frame, and `came` those that were not on the frame before. In zones that are not
        among `changed`, the same ones are inside and counted as on that.
        """
        changes: list[ZoneChange] = []
        entering: list[tuple[int, list[Stay]]] = []
        gone_ns = self.gone_ns
        for zone, stays in enumerate(self._stays):
            if zone not in changed and stays.rests(now_ns, came=came, gone_ns=gone_ns):
                continue
            entered, left = stays.update(
                now_ns, inside=inside[zone], counted=counted[zone], visible=visible, gone_ns=gone_ns
            )
            if left:
                changes += self._ended(zone, left)
            if entered:
                entering.append((zone, entered))
        for zone, entered in entering:
            changes += self._enter(zone, entered)
        if now_ns >= self._next_due_ns:
            changes += self._stayed(now_ns)
        changes += self._occupied(now_ns)
        self._interval_ns = 0 if self._last_ns is None else max(0, now_ns - self._last_ns)
        self._last_ns = now_ns
        return changes

    def change(
        self,
        zones: Sequence[ZoneLimits],
        counts: Sequence[ZoneCounts],
        gone_ns: int,
        *,
        places: Sequence[int | None],
        redrawn: Set[int],
        inside: Mapping[int, Set[int]],
        counted: Mapping[int, Set[int]],
        visible: Set[int],
    ) -> None:
        """Take over other zones after a frame; nothing of it is a change that `update` returns.

        `places` holds the place of each zone among the former ones, None for a new one. `inside`, `counted` and
        `visible` are those of the last frame in `redrawn` zones, which are judged anew.
        """
        former, self.zones, self.counts, self.gone_ns = self.zones, zones, counts, gone_ns
        moved = {before: number for number, before in enumerate(places) if before is not None}
        self._stays = [Stays() if place is None else self._stays[place] for place in places]
        self._due_ns = _renumbered(self._due_ns, moved)
        self._left_ns = _renumbered(self._left_ns, moved)
        self._crowds = {
            moved[zone]: crowd
            for zone, crowd in self._crowds.items()
            if zone in moved and zones[moved[zone]].limit is not None
        }
        now_ns = self._last_ns or 0
        for number, before in enumerate(places):
            if before is not None and former[before].dwell_ns != zones[number].dwell_ns:
                self._change_dwell(number, was_reported=former[before].dwell_ns is not None, now_ns=now_ns)
        for number in sorted(redrawn):
            stays = self._stays[number]
            known = set(stays.open)
            stays.edit(now_ns, inside=inside.get(number, NOBODY), counted=counted.get(number, NOBODY), visible=visible)
            for stay in stays.voided:
                self._end_stay(number, stay, left_ns=now_ns)
            stays.voided.clear()
            for track_id in stays.open.keys() - known:
                self._begin((number, track_id), now_ns)
        self._next_due_ns = min(self._due_ns.values(), default=NEVER_NS)

    def save(self) -> Saved:
        """Return the stays, who left, and the crowds, by number of the zone."""
        return {
            "stays": [stays.save() for stays in self._stays],
            "due_ns": _rows(self._due_ns),
            "left_ns": _rows(self._left_ns),
            "crowds": [[zone, *crowd.save()] for zone, crowd in self._crowds.items()],
            "last_ns": self._last_ns,
            "interval_ns": self._interval_ns,
        }

    def restore(self, saved: Saved, moved: Mapping[int, int]) -> None:
        """Go on with the stays of another process; `moved` holds the numbers of its zones that are here, too."""
        for before, zone in moved.items():
            self._stays[zone].restore(saved["stays"][before])
        self._due_ns, self._left_ns = _times(saved["due_ns"], moved), _times(saved["left_ns"], moved)
        self._crowds = {
            moved[zone]: Held.restored(crowd)
            for zone, *crowd in saved["crowds"]
            if zone in moved and self.zones[moved[zone]].limit is not None
        }
        self._last_ns, self._interval_ns = saved["last_ns"], int(saved["interval_ns"])
        for presence in list(self._due_ns):
            zone, track_id = presence
            dwell_ns = self.zones[zone].dwell_ns
            if dwell_ns is None:
                del self._due_ns[presence]
            else:
                self._due_ns[presence] = self._stays[zone].open[track_id].entered_ns + dwell_ns
        self._next_due_ns = min(self._due_ns.values(), default=NEVER_NS)

    def close(self) -> list[ZoneChange]:
        """End the stays still open, as at the next frame; nothing is left after it."""
        end_ns = (self._last_ns or 0) + self._interval_ns
        return [
            self._leave(zone, stay)
            for zone, stays in enumerate(self._stays)
            for stay in sorted(stays.close(end_ns), key=attrgetter("track_id"))
        ]

    def _enter(self, zone: int, entered: Iterable[Stay]) -> Iterator[ZoneChange]:
        for stay in entered:
            presence = zone, stay.track_id
            self._begin(presence, stay.entered_ns)
            self.counts[zone].entered += 1
            if self._left_ns.pop(presence, None) is None:
                self.counts[zone].visitors += 1
            yield ZoneChange(Change.ENTER, zone, stay.track_id)

    def _begin(self, presence: Presence, now_ns: int) -> None:
        dwell_ns = self.zones[presence[0]].dwell_ns
        if dwell_ns is not None:
            self._due_ns[presence] = now_ns + dwell_ns
            self._next_due_ns = min(self._next_due_ns, now_ns + dwell_ns)

    def _ended(self, zone: int, left: Iterable[Stay]) -> Iterator[ZoneChange]:
        """Yield who left. Nobody ended a stay whose zone was redrawn while its track was hidden, and who is seen
        outside of it.
        """
        for stay in left:
            if stay.is_unjudged and stay.is_outside:
                self._end_stay(zone, stay, left_ns=self._last_ns or 0)
            else:
                yield self._leave(zone, stay)

    def _leave(self, zone: int, stay: Stay) -> ZoneChange:
        assert stay.absent_ns is not None
        dwell_ns = stay.absent_ns - stay.entered_ns
        self._end_stay(zone, stay, left_ns=stay.absent_ns)
        self.counts[zone].left += 1
        self.counts[zone].dwell_ns += dwell_ns
        return ZoneChange(Change.LEAVE, zone, stay.track_id, dwell_ns)

    def _end_stay(self, zone: int, stay: Stay, *, left_ns: int) -> None:
        """Forget when a stay is due; a track that entered is remembered as a visitor."""
        presence = zone, stay.track_id
        self._due_ns.pop(presence, None)
        if stay.is_placed:
            return
        self._left_ns[presence] = left_ns
        while (oldest := next(iter(self._left_ns))) != presence and left_ns - self._left_ns[oldest] > MEMORY_NS:
            del self._left_ns[oldest]

    def _change_dwell(self, zone: int, *, was_reported: bool, now_ns: int) -> None:
        """Set when the stays in a zone are due by its present limit. A stay that was reported (`was_reported`: if there
        was a limit, and it is not due any more) is reported again only by a limit that it has yet to reach.
        """
        dwell_ns = self.zones[zone].dwell_ns
        for track_id, stay in self._stays[zone].open.items():
            presence = zone, track_id
            has_been = was_reported and presence not in self._due_ns
            self._due_ns.pop(presence, None)
            if dwell_ns is not None and not (has_been and stay.entered_ns + dwell_ns <= now_ns):
                self._due_ns[presence] = stay.entered_ns + dwell_ns

    def _stayed(self, now_ns: int) -> Iterator[ZoneChange]:
        for presence in sorted(presence for presence, due_ns in self._due_ns.items() if due_ns <= now_ns):
            zone, track_id = presence
            if track_id not in self._stays[zone].missing:
                del self._due_ns[presence]
                yield ZoneChange(Change.DWELL, *presence, now_ns - self._stays[zone].open[track_id].entered_ns)
        self._next_due_ns = min(self._due_ns.values(), default=NEVER_NS)

    def _occupied(self, now_ns: int) -> Iterator[ZoneChange]:
        for stays, counts in zip(self._stays, self.counts, strict=True):
            counts.inside = number = len(stays.open) - len(stays.missing)
            if number > counts.largest:
                counts.largest = number
        for zone, options in enumerate(self.zones):
            if options.limit is not None:
                yield from self._crowd(zone, is_over=self.counts[zone].inside > options.limit, now_ns=now_ns)

    def _crowd(self, zone: int, *, is_over: bool, now_ns: int) -> Iterator[ZoneChange]:
        after_ns = self.zones[zone].limit_after_ns
        crowd = self._crowds.setdefault(zone, Held())
        if crowd.update(now_ns, holds=is_over, after_ns=after_ns, clear_after_ns=after_ns):
            yield ZoneChange(Change.CROWDED if is_over else Change.CLEARED, zone)


def _rows(times: Mapping[Presence, int]) -> list[list[int]]:
    return [[zone, track_id, time] for (zone, track_id), time in times.items()]


def _times(rows: Sequence[Sequence[int]], moved: Mapping[int, int]) -> dict[Presence, int]:
    return {(moved[zone], int(track_id)): int(time) for zone, track_id, time in rows if zone in moved}


def _renumbered(times: Mapping[Presence, int], moved: Mapping[int, int]) -> dict[Presence, int]:
    """Return times by presence, in their order, of the zones that have a number now."""
    return {(moved[zone], track_id): time for (zone, track_id), time in times.items() if zone in moved}
