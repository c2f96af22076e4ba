"""Which tracked objects are inside which areas of a frame, without the coming and going of trembling boxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sightline.graph.rule import Points
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline_plugins.rules.geometry import Mask
from sightline_plugins.rules.settling import ZoneSettling
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
    measured_widths,
)
from sightline_plugins.rules.track_table import Ids


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
        self._settling = ZoneSettling(len(areas))
        self._take(areas, pixels)

    def place(self, size_wh: tuple[int, int]) -> list[Points]:
        """Convert the areas to pixels of frames of that size, and return their outlines."""
        self.size_wh = size_wh
        corners = [in_pixels(area.polygon, size_wh=size_wh, pixels=self._pixels) for area in self._areas]
        margins = [area.margin for area in self._areas]
        self._settling.place(
            corners,
            fractions=self.fractions,
            margins=fixed_margins(margins, height=1 if self._pixels else size_wh[1]),
            widths=measured_widths(margins),
        )
        return [tuple((x, y) for x, y in polygon.tolist()) for polygon in corners]

    def judge(self, tracks: TrackedObjects) -> tuple[Mask, Mask]:
        """Return masks (N, Z): which objects stay in an area if they were there, and which enter if they were not."""
        inside, counted = self._settling.judge(tracks)
        for classes, areas in self._areas_of.items():
            counted[:, areas] &= tracks.has_label(classes)[:, None]
        if (seen := tracks.when_active()) is not None:
            seen = seen[:, : len(self._areas)]
            inside, counted = inside & seen, counted & seen
        return inside, counted

    def change(
        self,
        areas: Sequence[Area],
        *,
        pixels: bool,
        places: Sequence[int | None],
        redrawn: Set[int],
        last: TrackedObjects | None,
    ) -> tuple[npt.NDArray[np.int64], Mask, Mask]:
        """Take over other areas after the frame `last`, and judge its objects in those that were `redrawn`.

        `places` holds the place of each area among the former ones, None for a new one. Returns the tracks (N,) of that
        frame, and masks (N, Z), False where an area was not redrawn: who stays in it if it was there, and who is inside
        if it was not.
        """
        self._take(areas, pixels)
        track_id = np.zeros(0, np.int64)
        inside = counted = np.zeros((0, len(areas)), np.bool_)
        if last is not None and self.size_wh is not None:
            self.place(self.size_wh)
            track_id = last.track_id
            inside, counted = self._settling.look(last.xyxy)
            wanted = np.zeros(inside.shape, np.bool_)
            for number in redrawn:
                area = areas[number]
                is_active = area.schedule is None or area.schedule.is_active(int(last.time_ns[-1]))
                wanted[:, number] = is_active if area.classes is None else last.has_label(area.classes) & is_active
            inside, counted = inside & wanted, counted & wanted
        self._settling.change(places, redrawn=redrawn, inside=dict(zip(track_id.tolist(), counted, strict=True)))
        return track_id, inside, counted

    def save(self) -> Saved:
        """Return what is known of each track."""
        return self._settling.save()

    def restore(self, saved: Saved, moved: Mapping[int, int], *, count: int) -> None:
        """Go on with what another process knew about its `count` areas, of which those of `moved` are here, too: by
        their numbers there.
        """
        self._settling.restore(saved, moved, count=count)

    def clear(self) -> None:
        """Forget the tracks."""
        self._settling.clear()

    def _take(self, areas: Sequence[Area], pixels: bool) -> None:
        self._areas, self._pixels = areas, pixels
        self.fractions = anchor_fractions(area.anchor for area in areas)
        """Where the anchor of each area is (Z, 2), in fractions of a box's width and height."""
        self._areas_of: dict[tuple[str, ...], list[int]] = {}
        """The numbers of the areas for each set of classes."""
        for number, area in enumerate(areas):
            if area.classes is not None:
                self._areas_of.setdefault(area.classes, []).append(number)


def tracks_by_area(track_id: Ids, mask: Mask) -> dict[int, set[int]]:
    """Return the tracks (N,) of a mask (N, Z) by area."""
    areas, rows = np.divmod(np.flatnonzero(mask.T), len(mask)) if len(mask) else np.zeros((2, 0), np.intp)
    ids = track_id[rows].tolist()
    found: dict[int, set[int]] = {}
    first = 0
    for area, count in enumerate(np.bincount(areas).tolist()):
        if count:
            found[area] = set(ids[first : first + count])
            first += count
    return found
