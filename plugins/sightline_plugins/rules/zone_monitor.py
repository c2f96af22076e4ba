"""Keep track of who is in the zones of a stream: stays, visitors, dwell and crowds. Sets of tracks in, changes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum

from sightline.graph.state import Saved
from sightline_plugins.rules.stays import NEVER_NS, Held

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
    _entered_ns: dict[Presence, int] = field(default_factory=dict)
    _absent_ns: dict[Presence, int] = field(default_factory=dict)
    _due_ns: dict[Presence, int] = field(default_factory=dict)
    _left_ns: dict[Presence, int] = field(default_factory=dict)
    _put_inside: set[Presence] = field(default_factory=set)
    """Stays that a change began: nobody entered."""
    _unjudged: set[Presence] = field(default_factory=set)
    """Stays in redrawn zones of tracks that have not been seen since."""
    _crowds: dict[int, Held] = field(default_factory=dict)
    _next_due_ns: int = NEVER_NS
    _last_ns: int | None = None
    _interval_ns: int = 0

    def update(
        self, now_ns: int, *, inside: Set[Presence], counted: Set[Presence], visible: Set[int]
    ) -> list[ZoneChange]:
        """Return what changed on the frame at `now_ns`.

        `inside` holds every presence of a track in a zone, `counted` those of them that may begin a stay (the class
        is right), `visible` all tracks on the frame.
        """
        changes: list[ZoneChange] = []
        stays = self._entered_ns.keys()
        if self._absent_ns:
            for presence in self._absent_ns.keys() & inside:
                del self._absent_ns[presence]
                self._unjudged.discard(presence)
        missing = stays - inside
        if missing:
            changes += self._missed(sorted(missing), now_ns=now_ns, visible=visible)
        entering = counted - stays
        if entering:
            changes += self._enter(sorted(entering), now_ns=now_ns)
        if now_ns >= self._next_due_ns:
            changes += self._stayed(now_ns)
        changes += self._occupied(inside, now_ns=now_ns)
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
        inside: Set[Presence],
        counted: Set[Presence],
        visible: Set[int],
    ) -> None:
        """Take over other zones after a frame; nothing of it is a change that `update` returns.

        `places` holds the place of each zone among the former ones, None for a new one. `inside`, `counted` and
        `visible` are those of the last frame in `redrawn` zones, which are judged anew.
        """
        former, self.zones, self.counts, self.gone_ns = self.zones, zones, counts, gone_ns
        moved = {before: number for number, before in enumerate(places) if before is not None}
        self._entered_ns = _renumbered(self._entered_ns, moved)
        self._absent_ns = _renumbered(self._absent_ns, moved)
        self._due_ns = _renumbered(self._due_ns, moved)
        self._left_ns = _renumbered(self._left_ns, moved)
        self._put_inside = {(moved[zone], track_id) for zone, track_id in self._put_inside if zone in moved}
        self._unjudged = {(moved[zone], track_id) for zone, track_id in self._unjudged if zone in moved}
        self._crowds = {
            moved[zone]: crowd
            for zone, crowd in self._crowds.items()
            if zone in moved and zones[moved[zone]].limit is not None
        }
        for presence in list(self._entered_ns):
            zone, track_id = presence
            if zone not in redrawn or presence in inside:
                continue
            if track_id in visible:
                self._forget(presence)
            else:
                self._unjudged.add(presence)
        now_ns = self._last_ns or 0
        for number, before in enumerate(places):
            if before is not None and former[before].dwell_ns != zones[number].dwell_ns:
                self._change_dwell(number, was_reported=former[before].dwell_ns is not None, now_ns=now_ns)
        for presence in counted - self._entered_ns.keys():
            self._begin(presence, now_ns=now_ns)
            self._put_inside.add(presence)
        self._next_due_ns = min(self._due_ns.values(), default=NEVER_NS)

    def save(self) -> Saved:
        """Return the stays, who left, and the crowds, by number of the zone."""
        return {
            "entered_ns": _rows(self._entered_ns),
            "absent_ns": _rows(self._absent_ns),
            "due_ns": _rows(self._due_ns),
            "left_ns": _rows(self._left_ns),
            "put_inside": [list(one) for one in sorted(self._put_inside)],
            "unjudged": [list(one) for one in sorted(self._unjudged)],
            "crowds": [[zone, *crowd.save()] for zone, crowd in self._crowds.items()],
            "last_ns": self._last_ns,
            "interval_ns": self._interval_ns,
        }

    def restore(self, saved: Saved, moved: Mapping[int, int]) -> None:
        """Go on with the stays of another process; `moved` holds the numbers of its zones that are here, too."""
        self._entered_ns, self._absent_ns = _times(saved["entered_ns"], moved), _times(saved["absent_ns"], moved)
        self._due_ns, self._left_ns = _times(saved["due_ns"], moved), _times(saved["left_ns"], moved)
        self._put_inside = {(moved[zone], int(track)) for zone, track in saved["put_inside"] if zone in moved}
        self._unjudged = {(moved[zone], int(track)) for zone, track in saved["unjudged"] if zone in moved}
        self._crowds = {
            moved[zone]: Held.restored(crowd)
            for zone, *crowd in saved["crowds"]
            if zone in moved and self.zones[moved[zone]].limit is not None
        }
        self._last_ns, self._interval_ns = saved["last_ns"], int(saved["interval_ns"])
        for presence, entered_ns in self._entered_ns.items():
            dwell_ns = self.zones[presence[0]].dwell_ns
            if dwell_ns is None:
                self._due_ns.pop(presence, None)
            elif presence in self._due_ns:
                self._due_ns[presence] = entered_ns + dwell_ns
        self._next_due_ns = min(self._due_ns.values(), default=NEVER_NS)

    def close(self) -> list[ZoneChange]:
        """End the stays still open, as at the next frame; nothing is left after it."""
        end_ns = (self._last_ns or 0) + self._interval_ns
        return [self._leave(presence, self._absent_ns.get(presence, end_ns)) for presence in sorted(self._entered_ns)]

    def _enter(self, presences: Iterable[Presence], *, now_ns: int) -> Iterator[ZoneChange]:
        for presence in presences:
            zone, track_id = presence
            self._begin(presence, now_ns=now_ns)
            self.counts[zone].entered += 1
            if self._left_ns.pop(presence, None) is None:
                self.counts[zone].visitors += 1
            yield ZoneChange(Change.ENTER, zone, track_id)

    def _begin(self, presence: Presence, *, now_ns: int) -> None:
        self._entered_ns[presence] = now_ns
        dwell_ns = self.zones[presence[0]].dwell_ns
        if dwell_ns is not None:
            self._due_ns[presence] = now_ns + dwell_ns
            self._next_due_ns = min(self._next_due_ns, now_ns + dwell_ns)

    def _forget(self, presence: Presence) -> None:
        """End a stay that nobody ended: its zone was redrawn."""
        self._end_stay(presence, left_ns=self._last_ns or 0)

    def _end_stay(self, presence: Presence, *, left_ns: int) -> int:
        """End a stay, and return when it began; a track that entered is remembered as a visitor."""
        self._absent_ns.pop(presence, None)
        self._due_ns.pop(presence, None)
        self._unjudged.discard(presence)
        if presence in self._put_inside:
            self._put_inside.discard(presence)
        else:
            self._left_ns[presence] = left_ns
            while (oldest := next(iter(self._left_ns))) != presence and left_ns - self._left_ns[oldest] > MEMORY_NS:
                del self._left_ns[oldest]
        return self._entered_ns.pop(presence)

    def _change_dwell(self, zone: int, *, was_reported: bool, now_ns: int) -> None:
        """Set when the stays in a zone are due by its present limit. A stay that was reported (`was_reported`: if there
        was a limit, and it is not due any more) is reported again only by a limit that it has yet to reach.
        """
        dwell_ns = self.zones[zone].dwell_ns
        for presence, entered_ns in self._entered_ns.items():
            if presence[0] != zone:
                continue
            has_been = was_reported and presence not in self._due_ns
            self._due_ns.pop(presence, None)
            if dwell_ns is not None and not (has_been and entered_ns + dwell_ns <= now_ns):
                self._due_ns[presence] = entered_ns + dwell_ns

    def _missed(self, presences: Iterable[Presence], *, now_ns: int, visible: Set[int]) -> Iterator[ZoneChange]:
        for presence in presences:
            since_ns = self._absent_ns.setdefault(presence, now_ns)
            if presence in self._unjudged and presence[1] in visible:
                self._forget(presence)
            elif presence[1] in visible or now_ns - since_ns >= self.gone_ns:
                yield self._leave(presence, since_ns)

    def _leave(self, presence: Presence, left_ns: int) -> ZoneChange:
        zone, track_id = presence
        dwell_ns = left_ns - self._end_stay(presence, left_ns=left_ns)
        self.counts[zone].left += 1
        self.counts[zone].dwell_ns += dwell_ns
        return ZoneChange(Change.LEAVE, zone, track_id, dwell_ns)

    def _stayed(self, now_ns: int) -> Iterator[ZoneChange]:
        due = sorted(presence for presence, due_ns in self._due_ns.items() if due_ns <= now_ns)
        for presence in due:
            if presence not in self._absent_ns:
                del self._due_ns[presence]
                yield ZoneChange(Change.DWELL, *presence, now_ns - self._entered_ns[presence])
        self._next_due_ns = min(self._due_ns.values(), default=NEVER_NS)

    def _occupied(self, inside: Set[Presence], *, now_ns: int) -> Iterator[ZoneChange]:
        numbers = [0] * len(self.zones)
        for zone, _ in self._entered_ns.keys() & inside:
            numbers[zone] += 1
        for counts, number in zip(self.counts, numbers, strict=True):
            counts.inside = number
            if number > counts.largest:
                counts.largest = number
        for zone, options in enumerate(self.zones):
            if options.limit is not None:
                yield from self._crowd(zone, is_over=numbers[zone] > options.limit, now_ns=now_ns)

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
