"""The state of rules of motion on one stream: all areas of a step at once, as pairs of an area and an object in it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline_plugins.rules.area_tracks import AreaTracks
from sightline_plugins.rules.geometry import Floats, Mask, inside_polygons, polygon_edges
from sightline_plugins.rules.motion import Distance, MotionArea, MotionRule, Tally
from sightline_plugins.rules.noise import BoxNoise
from sightline_plugins.rules.polygons import Polygons
from sightline_plugins.rules.shapes import (
    NOISE_MARGIN,
    anchor_fractions,
    continued_tally,
    drawings,
    former_names,
    in_pixels,
    places_of,
)
from sightline_plugins.rules.track_table import Ids, Indices

_LEAST_REACH, _LARGEST_REACH = 0.1, 0.5
AreaEvent = tuple[int, RuleEvent]
"""An event with the number of its area."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenPairs:
    """The P pairs of an area and an object in it on one frame, in the order of the objects, then of the areas.

    area      (P,)    numbers of the areas
    row       (P,)    numbers of the objects among `tracks`
    track_id  (P,)
    points    (P, 2)  anchors, in pixels
    xyxy      (P, 4)  boxes in pixels, float64
    noise     (P,)    standard deviation of the edges of the boxes, in pixels
    active    (Z,)    which areas look at this frame, by their schedules
    frame     slice of all objects of the frame among `tracks`
    """

    now_ns: int
    area: Indices
    row: Indices
    track_id: Ids
    points: Floats
    xyxy: Floats
    noise: Floats
    active: Mask
    frame: slice
    tracks: TrackedObjects

    def __len__(self) -> int:
        return len(self.row)

    @property
    def heights(self) -> Floats:
        """The heights of the boxes (P,)."""
        heights: Floats = self.xyxy[:, 3] - self.xyxy[:, 1]
        return heights

    def reach(self, distances: Floats) -> Floats:
        """Return how far (P,) each object may be from where it stands, in pixels, given the areas' `in_pixels`.

        `auto` is as far as its box trembles, but a tenth of its height at least and half of it at most.
        """
        heights, given = self.heights, distances[self.area]
        trembles = np.clip(NOISE_MARGIN * self.noise, _LEAST_REACH * heights, _LARGEST_REACH * heights)
        return np.where(np.isnan(given), trembles, given)


class StreamMotion(StreamRule):
    """Base of the states of rules of motion: the rules of one element on one stream.

    A subclass steps the pairs of a frame at once in its `table`, and counts in `tally`.
    """

    table: AreaTracks
    areas: Sequence[Any]
    """The areas in order: a number of an area is its place here."""
    names: Sequence[str]
    scale: float
    """Pixels of a distance of 1."""
    size_wh: tuple[int, int] | None = None

    def __init__(self, rule: MotionRule, earlier: StreamMotion | None = None) -> None:
        self.rule: Any = rule
        self._noise = BoxNoise()
        self._attributes: dict[str, npt.NDArray[np.float32]] = {}
        named: Mapping[str, MotionArea] = rule.__pydantic_extra__
        self.tally: dict[str, Tally] = {name: rule.new_tally() for name in named} if earlier is None else earlier.tally
        """The counts by rule; those of rules that are gone are behind."""
        self._take(rule)

    def take(self) -> None:
        """Take over the options of the areas, which are new, or were changed."""

    def take_size(self, size_wh: tuple[int, int]) -> None:
        """Convert what the areas have beside their polygons to pixels of frames of that size."""

    @abstractmethod
    def step(self, seen: SeenPairs) -> list[AreaEvent]:
        """Return the events of the next frame, on which these objects are."""

    @abstractmethod
    def positions(self, rows: Indices) -> Floats:
        """Return the last known positions (N, 2) of rows of the table, in pixels."""

    def is_idle(self) -> bool:
        """Whether nothing is remembered: a frame without objects in the areas then changes nothing."""
        return not len(self.table)

    def stop(self, stopped: Mask, now_ns: int) -> list[AreaEvent]:
        """Forget all tracks in areas (Z,) that are not active any more, and return the events that end what lasts."""
        del now_ns
        self.table.forget(stopped[self.table.area])
        return []

    def renumber(self, moved: Mapping[int, int]) -> None:
        """Give areas other numbers, by the ones that they have, and forget the tracks in all others."""
        self.table.renumber(moved)

    def forget(self, forgotten: Mask) -> None:
        """Forget the rows of the mask (R,), without events."""
        self.table.forget(forgotten)

    def in_pixels(self, distances: Sequence[Distance]) -> Floats:
        """Return distances (Z,) in pixels, NaN for `auto`."""
        return np.array([np.nan if distance == "auto" else distance * self.scale for distance in distances])

    def change(self, rule: MotionRule) -> None:
        """Take over other rules, between two frames.

        Options apply from the next frame on, to the tracks as they are. A track that is not in the area any more is
        forgotten without an event: nothing that it did ended. A rule whose anchor, classes or pixels change begins
        with new tracks.
        """
        before: Mapping[str, MotionArea] = self.rule.__pydantic_extra__
        after: Mapping[str, MotionArea] = rule.__pydantic_extra__
        numbers, former = {name: number for number, name in enumerate(before)}, former_names(before, after)
        self.tally = continued_tally(self.tally, former=former, names=list(after), make=rule.new_tally)
        same_unit = rule.pixels == self.rule.pixels
        moved, redrawn = {}, []
        for number, (name, area) in enumerate(after.items()):
            if name not in former:
                continue
            was = before[former[name]]
            if same_unit and was.identity == area.identity:
                moved[numbers[former[name]]] = number
            if was.polygon != area.polygon:
                redrawn.append(number)
        self.renumber(moved)
        self._take(rule)
        if self.size_wh is None:
            return
        self.place(self.size_wh)
        for number in redrawn:
            self._forget_outside(number, self.size_wh)

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the areas to pixels of frames of that size. Tracks on frames of another size are forgotten."""
        if self.size_wh not in (None, size_wh):
            self.end()
        self.size_wh = size_wh
        pixels = self.rule.pixels
        self.scale = 1.0 if pixels else float(size_wh[1])
        self._fractions = anchor_fractions(area.anchor for area in self.areas)
        outlines: dict[str, Points] = {}
        drawn: dict[int, Floats] = {}
        for number, (name, area) in enumerate(zip(self.names, self.areas, strict=True)):
            corners = _whole(size_wh)
            if area.polygon is not None:
                corners = drawn[number] = in_pixels(area.polygon, size_wh=size_wh, pixels=pixels)
            outlines[name] = tuple((x, y) for x, y in corners.tolist())
        self._drawn = list(drawn)
        """The numbers of the areas that have a polygon, in the order of `_polygons`."""
        self._polygons = Polygons([*drawn.values()], fractions=self._fractions[self._drawn]) if drawn else None
        self.take_size(size_wh)
        return outlines

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield what the rules saw on each frame."""
        noise = self._noise.update(tracks)
        rows, areas = np.nonzero(self._looked_at(tracks))
        boxes = tracks.xyxy[rows].astype(np.float64)
        points = boxes[:, :2] + (boxes[:, 2:] - boxes[:, :2]) * self._fractions[areas]
        track_id, trembling = tracks.track_id[rows], noise[rows]
        self._attributes = {}
        every = np.ones(len(self.areas), np.bool_)
        first = 0
        for frame, (now_ns, own) in enumerate(zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True)):
            end = int(np.searchsorted(rows, own.stop))
            part, first = slice(first, end), end
            active = every if tracks.active is None else tracks.active[frame]
            events = [] if active.all() else self.stop(~active, now_ns)
            if part.start < part.stop or not self.is_idle():
                seen = SeenPairs(
                    now_ns,
                    areas[part],
                    rows[part],
                    track_id[part],
                    points[part],
                    boxes[part],
                    trembling[part],
                    active,
                    own,
                    tracks,
                )
                events += self.step(seen)
            yield [event for _, event in sorted(events, key=_area_of)]

    def note(self, seen: SeenPairs, name: str, values: Floats) -> None:
        """Take over values (P,) of an attribute of the objects of `step`, NaN where there is none; the first area that
        has a value of an object wins.
        """
        column = self._attributes.setdefault(name, np.full(len(seen.tracks), np.nan, np.float32))
        known = np.flatnonzero(~np.isnan(values))[::-1]
        column[seen.row[known]] = values[known]

    def present_tally(self) -> Iterator[tuple[str, Tally]]:
        """Yield the names of the areas with their counts."""
        return ((name, self.tally[name]) for name in self.names)

    def tally_of(self, row: int) -> Tally:
        """Return the counts of the area of a row of the table."""
        return self.tally[self.names[int(self.table.area[row])]]

    def counted(self, rows: Mask) -> list[int]:
        """Return how many of these rows of the table (R,) each area has."""
        areas = self.table.area[rows]
        numbers: list[int] = np.bincount(areas[areas >= 0], minlength=len(self.areas)).tolist()
        return numbers

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the counts for the report, also of rules that are gone."""
        return {name: self.rule.summary(tally) for name, tally in self.tally.items()}

    def attributes(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """Return what the rules measured of the objects of the latest frames; the first rule that has a value wins."""
        return self._attributes

    def save(self) -> Saved:
        """Return the counts and the tracks."""
        return {
            "drawings": self._drawings(),
            "size_wh": None if self.size_wh is None else list(self.size_wh),
            "tally": {name: dict(tally) for name, tally in self.tally.items()},
            "noise": self._noise.save(),
            "tracks": self.table.save(),
        }

    def restore(self, saved: Saved) -> None:
        """Go on with the counts, and with the tracks of rules that look the same."""
        size_wh = saved["size_wh"]
        self.size_wh = None if size_wh is None else (int(size_wh[0]), int(size_wh[1]))
        self._noise.restore(saved["noise"])
        empty = self.rule.new_tally()
        for name, tally in saved["tally"].items():
            self.tally[str(name)] = {key: tally.get(key, 0) for key in empty}
        self.restore_tracks(saved, places_of(saved["drawings"], self._drawings()))

    def restore_tracks(self, saved: Saved, moved: Mapping[int, int]) -> None:
        """Go on with the tracks of the areas of `moved`, which have other numbers here."""
        self.table.restore(saved["tracks"], moved)

    def end(self) -> None:
        """Forget the tracks."""
        self._noise = BoxNoise()
        self.forget(np.ones(len(self.table.area), np.bool_))

    def _take(self, rule: MotionRule) -> None:
        named: Mapping[str, MotionArea] = rule.__pydantic_extra__
        self.rule, self.names, self.areas = rule, list(named), list(named.values())
        self._areas_of: dict[tuple[str, ...], list[int]] = {}
        """The numbers of the areas for each set of classes."""
        for number, area in enumerate(self.areas):
            if area.classes is not None:
                self._areas_of.setdefault(area.classes, []).append(number)
        self.take()

    def _drawings(self) -> dict[str, str]:
        return drawings(self.rule.__pydantic_extra__, pixels=self.rule.pixels)

    def _forget_outside(self, number: int, size_wh: tuple[int, int]) -> None:
        """Forget the tracks in an area that are not within its polygon."""
        polygon = self.areas[number].polygon
        rows = np.flatnonzero(self.table.area == number)
        if polygon is None or not len(rows):
            return
        corners = in_pixels(polygon, size_wh=size_wh, pixels=self.rule.pixels)
        inside = inside_polygons(self.positions(rows)[:, None], edges=polygon_edges([corners]))[:, 0]
        forgotten = np.zeros(len(self.table.area), np.bool_)
        forgotten[rows[~inside]] = True
        self.forget(forgotten)

    def _looked_at(self, tracks: TrackedObjects) -> Mask:
        """Return the mask (N, Z) of the objects that each rule looks at: of its classes, in its area, while active."""
        looked = np.ones((len(tracks), len(self.areas)), np.bool_)
        if self._polygons is not None:
            inside = self._polygons.inside(tracks.xyxy)
            if len(self._drawn) == len(self.areas):
                looked = inside
            else:
                looked[:, self._drawn] = inside
        for classes, numbers in self._areas_of.items():
            looked[:, numbers] &= tracks.has_label(classes)[:, None]
        if (active := tracks.when_active()) is not None:
            looked &= active
        return looked


def _area_of(event: AreaEvent) -> int:
    return event[0]


def _whole(size_wh: tuple[int, int]) -> Floats:
    width, height = size_wh
    return np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float64)
