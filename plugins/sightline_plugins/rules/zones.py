"""`zones`: report which tracked objects enter and leave zones, how many are inside, and how long they stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.graph.rule import Points, RuleEvent, StreamRule, TrackedObjects
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.geometry import (
    Floats,
    Mask,
    anchor_points,
    distance_to_edges,
    inside_polygons,
    polygon_edges,
)
from sightline_plugins.rules.noise import BoxNoise
from sightline_plugins.rules.shapes import (
    Anchor,
    Location,
    Margin,
    Point,
    Shape,
    ShapeRule,
    anchor_fractions,
    fixed_margins,
    in_pixels,
    measured_margins,
)

MEMORY_NS = 60_000_000_000
"""A track that left longer ago counts as a new visitor when it comes back."""
NEVER_NS = 1 << 62
_MOST_REPORTED = 10_000

Presence = tuple[int, int]
"""(zone, track)."""


class Zone(Shape):
    """A part of the frame."""

    kind: ClassVar[str] = "zone"
    example: ClassVar[str] = "{polygon: [[x, y], [x, y], [x, y]]}"
    other_options: ClassVar[tuple[str, ...]] = ("id", "streams", "pixels", "gone")

    polygon: Annotated[tuple[Point, ...], Field(min_length=3)]
    """Its corners, [[x, y], ...]; the even-odd rule decides what is inside."""
    anchor: Anchor = "bottom"
    """The point of the box that has to be inside."""
    margin: Margin = "auto"
    """How far outside an object has to be to have left, in fractions of the frame's height (or pixels). A box that
    trembles on the edge then enters once, instead of coming and going. By default an object comes and goes at
    once, and then stays until it is farther from the edge than its box trembles; 0 switches that off."""
    dwell: Duration | None = None
    """Emit an event once when an object has stayed this long."""
    limit: Annotated[int, Field(ge=0)] | None = None
    """Emit an event when more objects than this are inside, and when they no longer are."""
    limit_after: Duration = 0
    """How long the number inside has to be above, or no longer above, the limit."""

    def points(self) -> Iterator[tuple[Location, Point]]:
        for number, point in enumerate(self.polygon):
            yield ("polygon", number), point


class Zones(ShapeRule):
    """Report which tracked objects enter and leave zones, how many are inside, and how long they stay.

    An object is inside when its anchor is. One that trembles on the edge does not come and go: once it
    has come or gone, it stays so until it is farther from the edge than its box trembles; a fixed `margin` is that of
    leaving. Entering and leaving are events `zone` with `direction` (`enter`, `leave`), `track_id` and, when it leaves,
    `dwell_seconds`. With `dwell`, an event `dwell` reports once that an object has stayed that long; with `limit`, an
    event `crowd` reports that a zone became `crowded` or `cleared`. `draw` shows the numbers inside and the visitors
    (different tracks that entered); the report holds them with the mean stay.

    A track that vanishes inside has left once it has been `gone` for some time, and its stay ended when it vanished: a
    longer time bridges occlusions, a shorter one reports sooner. A stay that lasts to the end of the stream ends there,
    without an event.

    ```yaml
    - zones: {plaza: {polygon: [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9], [0.2, 0.9]], classes: [person], dwell: 10s}}
    ```
    """

    __pydantic_extra__: dict[str, Zone] = Field(init=False)

    name: ClassVar[str] = "zones"
    shape: ClassVar[type[Shape]] = Zone

    gone: Duration = 2_000_000_000
    """A track not seen for this long has left."""

    @property
    def zones(self) -> Mapping[str, Zone]:
        return self.__pydantic_extra__

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamZones(self, earlier if isinstance(earlier, StreamZones) else None)


class StreamZones(StreamRule):
    """The zones of one stream, in pixels of its frames, and the tracks inside."""

    def __init__(self, options: Zones, earlier: StreamZones | None = None) -> None:
        self._zones = options.zones
        self._pixels = options.pixels
        self._names = list(self._zones)
        self._fractions = anchor_fractions(zone.anchor for zone in self._zones.values())
        self.tally: list[ZoneCounts] = [ZoneCounts() for _ in self._names] if earlier is None else earlier.tally
        self._is_measured = any(zone.margin == "auto" for zone in self._zones.values())
        self._noise = BoxNoise()
        self._reported: dict[int, Mask] = {}
        self._unsettled: dict[int, Mask] = {}
        limits = [ZoneLimits(zone.dwell, zone.limit, zone.limit_after) for zone in self._zones.values()]
        self.monitor = ZoneMonitor(limits, self.tally, options.gone)

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the zones to pixels of frames of that size."""
        corners = [in_pixels(zone.polygon, size_wh=size_wh, pixels=self._pixels) for zone in self._zones.values()]
        self._edges = polygon_edges(corners)
        height = 1 if self._pixels else size_wh[1]
        self._margins = fixed_margins((zone.margin for zone in self._zones.values()), height=height)
        outlines = (tuple((x, y) for x, y in polygon.tolist()) for polygon in corners)
        return dict(zip(self._names, outlines, strict=True))

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield what changed in the zones on each frame."""
        inside, counted = self._inside(tracks)
        for now_ns, own in zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True):
            track_id = tracks.track_id[own]
            changes = self.monitor.update(
                now_ns,
                inside=_presences(track_id, inside[own]),
                counted=_presences(track_id, counted[own]),
                visible=set(track_id.tolist()),
            )
            yield [self._event(change) for change in changes]

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many objects are inside each zone, and its visitors."""
        counts = zip(self._names, self.tally, strict=True)
        return {name: {"inside": own.inside, "visitors": own.visitors} for name, own in counts}

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `entered`, `left`, `visitors`, `largest` and `mean_dwell_seconds` of each zone."""
        return {name: _summary(own) for name, own in zip(self._names, self.tally, strict=True)}

    def end(self) -> None:
        """End the stays that are still open."""
        self.monitor.close()

    def _inside(self, tracks: TrackedObjects) -> tuple[Mask, Mask]:
        """Return masks (N, Z): which objects stay in a zone if they were there, and which enter if they were not."""
        points = anchor_points(tracks.xyxy, fractions=self._fractions)
        inside = counted = inside_polygons(points, edges=self._edges)
        if self._margins.any():
            inside = inside | (distance_to_edges(points, edges=self._edges) < self._margins)
        if self._is_measured:
            trembling = measured_margins(
                (zone.margin for zone in self._zones.values()), noise=self._noise.update(tracks)
            )
            counted = inside = self._settle(tracks, inside, points, trembling)
        for number, zone in enumerate(self._zones.values()):
            if zone.classes is not None:
                counted = counted.copy() if counted is inside else counted
                counted[:, number] &= tracks.has_label(zone.classes)
        return inside, counted

    def _settle(self, tracks: TrackedObjects, inside: Mask, points: Floats, trembling: Floats) -> Mask:
        """Return the mask (N, Z) without the coming and going of boxes that tremble on an edge.

        A track that comes or goes does so at once; until it is farther from the edge than its box trembles, on one side
        or the other, it stays where it is.
        """
        settled = inside.copy()
        far = distance_to_edges(points, edges=self._edges) > trembling if trembling.any() else None
        for row, track_id in enumerate(tracks.track_id.tolist()):
            now, before = inside[row], self._reported.get(track_id)
            unsettled = self._unsettled.pop(track_id, None)
            if before is not None and far is not None and (unsettled is not None or not far[row].all()):
                held = (now != before) & ~far[row] & (False if unsettled is None else unsettled)
                now = settled[row] = np.where(held, before, now)
                unsettled = ~far[row] & ((now != before) | (False if unsettled is None else unsettled))
                if unsettled.any():
                    self._unsettled[track_id] = unsettled
            self._reported[track_id] = now
        if len(self._reported) > _MOST_REPORTED:
            visible = set(tracks.track_id.tolist())
            self._reported = {one: mask for one, mask in self._reported.items() if one in visible}
        return settled

    def _event(self, change: ZoneChange) -> RuleEvent:
        name, kind = self._names[change.zone], change.change
        dwell_seconds = round(change.dwell_ns / NANOSECONDS, 3)
        if kind in (Change.CROWDED, Change.CLEARED):
            return RuleEvent("crowd", name, {"state": kind.value, "occupancy": self.tally[change.zone].inside})
        if kind is Change.DWELL:
            return RuleEvent("dwell", name, {"track_id": change.track_id, "dwell_seconds": dwell_seconds})
        data: dict[str, str | int | float] = {"direction": kind.value, "track_id": change.track_id}
        if kind is not Change.ENTER:
            data["dwell_seconds"] = dwell_seconds
        return RuleEvent("zone", name, data)


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


@dataclass(slots=True)
class _Crowd:
    is_crowded: bool = False
    since_ns: int | None = None
    """Since when the number inside has been on the other side of the limit."""


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
    _crowds: dict[int, _Crowd] = field(default_factory=dict)
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


def _presences(track_id: npt.NDArray[np.int64], inside: Mask) -> set[tuple[int, int]]:
    rows, zones = np.nonzero(inside)
    return set(zip(zones.tolist(), track_id[rows].tolist(), strict=True))


def _summary(counts: ZoneCounts) -> dict[str, Any]:
    mean_ns = counts.dwell_ns / counts.left if counts.left else 0
    return {
        "entered": counts.entered,
        "left": counts.left,
        "visitors": counts.visitors,
        "largest": counts.largest,
        "mean_dwell_seconds": round(mean_ns / NANOSECONDS, 3),
    }
