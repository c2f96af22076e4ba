"""`zones`: report which tracked objects enter and leave zones, how many are inside, and how long they stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Part
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.areas import AreaRule
from sightline_plugins.rules.containment import Area, Containment, tracks_by_area
from sightline_plugins.rules.deepstream_history import DEFAULT_WINDOW, Window
from sightline_plugins.rules.deepstream_zones import DeepStreamZones, Roi
from sightline_plugins.rules.presence import Presence
from sightline_plugins.rules.shapes import (
    MEANS_NOTHING,
    NEEDS_COMPAT,
    Shape,
    continued_tally,
    drawings,
    former_names,
    places_of,
    refuse_options,
    refuse_window,
)
from sightline_plugins.rules.zone_monitor import Change, ZoneChange, ZoneCounts, ZoneLimits, ZoneMonitor


class Zone(Area):
    """A part of the frame."""

    other_options: ClassVar[tuple[str, ...]] = (*Area.other_options, "compat", "window")

    dwell: Duration | None = None
    """Emit an event once when an object has stayed this long."""
    limit: Annotated[int, Field(ge=0)] | None = None
    """Emit an event when more objects than this are inside, and when they no longer are."""
    limit_after: Duration = 0
    """How long the number inside has to be above, or no longer above, the limit."""
    smooth: bool = False
    """With `compat: deepstream`: whether the number inside is the most frequent one in the last `window`
    milliseconds."""


class Zones(AreaRule):
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

    `compat: deepstream` counts as nvdsanalytics of DeepStream does: who is inside on each frame, and a crowd of at
    least `limit` at once.

    ```yaml
    - zones: {plaza: {polygon: [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9], [0.2, 0.9]], classes: [person], dwell: 10s}}
    ```
    """

    __pydantic_extra__: dict[str, Zone] = Field(init=False)

    name: ClassVar[str] = "zones"
    shape: ClassVar[type[Shape]] = Zone

    compat: Literal["deepstream"] | None = None
    """Count as another product does, to compare with it; by default as described above."""
    window: Window = DEFAULT_WINDOW
    """With `compat: deepstream`: its `obj-cnt-win-in-ms`, the milliseconds for which the counts of `smooth` zones
    are remembered, and the frames of each object."""

    @model_validator(mode="after")
    def _check_compat(self) -> Self:
        if self.compat:
            refuse_options(self.name, self.zones, ("anchor", "margin", "dwell", "limit_after"), MEANS_NOTHING)
        else:
            refuse_options(self.name, self.zones, ("smooth",), NEEDS_COMPAT)
        refuse_window(self)
        return self

    @property
    def zones(self) -> Mapping[str, Zone]:
        return self.__pydantic_extra__

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        if self.compat:
            return DeepStreamZones(self, earlier if isinstance(earlier, DeepStreamZones) else None)
        return StreamZones(self, earlier if isinstance(earlier, StreamZones) else None)

    def rois(self) -> Mapping[str, Roi]:
        """Return the zones for `compat: deepstream`."""
        return {name: Roi(zone.polygon, zone.limit, zone.smooth, zone.classes) for name, zone in self.zones.items()}


class StreamZones(StreamRule):
    """The zones of one stream, in pixels of its frames, and the tracks inside."""

    def __init__(self, options: Zones, earlier: StreamZones | None = None) -> None:
        self._take(options)
        self._containment = Containment(list(self._zones.values()), pixels=self._pixels)
        self._presence = Presence()
        self._last: TrackedObjects | None = None
        """The objects of the latest frames."""
        self.tally: dict[str, ZoneCounts] = (
            {name: ZoneCounts() for name in self._names} if earlier is None else earlier.tally
        )
        """The counts by zone; those of zones that are gone are behind."""
        self.monitor = ZoneMonitor(self._limits, [self.tally[name] for name in self._names], options.gone)

    def change(self, rule: Zones) -> None:
        """Take over other zones, between two frames.

        The last frame is judged anew by each zone that is new or was redrawn (also when its classes, its anchor or its
        margin changed). Who was inside and still is stays, with the time of entering. Who is inside because of the
        change has not entered: the stay begins with the change, without an event, and does not count as `entered` or
        as a visitor. Who is outside because of it has not left: the stay ends, uncounted. A track in a stay that is
        hidden at that moment is judged when it is seen again.
        """
        former_zones, former_pixels, names = self._zones, self._pixels, self._names
        self._take(rule)
        former = former_names(former_zones, self._zones)
        self.tally = continued_tally(self.tally, former=former, names=self._names, make=ZoneCounts)
        places = [names.index(former[name]) if name in former else None for name in self._names]
        redrawn = {
            number
            for number, (name, zone) in enumerate(self._zones.items())
            if name not in former or self._pixels != former_pixels or zone.drawing != former_zones[former[name]].drawing
        }
        last, inside, counted = self._containment.change(
            list(self._zones.values()),
            pixels=self._pixels,
            places=places,
            redrawn=redrawn,
            last=None if self._last is None else self._last.last_frame(),
        )
        self._presence.forget()
        self.monitor.change(
            self._limits,
            [self.tally[name] for name in self._names],
            self._gone_ns,
            places=places,
            redrawn=redrawn,
            inside=tracks_by_area(last, inside),
            counted=tracks_by_area(last, counted),
            visible=set(last.tolist()),
        )

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the zones to pixels of frames of that size."""
        self._presence.forget()
        return dict(zip(self._names, self._containment.place(size_wh), strict=True))

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield what changed in the zones on each frame."""
        inside, counted = self._containment.judge(tracks)
        self._last = tracks
        for now_ns, own in zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True):
            presence = self._presence
            changed = presence.take(tracks.track_id[own], inside[own], counted[own])
            changes = self.monitor.update(
                now_ns,
                changed=changed,
                inside=presence.inside,
                counted=presence.counted,
                visible=presence.rows.keys(),
                came=presence.came,
            )
            yield [self._event(change) for change in changes]

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many objects are inside each zone, and its visitors."""
        counts = ((name, self.tally[name]) for name in self._names)
        return {name: {"inside": own.inside, "visitors": own.visitors} for name, own in counts}

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `entered`, `left`, `visitors`, `largest` and `mean_dwell_seconds` of each zone, also of those that are
        gone.
        """
        return {name: _summary(own) for name, own in self.tally.items()}

    def save(self) -> Saved:
        """Return the counts and the stays."""
        return {
            "drawings": drawings(self._zones, pixels=self._pixels),
            "tally": {name: asdict(own) for name, own in self.tally.items()},
            "containment": self._containment.save(),
            "monitor": self.monitor.save(),
        }

    def restore(self, saved: Saved) -> None:
        """Go on with the counts, and with the stays in zones that look the same; other stays have ended, uncounted."""
        moved = places_of(saved["drawings"], drawings(self._zones, pixels=self._pixels))
        tally = {str(name): ZoneCounts(**own) for name, own in saved["tally"].items()}
        self._containment.restore(saved["containment"], moved, count=len(saved["drawings"]))
        self.tally = {**self.tally, **tally}
        self.monitor.counts = [self.tally[name] for name in self._names]
        self.monitor.restore(saved["monitor"], moved)

    def end(self) -> None:
        """End the stays that are still open."""
        self._presence.forget()
        self.monitor.close()
        self._containment.clear()
        self._last = None

    def _take(self, options: Zones) -> None:
        self._zones = options.zones
        self._pixels = options.pixels
        self._gone_ns = options.gone
        self._names = list(self._zones)
        self._limits = [ZoneLimits(zone.dwell, zone.limit, zone.limit_after) for zone in self._zones.values()]

    def _event(self, change: ZoneChange) -> RuleEvent:
        name, kind = self._names[change.zone], change.change
        dwell_seconds = round(change.dwell_ns / NANOSECONDS, 3)
        if kind in (Change.CROWDED, Change.CLEARED):
            part = Part.BEGIN if kind is Change.CROWDED else Part.END
            return RuleEvent("crowd", name, {"state": kind.value, "occupancy": self.tally[name].inside}, part)
        if kind is Change.DWELL:
            return RuleEvent("dwell", name, {"track_id": change.track_id, "dwell_seconds": dwell_seconds})
        data: dict[str, str | int | float] = {"direction": kind.value, "track_id": change.track_id}
        if kind is not Change.ENTER:
            data["dwell_seconds"] = dwell_seconds
        part = Part.BEGIN if kind is Change.ENTER else Part.END
        return RuleEvent("zone", name, data, part, change.track_id)


def _summary(counts: ZoneCounts) -> dict[str, Any]:
    mean_ns = counts.dwell_ns / counts.left if counts.left else 0
    return {
        "entered": counts.entered,
        "left": counts.left,
        "visitors": counts.visitors,
        "largest": counts.largest,
        "mean_dwell_seconds": round(mean_ns / NANOSECONDS, 3),
    }
