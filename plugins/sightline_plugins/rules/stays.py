"""Stays in zones: from where tracks are, frame by frame, to who entered, left, stayed long, and how many are inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum

MEMORY_NS = 60_000_000_000
"""A track that left longer ago counts as a new visitor when it comes back."""
NEVER_NS = 1 << 62

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
    """Rules of one zone: `dwell_ns` after which a stay is told, and `limit` of tracks inside; None for neither.

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
    """What was counted in one zone of one stream."""

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


@dataclass(slots=True)
class _Crowd:
    is_crowded: bool = False
    since_ns: int | None = None
    """Since when the number inside has said otherwise."""


@dataclass(slots=True, eq=False)
class ZoneMonitor:
    """Follows who is in the zones of one stream; feed it every frame in order.

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
    _crowds: dict[int, _Crowd] = field(default_factory=dict)
    _next_due_ns: int = NEVER_NS
    _last_ns: int | None = None
    _interval_ns: int = 0

    def update(
        self, now_ns: int, *, inside: Set[Presence], counted: Set[Presence], visible: Set[int]
    ) -> list[ZoneChange]:
        """What happened on the frame at `now_ns`.

        `inside` holds every presence of a track in a zone, `counted` those of them that may begin a stay (the class
        is right), `visible` all tracks on the frame.
        """
        happened: list[ZoneChange] = []
        stays = self._entered_ns.keys()
        if self._absent_ns:
            for presence in self._absent_ns.keys() & inside:
                del self._absent_ns[presence]
        missing = stays - inside
        if missing:
            happened += self._missed(sorted(missing), now_ns=now_ns, visible=visible)
        entering = counted - stays
        if entering:
            happened += self._enter(sorted(entering), now_ns=now_ns)
        if now_ns >= self._next_due_ns:
            happened += self._stayed(now_ns)
        happened += self._occupied(inside, now_ns=now_ns)
        self._interval_ns = 0 if self._last_ns is None else max(0, now_ns - self._last_ns)
        self._last_ns = now_ns
        return happened

    def close(self) -> list[ZoneChange]:
        """End the stays still open, as at the next frame; nothing is left after it."""
        end_ns = (self._last_ns or 0) + self._interval_ns
        return [self._leave(presence, self._absent_ns.get(presence, end_ns)) for presence in sorted(self._entered_ns)]

    def _enter(self, presences: Iterable[Presence], *, now_ns: int) -> Iterator[ZoneChange]:
        for presence in presences:
            zone, track_id = presence
            self._entered_ns[presence] = now_ns
            self.counts[zone].entered += 1
            if self._left_ns.pop(presence, None) is None:
                self.counts[zone].visitors += 1
            dwell_ns = self.zones[zone].dwell_ns
            if dwell_ns is not None:
                self._due_ns[presence] = now_ns + dwell_ns
                self._next_due_ns = min(self._next_due_ns, now_ns + dwell_ns)
            yield ZoneChange(Change.ENTER, zone, track_id)

    def _missed(self, presences: Iterable[Presence], *, now_ns: int, visible: Set[int]) -> Iterator[ZoneChange]:
        for presence in presences:
            since_ns = self._absent_ns.setdefault(presence, now_ns)
            if presence[1] in visible or now_ns - since_ns >= self.gone_ns:
                yield self._leave(presence, since_ns)

    def _leave(self, presence: Presence, left_ns: int) -> ZoneChange:
        zone, track_id = presence
        dwell_ns = left_ns - self._entered_ns.pop(presence)
        self._absent_ns.pop(presence, None)
        self._due_ns.pop(presence, None)
        self.counts[zone].left += 1
        self.counts[zone].dwell_ns += dwell_ns
        self._left_ns[presence] = left_ns
        while (oldest := next(iter(self._left_ns))) != presence and left_ns - self._left_ns[oldest] > MEMORY_NS:
            del self._left_ns[oldest]
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
        for zone, (number, counts, options) in enumerate(zip(numbers, self.counts, self.zones, strict=True)):
            counts.inside = number
            counts.largest = max(counts.largest, number)
            if options.limit is not None:
                yield from self._crowd(zone, is_over=number > options.limit, now_ns=now_ns)

    def _crowd(self, zone: int, *, is_over: bool, now_ns: int) -> Iterator[ZoneChange]:
        crowd = self._crowds.setdefault(zone, _Crowd())
        if is_over == crowd.is_crowded:
            crowd.since_ns = None
            return
        crowd.since_ns = now_ns if crowd.since_ns is None else crowd.since_ns
        if now_ns - crowd.since_ns >= self.zones[zone].limit_after_ns:
            crowd.is_crowded, crowd.since_ns = is_over, None
            yield ZoneChange(Change.CROWDED if is_over else Change.CLEARED, zone)
