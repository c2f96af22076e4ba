"""`zones`: who is in which part of the image, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sightline.graph import Capability, Element, Operator, Site
from sightline.media import Batch, Event, Objects, Overlay, Stream
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
from sightline_plugins.rules.shapes import (
    Anchor,
    Point,
    anchor_fractions,
    groups,
    in_pixels,
    require_fractions,
    require_shape,
)
from sightline_plugins.rules.stays import Change, ZoneChange, ZoneCounts, ZoneLimits, ZoneMonitor


class Zone(BaseModel):
    """A part of the image."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)

    polygon: Annotated[tuple[Point, ...], Field(min_length=3)]
    """Its corners, [[x, y], ...]; what lies inside is told by the even-odd rule."""
    classes: tuple[str, ...] | None = None
    """Labels of the objects that count; all when not given."""
    anchor: Anchor = "bottom"
    """The point of the box that has to be inside."""
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    """How far outside an object has to be to have left, in fractions of the image's height (or pixels). A box that
    trembles on the edge then enters once, instead of coming and going."""
    dwell: Duration | None = None
    """Tell once when an object has stayed this long."""
    limit: Annotated[int, Field(ge=0)] | None = None
    """Tell when more objects than this are inside, and when they no longer are."""
    limit_after: Duration = 0
    """How long the number inside has to be above, or no longer above, the limit."""

    @model_validator(mode="before")
    @classmethod
    def _is_zone(cls, value: object) -> object:
        return require_shape(value, kind="zone", example="{polygon: [[x, y], [x, y], [x, y]]}", options=("gone",))

    @property
    def stay_options(self) -> ZoneLimits:
        """What the keeper of stays needs to know."""
        return ZoneLimits(dwell_ns=self.dwell, limit=self.limit, limit_after_ns=self.limit_after)


class Zones(Element):
    """Say which tracked objects enter and leave parts of the image, how many are inside, and how long they stay.

    An object is inside when its anchor is; a `margin` keeps one that trembles on the edge from coming and going.
    Entering and leaving are events `zone` with `direction` (`enter`, `leave`),
    `track_id` and, when it leaves, `dwell_seconds`. With `dwell`, an event `dwell` tells once that an object has stayed
    that long; with `limit`, an event `crowd` tells that a zone became `crowded` or `cleared`. The numbers inside and
    the visitors (different tracks that entered) are drawn by `draw`, and stand with the mean stay in the report.

    A track that vanishes inside has left once it has been `gone` for some time, and its stay ended when it vanished: a
    longer time bridges occlusions, a shorter one tells sooner. A stay that lasts to the end of the stream ends there,
    without an event.

    ```yaml
    - zones: {plaza: {polygon: [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9], [0.2, 0.9]], classes: [person], dwell: 10s}}
    ```
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Zone] = Field(init=False)

    name: ClassVar[str] = "zones"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TRACKS})
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})

    pixels: bool = False
    """Coordinates are pixels of the image instead of fractions of it."""
    gone: Duration = 2_000_000_000
    """A track not seen for this long has left."""

    @property
    def zones(self) -> Mapping[str, Zone]:
        """The zones by name."""
        return self.__pydantic_extra__

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not self.zones:
            raise ValueError("no zone is given: write NAME: {polygon: [[x, y], [x, y], [x, y]]}")
        if not self.pixels:
            places = [
                ((name, "polygon", number), point)
                for name, zone in self.zones.items()
                for number, point in enumerate(zone.polygon)
            ]
            require_fractions("zones", places)
        return self

    def found_rules(self) -> frozenset[str]:
        """The names of the zones."""
        return frozenset(self.zones)

    def wanted_labels(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """The classes of each zone."""
        for name, zone in self.zones.items():
            for number, label in enumerate(zone.classes or ()):
                yield (name, "classes", number), label

    def serves_all_gpus(self) -> bool:
        """True: who is where stays known when a GPU is lost."""
        return True

    def build(self, site: Site) -> ZoneRule:
        """Make the operator."""
        return ZoneRule(self.zones, pixels=self.pixels, gone_ns=self.gone, step=site.element_id)


@dataclass(slots=True, eq=False)
class _StreamZones:
    """The zones of one stream: in pixels of its images, who is inside, and how they are drawn."""

    size_wh: tuple[int, int]
    edges: Floats
    margins: Floats
    points: tuple[tuple[tuple[float, float], ...], ...]
    keeper: ZoneMonitor
    drawn: tuple[tuple[int, int], ...] = ()
    overlays: tuple[Overlay, ...] = ()


class ZoneRule(Operator):
    """Keeps the stays and figures of each stream."""

    def __init__(self, zones: Mapping[str, Zone], *, pixels: bool, gone_ns: int, step: str = "") -> None:
        self._zones = zones
        self._step = step
        self._pixels = pixels
        self._gone_ns = gone_ns
        self._names = list(zones)
        self._fractions = anchor_fractions(zone.anchor for zone in zones.values())
        self._streams: dict[Stream, _StreamZones] = {}
        self._figures: dict[str, list[ZoneCounts]] = {}

    def process(self, batch: Batch) -> Batch:
        """Add what happened in the zones as events, and the zones with their counts as overlays."""
        events: list[Event] = []
        overlays: list[tuple[Overlay, ...]] = [()] * len(batch)
        for stream, size_wh, rows in groups(batch):
            state = self._state(stream, size_wh)
            index = np.flatnonzero((batch.objects.track_id >= 0) & np.isin(batch.objects.frame, rows))
            inside, counted = self._inside(batch.objects, index, state)
            frame, track_id = batch.objects.frame[index], batch.objects.track_id[index]
            bounds = np.searchsorted(frame, [[row, row + 1] for row in rows]).tolist()
            for row, (first, last) in zip(rows, bounds, strict=True):
                happened = state.keeper.update(
                    batch.frames[row].pts_ns,
                    inside=_presences(track_id[first:last], inside[first:last]),
                    counted=_presences(track_id[first:last], counted[first:last]),
                    visible=set(track_id[first:last].tolist()),
                )
                events += [self._event(happening, row, state) for happening in happened]
                overlays[row] = self._overlays(state)
        return batch.with_events(events).with_overlays(overlays)

    def end_stream(self, stream: Stream) -> None:
        """End the stays that are still open and forget the stream's tracks; its totals stay."""
        state = self._streams.pop(stream, None)
        if state is not None:
            state.keeper.close()

    def close(self) -> None:
        """End all stays."""
        for stream in list(self._streams):
            self.end_stream(stream)

    def totals(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """What was counted: stream, zone, `entered`, `left`, `visitors`, `largest` and `mean_dwell_seconds`."""
        return {
            stream: {name: _summary(own) for name, own in zip(self._names, counts, strict=True)}
            for stream, counts in self._figures.items()
        }

    def _inside(self, objects: Objects, index: npt.NDArray[np.intp], state: _StreamZones) -> tuple[Mask, Mask]:
        """Masks (N, Z) of tracked objects: who stays in the zone if it was there, and who enters it if it was not."""
        points = anchor_points(objects.xyxy[index], fractions=self._fractions)
        inside = counted = inside_polygons(points, edges=state.edges)
        if state.margins.any():
            on_edge = distance_to_edges(points, edges=state.edges) < state.margins
            inside = inside | on_edge
        for number, zone in enumerate(self._zones.values()):
            if zone.classes is not None:
                counted = counted.copy() if counted is inside else counted
                counted[:, number] &= objects.has_label(zone.classes)[index]
        return inside, counted

    def _event(self, happening: ZoneChange, row: int, state: _StreamZones) -> Event:
        name, change = self._names[happening.zone], happening.change
        dwell_seconds = round(happening.dwell_ns / NANOSECONDS, 3)
        if change in (Change.CROWDED, Change.CLEARED):
            inside = state.keeper.counts[happening.zone].inside
            return Event("crowd", name, row, {"state": change.value, "occupancy": inside}, self._step)
        if change is Change.DWELL:
            dwelt = {"track_id": happening.track_id, "dwell_seconds": dwell_seconds}
            return Event("dwell", name, row, dwelt, self._step)
        data: dict[str, str | int | float] = {"direction": change.value, "track_id": happening.track_id}
        if change is not Change.ENTER:
            data["dwell_seconds"] = dwell_seconds
        return Event("zone", name, row, data, self._step)

    def _state(self, stream: Stream, size_wh: tuple[int, int]) -> _StreamZones:
        state = self._streams.get(stream)
        if state is not None and state.size_wh == size_wh:
            return state
        counts = self._figures.setdefault(stream.name, [ZoneCounts() for _ in self._names])
        corners = [in_pixels(zone.polygon, size_wh=size_wh, pixels=self._pixels) for zone in self._zones.values()]
        points = tuple(tuple((x, y) for x, y in polygon.tolist()) for polygon in corners)
        options = [zone.stay_options for zone in self._zones.values()]
        keeper = ZoneMonitor(options, counts, self._gone_ns) if state is None else state.keeper
        height = 1 if self._pixels else size_wh[1]
        margins = np.array([zone.margin * height for zone in self._zones.values()])
        state = self._streams[stream] = _StreamZones(size_wh, polygon_edges(corners), margins, points, keeper)
        return state

    def _overlays(self, state: _StreamZones) -> tuple[Overlay, ...]:
        """The overlays for the present figures: the same ones until a figure changes."""
        counts = state.keeper.counts
        shown = tuple([(own.inside, own.visitors) for own in counts])
        if shown != state.drawn:
            state.drawn = shown
            state.overlays = tuple(
                Overlay("zone", name, points, (("inside", inside), ("visitors", visitors)))
                for name, points, (inside, visitors) in zip(self._names, state.points, shown, strict=True)
            )
        return state.overlays


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
