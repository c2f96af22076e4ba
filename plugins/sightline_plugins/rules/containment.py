"""Which tracked objects are inside which areas of a frame, without the coming and going of trembling boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import ClassVar

import numpy as np

from sightline.graph.rule import Points, TrackedObjects
from sightline.graph.state import Saved
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
    Polygon,
    Shape,
    anchor_fractions,
    fixed_margins,
    in_pixels,
    measured_margins,
)

_MOST_REPORTED = 10_000


class Area(Shape):
    """A part of the frame."""

    kind: ClassVar[str] = "zone"
    example: ClassVar[str] = "{polygon: [[x, y], [x, y], [x, y]]}"
    other_options: ClassVar[tuple[str, ...]] = ("id", "streams", "pixels", "gone")

    polygon: Polygon
    """Its corners in order, [[x, y], ...]; edges must not cross."""
    anchor: Anchor = "bottom"
    """The point of the box that has to be inside."""
    margin: Margin = "auto"
    """How far outside an object has to be to have left, in fractions of the frame's height (or pixels). A box that
    trembles on the edge then enters once, instead of coming and going. By default an object comes and goes at
    once, and then stays until it is farther from the edge than its box trembles; 0 switches that off."""

    @property
    def drawing(self) -> tuple[object, ...]:
        """What decides who is inside."""
        return self.polygon, self.anchor, self.margin, self.classes

    def points(self) -> Iterator[tuple[Location, Point]]:
        for number, point in enumerate(self.polygon):
            yield ("polygon", number), point


class Containment:
    """Tells which objects are inside each of Z areas of one stream; takes every frame in order."""

    def __init__(self, areas: Sequence[Area], *, pixels: bool) -> None:
        self.size_wh: tuple[int, int] | None = None
        self._noise = BoxNoise()
        self._reported: dict[int, Mask] = {}
        self._unsettled: dict[int, Mask] = {}
        self._take(areas, pixels)

    def place(self, size_wh: tuple[int, int]) -> list[Points]:
        """Convert the areas to pixels of frames of that size, and return their outlines."""
        self.size_wh = size_wh
        corners = [in_pixels(area.polygon, size_wh=size_wh, pixels=self._pixels) for area in self._areas]
        self._edges = polygon_edges(corners)
        height = 1 if self._pixels else size_wh[1]
        self._margins = fixed_margins((area.margin for area in self._areas), height=height)
        return [tuple((x, y) for x, y in polygon.tolist()) for polygon in corners]

    def judge(self, tracks: TrackedObjects) -> tuple[Mask, Mask, Floats]:
        """Return masks (N, Z): which objects stay in an area if they were there, and which enter if they were not; and
        their anchors (N, Z, 2) in pixels.
        """
        points = anchor_points(tracks.xyxy, fractions=self._fractions)
        inside, counted = self._within(points)
        if self._is_measured:
            trembling = measured_margins((area.margin for area in self._areas), noise=self._noise.update(tracks))
            counted = inside = self._settle(tracks, inside, points, trembling)
        for number, area in enumerate(self._areas):
            if area.classes is not None:
                counted = counted.copy() if counted is inside else counted
                counted[:, number] &= tracks.has_label(area.classes)
        if (seen := tracks.when_active()) is not None:
            seen = seen[:, : len(self._areas)]
            inside, counted = inside & seen, counted & seen
        return inside, counted, points

    def change(
        self,
        areas: Sequence[Area],
        *,
        pixels: bool,
        places: Sequence[int | None],
        redrawn: Set[int],
        last: TrackedObjects | None,
    ) -> tuple[Mask, Mask]:
        """Take over other areas after the frame `last`, and judge its objects in those that were `redrawn`.

        `places` holds the place of each area among the former ones, None for a new one. Returns masks (N, Z), False
        where an area was not redrawn: who stays in it if it was there, and who is inside if it was not.
        """
        self._take(areas, pixels)
        inside = counted = np.zeros((0 if last is None else len(last), len(areas)), np.bool_)
        if last is not None and self.size_wh is not None:
            self.place(self.size_wh)
            inside, counted = self._within(anchor_points(last.xyxy, fractions=self._fractions))
            wanted = np.zeros(inside.shape, np.bool_)
            for number in redrawn:
                area = areas[number]
                is_active = area.schedule is None or area.schedule.is_active(int(last.time_ns[-1]))
                wanted[:, number] = is_active if area.classes is None else last.has_label(area.classes) & is_active
            inside, counted = inside & wanted, counted & wanted
        self._reported = {track_id: _moved(mask, places, redrawn) for track_id, mask in self._reported.items()}
        self._unsettled = {track_id: _moved(mask, places, redrawn) for track_id, mask in self._unsettled.items()}
        for track_id, row in zip([] if last is None else last.track_id.tolist(), counted, strict=True):
            if track_id in self._reported:
                self._reported[track_id] |= row
        return inside, counted

    def save(self) -> Saved:
        """Return what is known of each track."""
        return {
            "noise": self._noise.save(),
            "reported": [[track_id, mask.tolist()] for track_id, mask in self._reported.items()],
            "unsettled": [[track_id, mask.tolist()] for track_id, mask in self._unsettled.items()],
        }

    def restore(self, saved: Saved, *, places: Sequence[int | None]) -> None:
        """Go on with what another process knew; `places` holds the place of each area among those it had."""
        self._noise.restore(saved["noise"])
        self._reported, self._unsettled = (
            {int(track_id): _moved(np.array(mask, np.bool_), places, frozenset()) for track_id, mask in saved[name]}
            for name in ("reported", "unsettled")
        )

    def _take(self, areas: Sequence[Area], pixels: bool) -> None:
        self._areas, self._pixels = areas, pixels
        self._fractions = anchor_fractions(area.anchor for area in areas)
        self._is_measured = any(area.margin == "auto" for area in areas)

    def _within(self, points: Floats) -> tuple[Mask, Mask]:
        """Return masks (N, Z): which points are within the margin of an area, and which are inside."""
        inside = counted = inside_polygons(points, edges=self._edges)
        if self._margins.any():
            inside = inside | (distance_to_edges(points, edges=self._edges) < self._margins)
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


def _moved(mask: Mask, places: Sequence[int | None], redrawn: Set[int]) -> Mask:
    """Return a mask (Z,) of the former areas for the present ones; False where they are new or redrawn."""
    kept = [False if before is None or number in redrawn else mask[before] for number, before in enumerate(places)]
    return np.array(kept, np.bool_)
