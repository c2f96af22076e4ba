"""What rules of motion share: named areas of the frame that need no outline, and a monitor for each on every stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Graphic
from sightline_plugins.rules.geometry import Floats, Mask, inside_polygons, polygon_edges
from sightline_plugins.rules.noise import BoxNoise
from sightline_plugins.rules.polygons import Polygons
from sightline_plugins.rules.shapes import (
    NOISE_MARGIN,
    Anchor,
    Location,
    Point,
    Polygon,
    Shape,
    ShapeRule,
    anchor_fractions,
    continued_tally,
    drawings,
    former_names,
    in_pixels,
)
from sightline_plugins.rules.track_table import Ids, Indices, TrackTable

Distance = Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto"]
"""A distance in fractions of the frame's height, or in pixels; `auto`: by the size of the box and how it trembles."""
Tally = dict[str, int | float]
"""What one rule counted on one stream, by name; it outlives the tracks."""
_LEAST_REACH, _LARGEST_REACH = 0.1, 0.5


class MotionArea(Shape):
    """Where a rule of motion looks, and at which objects."""

    kind: ClassVar[str] = "rule"

    polygon: Polygon | None = None
    """The corners of the area, [[x, y], ...], in which objects are looked at; the whole frame when not given."""
    anchor: Anchor = "bottom"
    """The point of the box that moves, and has to be in the area."""

    def points(self) -> Iterator[tuple[Location, Point]]:
        for number, point in enumerate(self.polygon or ()):
            yield ("polygon", number), point

    @property
    def distances(self) -> Iterator[tuple[str, Distance]]:
        """The distances in fractions of the frame's height (or pixels), by option."""
        yield from ()

    @property
    def drawing(self) -> tuple[object, ...]:
        return *self.identity, self.polygon

    @property
    def identity(self) -> tuple[object, ...]:
        """What the positions of tracks depend on: another one begins with new tracks."""
        return self.anchor, self.classes


@dataclass(frozen=True, slots=True, eq=False)
class SeenObjects:
    """The N objects of one frame that a rule looks at.

    row       (N,)    numbers of the objects among `tracks`
    track_id  (N,)
    points    (N, 2)  anchors, in pixels
    xyxy      (N, 4)  boxes in pixels, float64
    noise     (N,)    standard deviation of the edges of the boxes, in pixels
    frame     slice of all objects of the frame among `tracks`
    scale     pixels of a distance of 1
    """

    now_ns: int
    row: Indices
    track_id: Ids
    points: Floats
    xyxy: Floats
    noise: Floats
    frame: slice
    tracks: TrackedObjects
    scale: float

    @property
    def heights(self) -> Floats:
        """The heights of the boxes (N,)."""
        heights: Floats = self.xyxy[:, 3] - self.xyxy[:, 1]
        return heights

    def reach(self, distance: Distance) -> Floats:
        """Return how far (N,) each object may be from where it stands, in pixels.

        `auto` is as far as its box trembles, but a tenth of its height at least and half of it at most.
        """
        if distance != "auto":
            return np.full(len(self.row), distance * self.scale)
        heights = self.heights
        return np.clip(NOISE_MARGIN * self.noise, _LEAST_REACH * heights, _LARGEST_REACH * heights)


class Monitor(ABC):
    """One rule on one stream: the tracks that it remembers, and its tally, which outlives them."""

    table: TrackTable

    @abstractmethod
    def take(self, name: str, rule: Any, tally: Tally) -> None:
        """Take over the rule's name, the element with its options, and its tally: at first, and when they change."""

    @abstractmethod
    def update(self, seen: SeenObjects) -> list[RuleEvent]:
        """Return the events of the next frame, on which these objects are."""

    @abstractmethod
    def positions(self) -> Floats:
        """Return the last known positions (R, 2) of the tracks in the table, in pixels."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """Return the counts that are drawn."""

    def is_idle(self) -> bool:
        """Whether nothing is remembered: a frame without objects in the area then changes nothing."""
        return not len(self.table)

    def graphics(self) -> tuple[Graphic, ...]:
        """Return what is drawn beside the area."""
        return ()

    def values(self, seen: SeenObjects) -> Mapping[str, Floats]:
        """Return attributes of the objects of `update`, each (N,) and NaN where there is no value."""
        del seen
        return {}

    @abstractmethod
    def place(self, size_wh: tuple[int, int], *, pixels: bool) -> None:
        """Take the size of the frames, and whether points are given in pixels of them."""

    def stop(self, now_ns: int) -> list[RuleEvent]:
        """Forget all tracks because the rule is not active any more, and return the events that end what lasts."""
        del now_ns
        self.table.clear()
        return []

    def keep(self, kept: Mask) -> None:
        """Forget the tracks that are not in the mask (R,), without events."""
        self.table.keep(kept)

    def save(self) -> Saved:
        """Return the tracks."""
        return self.table.save()

    def restore(self, saved: Saved) -> None:
        """Go on with the tracks of another process."""
        self.table.restore(saved)


class MotionRule(ShapeRule):
    """Base of rules of motion."""

    counted: ClassVar[tuple[str, ...]]
    """The names of what is in a tally."""

    def monitor(self) -> Monitor:
        """Make the monitor of a rule."""
        raise NotImplementedError

    def summary(self, tally: Tally) -> dict[str, Any]:
        """Return a tally as it stands in the report."""
        raise NotImplementedError

    def new_tally(self) -> Tally:
        """Make the tally of a rule that has counted nothing."""
        return dict.fromkeys(self.counted, 0)

    @model_validator(mode="after")
    def _distances_are_in_the_frame(self) -> Self:
        for name, area in self.__pydantic_extra__.items():
            for option, distance in area.distances:
                if distance != "auto" and distance > 1 and not self.pixels:
                    raise ValueError(
                        f"{name}.{option} is {distance:g} times the height of the frame: give a fraction of it from 0 "
                        "to 1, or pixels and `pixels: true`"
                    )
        return self

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamMotion(self, earlier if isinstance(earlier, StreamMotion) else None)


class StreamMotion(StreamRule):
    """The rules of one element of motion on one stream."""

    def __init__(self, options: MotionRule, earlier: StreamMotion | None = None) -> None:
        self._options = options
        self._areas: Mapping[str, MotionArea] = options.__pydantic_extra__
        self._noise = BoxNoise()
        self._size_wh: tuple[int, int] | None = None
        self._attributes: dict[str, npt.NDArray[np.float32]] = {}
        self.tally: dict[str, Tally] = (
            {name: options.new_tally() for name in self._areas} if earlier is None else earlier.tally
        )
        """The counts by rule; those of rules that are gone are behind."""
        self.monitors: dict[str, Monitor] = {}
        for name in self._areas:
            self.monitors[name] = options.monitor()
            self.monitors[name].take(name, options, self.tally[name])

    def change(self, rule: MotionRule) -> None:
        """Take over other rules, between two frames.

        Options apply from the next frame on, to the tracks as they are. A track that is not in the area any more is
        forgotten without an event: nothing that it did ended. A rule whose anchor, classes or pixels change begins
        with new tracks.
        """
        former_areas, former_pixels, monitors = self._areas, self._options.pixels, self.monitors
        self._options, self._areas = rule, rule.__pydantic_extra__
        former = former_names(former_areas, self._areas)
        self.tally = continued_tally(self.tally, former=former, names=list(self._areas), make=rule.new_tally)
        redrawn = set()
        self.monitors = {}
        for name, area in self._areas.items():
            before = former_areas[former[name]] if name in former else None
            goes_on = before is not None and rule.pixels == former_pixels and before.identity == area.identity
            self.monitors[name] = monitors[former[name]] if goes_on else rule.monitor()
            self.monitors[name].take(name, rule, self.tally[name])
            if before is not None and before.polygon != area.polygon:
                redrawn.add(name)
        if self._size_wh is None:
            return
        self.place(self._size_wh)
        for name in redrawn:
            polygon = self._areas[name].polygon
            if polygon is not None:
                monitor, corners = self.monitors[name], in_pixels(polygon, size_wh=self._size_wh, pixels=rule.pixels)
                monitor.keep(inside_polygons(monitor.positions()[:, None], edges=polygon_edges([corners]))[:, 0])

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the areas to pixels of frames of that size. Tracks on frames of another size are forgotten."""
        if self._size_wh not in (None, size_wh):
            self.end()
        self._size_wh = size_wh
        pixels = self._options.pixels
        self._scale = 1.0 if pixels else float(size_wh[1])
        self._fractions = anchor_fractions(area.anchor for area in self._areas.values())
        outlines: dict[str, Points] = {}
        drawn: dict[str, Floats] = {}
        for name, area in self._areas.items():
            corners = _whole(size_wh)
            if area.polygon is not None:
                corners = in_pixels(area.polygon, size_wh=size_wh, pixels=pixels)
                drawn[name] = corners
            outlines[name] = tuple((x, y) for x, y in corners.tolist())
            self.monitors[name].place(size_wh, pixels=pixels)
        self._drawn = [number for number, name in enumerate(self._areas) if name in drawn]
        """The numbers of the areas that have a polygon, in the order of `_polygons`."""
        self._polygons = Polygons([*drawn.values()], fractions=self._fractions[self._drawn]) if drawn else None
        return outlines

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield what the rules saw on each frame."""
        noise = self._noise.update(tracks)
        xyxy = tracks.xyxy.astype(np.float64)
        looked = self._looked_at(tracks)
        monitors = list(self.monitors.values())
        self._attributes = {}
        active = tracks.active
        for frame, (now_ns, own) in enumerate(zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True)):
            events: list[RuleEvent] = []
            numbers, rows = np.nonzero(looked[own].T)
            rows += own.start
            bounds = np.searchsorted(numbers, np.arange(len(monitors) + 1)).tolist()
            track_id, boxes, trembling = tracks.track_id[rows], xyxy[rows], noise[rows]
            points = boxes[:, :2] + (boxes[:, 2:] - boxes[:, :2]) * self._fractions[numbers]
            for number, (monitor, bound) in enumerate(zip(monitors, pairwise(bounds), strict=True)):
                if active is not None and not active[frame, number]:
                    events += monitor.stop(now_ns)
                    continue
                if bound[0] == bound[1] and monitor.is_idle():
                    continue
                part = slice(*bound)
                seen = SeenObjects(
                    now_ns,
                    rows[part],
                    track_id[part],
                    points[part],
                    boxes[part],
                    trembling[part],
                    own,
                    tracks,
                    self._scale,
                )
                events += monitor.update(seen)
                for name, values in monitor.values(seen).items():
                    column = self._attributes.setdefault(name, np.full(len(tracks), np.nan, np.float32))
                    column[seen.row] = np.where(np.isnan(column[seen.row]), values, column[seen.row])
            yield events

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return the counts that are drawn."""
        return {name: monitor.counts() for name, monitor in self.monitors.items()}

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the counts for the report, also of rules that are gone."""
        return {name: self._options.summary(tally) for name, tally in self.tally.items()}

    def attributes(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """Return what the rules measured of the objects of the latest frames; the first rule that has a value wins."""
        return self._attributes

    def graphics(self) -> tuple[Graphic, ...]:
        """Return what the rules draw beside their areas."""
        return tuple([graphic for monitor in self.monitors.values() for graphic in monitor.graphics()])

    def save(self) -> Saved:
        """Return the counts and the tracks."""
        return {
            "drawings": drawings(self._areas, pixels=self._options.pixels),
            "size_wh": None if self._size_wh is None else list(self._size_wh),
            "tally": {name: dict(tally) for name, tally in self.tally.items()},
            "noise": self._noise.save(),
            "monitors": {name: monitor.save() for name, monitor in self.monitors.items()},
        }

    def restore(self, saved: Saved) -> None:
        """Go on with the counts, and with the tracks of rules that look the same."""
        size_wh = saved["size_wh"]
        self._size_wh = None if size_wh is None else (int(size_wh[0]), int(size_wh[1]))
        self._noise.restore(saved["noise"])
        empty = self._options.new_tally()
        for name, tally in saved["tally"].items():
            self.tally[str(name)] = {key: tally.get(key, 0) for key in empty}
        present = drawings(self._areas, pixels=self._options.pixels)
        for name in self._areas:
            self.monitors[name].take(name, self._options, self.tally[name])
            if saved["drawings"].get(name) == present[name]:
                self.monitors[name].restore(saved["monitors"][name])

    def end(self) -> None:
        """Forget the tracks."""
        self._noise = BoxNoise()
        for monitor in self.monitors.values():
            monitor.keep(np.zeros(len(monitor.table), np.bool_))

    def _looked_at(self, tracks: TrackedObjects) -> Mask:
        """Return the mask (N, Z) of the objects that each rule looks at: of its classes, and in its area."""
        looked = np.ones((len(tracks), len(self._areas)), np.bool_)
        if self._polygons is not None:
            looked[:, self._drawn] = self._polygons.inside(tracks.xyxy)
        areas_of: dict[tuple[str, ...], list[int]] = {}
        for number, area in enumerate(self._areas.values()):
            if area.classes is not None:
                areas_of.setdefault(area.classes, []).append(number)
        for classes, numbers in areas_of.items():
            looked[:, numbers] &= tracks.has_label(classes)[:, None]
        return looked


def _whole(size_wh: tuple[int, int]) -> Floats:
    width, height = size_wh
    return np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float64)
