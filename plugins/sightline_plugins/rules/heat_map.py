"""`heat_map`: add up where feet stood, how long, and where tracks went, on a grid over the frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.graph import ChangesLive, CheckContext, OutputPath, Problem, Site
from sightline.graph.fields import Fraction
from sightline.graph.outputs import safe_name
from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Graphic, HeatLayer
from sightline.media.frame import NANOSECONDS
from sightline.media.heat import GRID_WH, Cells, feet, levels_of, share_ways
from sightline.media.time import Duration
from sightline_plugins.rules.feet import Feet
from sightline_plugins.rules.geometry import Floats, Mask, inside_polygons, polygon_edges
from sightline_plugins.rules.heat_tally import HeatTally, Measure
from sightline_plugins.rules.shapes import (
    Location,
    Point,
    Polygon,
    Shape,
    ShapeRule,
    continued_tally,
    former_names,
    in_pixels,
)

if TYPE_CHECKING:
    from sightline_plugins.rules.heat_files import HeatMapOperator

STREAM, RULE = "{stream}", "{rule}"
ARRAY_SUFFIXES, IMAGE_SUFFIXES = (".npy", ".csv"), (".png",)
_SHOWN_NS = NANOSECONDS
"""What is drawn is made anew once in this time."""
_UNIT_WH = (1, 1)
Side = Annotated[int, Field(ge=1, le=256)]


class HeatMap(Shape):
    """What one map adds up, and of whom."""

    kind: ClassVar[str] = "map"
    example: ClassVar[str] = "{classes: [person]}"
    other_options: ClassVar[tuple[str, ...]] = ("id", "streams", "pixels", "path", "image", "interval", "opacity")

    measure: Measure = "feet"
    """What a cell holds: `feet`, the seconds for which feet were in it, of all objects together; `dwell`, the seconds
    that an object stays in it, on average of those that came; `paths`, the tracks that passed it, each once."""
    polygon: Polygon | None = None
    """Corners of the part of the frame that counts, [[x, y], ...]: the cells whose middle is inside; all when not
    given."""
    grid: tuple[Side, Side] = GRID_WH
    """Columns and rows of the grid over the whole frame."""
    half_life: Annotated[Duration, Field(ge=NANOSECONDS)] | None = None
    """After this long what was added counts half, so that the map shows the last hour rather than the whole run; it
    counts for ever when not given."""

    @property
    def drawing(self) -> tuple[object, ...]:
        return self.polygon, self.grid, self.classes

    def points(self) -> Iterator[tuple[Location, Point]]:
        for number, point in enumerate(self.polygon or ()):
            yield ("polygon", number), point


class HeatMaps(ShapeRule):
    """Add up where objects stand and go, on a grid over the frame: heat maps as array, image and overlay.

    The feet of an object (the middle of its box's lower edge) are in one cell of the grid at any time. A cell gets the
    time for which feet were in it; on the way from one frame to the next, each cell gets its share. So the sums do not
    depend on the frame rate. An object that was not seen for more than two seconds was elsewhere meanwhile. Only
    objects with a `track_id` count.

    `draw` lays the map over the image, made anew once a second: colours of equal steps (inferno), which grow with the
    square root of the value. `path` and `image` write it to files every `interval` of the stream and at its end:

    - `.npy`, float32 (rows, columns), row 0 at the top: `numpy.load`; or `.csv`, the same as lines of numbers.
    - `.png`: the map over the last frame as it passed here.

    The report holds `seconds` and `tracks` of each map; `tracks` are counted for `dwell` and `paths`. Nothing is
    reported as an event.

    ```yaml
    - heat_map: {standing: {classes: [person]}, image: "out/{stream}-{rule}.png"}
    - heat_map:
        path: "out/{stream}-{rule}.npy"
        interval: 10m
        ways: {measure: paths, half_life: 1h}
        counter: {measure: dwell, polygon: [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9], [0.2, 0.9]], grid: [48, 27]}
    ```
    """

    __pydantic_extra__: dict[str, HeatMap] = Field(init=False)

    name: ClassVar[str] = "heat_map"
    shape: ClassVar[type[Shape]] = HeatMap

    path: OutputPath | None = None
    """File of each map as an array, `.npy` or `.csv`; `{stream}` and `{rule}` stand for the names."""
    image: OutputPath | None = None
    """File of each map as an image over the last frame, `.png`."""
    interval: Annotated[Duration, Field(ge=NANOSECONDS)] = 60 * NANOSECONDS
    """How much time of the stream passes until the files are written again."""
    opacity: ChangesLive[Fraction] = 0.6
    """How much of the hottest colour covers the image; `draw` does not show the maps with 0."""

    @property
    def maps(self) -> Mapping[str, HeatMap]:
        """The maps by name."""
        return self.__pydantic_extra__

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check that the files can be written, each map to its own."""
        from sightline_plugins.sinks.files import path_problems

        for key, template, suffixes in (("path", self.path, ARRAY_SUFFIXES), ("image", self.image, IMAGE_SUFFIXES)):
            if template is None:
                continue
            if PurePath(template).suffix.lower() not in suffixes:
                yield Problem(f"{template!r} must end in {' or '.join(suffixes)}", (key,))
            if len(self.maps) > 1 and RULE not in template:
                text = f"{len(self.maps)} maps would write the same file {template!r}: put {{rule}} into the path"
                yield Problem(text, (key,))
            owners: dict[str, str] = {}
            for name in self.maps if RULE in template else ():
                if (other := owners.setdefault(safe_name(name), name)) != name:
                    yield Problem(f"the maps {other!r} and {name!r} would write the same file: rename one", (name,))
            yield from path_problems(self, template, context=context, shareable=False, known=(STREAM, RULE), key=key)

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamHeat(self, earlier if isinstance(earlier, StreamHeat) else None)

    def build(self, site: Site) -> HeatMapOperator:
        """Make the operator; files are opened when they are written."""
        from sightline_plugins.rules.heat_files import HeatMapOperator

        return HeatMapOperator(self, site=site)


class StreamHeat(StreamRule):
    """The maps of one stream, and where its tracks are."""

    def __init__(self, options: HeatMaps, earlier: StreamHeat | None = None) -> None:
        self._take(options)
        self._feet = Feet()
        self._size_wh = _UNIT_WH
        self._counted: dict[str, Mask] = {}
        self._now_ns: int | None = None
        self._shown_ns: int | None = None
        self._graphics: tuple[Graphic, ...] = ()
        self.tally: dict[str, HeatTally] = {} if earlier is None else earlier.tally
        """The sums by map; those of maps that are gone are behind."""
        self._fit_tally(former={name: name for name in self._maps})

    def change(self, rule: HeatMaps) -> None:
        """Take over other maps, between two frames. Sums go on; a map with another grid begins anew."""
        before = self._maps
        self._take(rule)
        self._fit_tally(former=former_names(before, self._maps))
        self._shown_ns = None

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Find the cells that count on frames of that size. Maps have no outline."""
        self._size_wh = size_wh
        self._counted = {
            name: _cells_inside(in_pixels(one.polygon, size_wh=size_wh, pixels=self._pixels) / size_wh, one.grid)
            for name, one in self._maps.items()
            if one.polygon is not None
        }
        return {}

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Add what happened until each frame; there are no events."""
        points = feet(tracks.xyxy, size_wh=self._size_wh, grid_wh=_UNIT_WH)
        wanted = {name: tracks.has_label(one.classes) for name, one in self._maps.items() if one.classes is not None}
        for number, (now_ns, own) in enumerate(zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True)):
            start, seconds = self._feet.ways(tracks.track_id[own], points[own], now_ns=now_ns)
            if len(start):
                active = None if tracks.active is None else tracks.active[number]
                self._add(tracks.track_id[own], start, points[own], seconds, own, wanted, active, now_ns)
            self._now_ns = now_ns
            self._show(now_ns)
            yield ()

    def graphics(self) -> tuple[Graphic, ...]:
        """Return the maps as they are drawn, made anew once a second."""
        return self._graphics

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return no counts: maps are not drawn with numbers."""
        return {}

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `seconds` and `tracks` of each map, also of those that are gone."""
        return {name: {"seconds": round(own.seconds, 3), "tracks": own.tracks} for name, own in self.tally.items()}

    def values(self, name: str) -> Floats:
        """Return a map (rows, columns) as of the last frame: seconds, seconds for each track, or tracks."""
        own = self.tally[name]
        if self._now_ns is not None:
            own.fade(self._now_ns)
        return own.values(self._maps[name].measure)

    def save(self) -> Saved:
        """Return the sums of the maps, and where the tracks are."""
        tally = {name: own.save() for name, own in self.tally.items()}
        return {"now_ns": self._now_ns, "feet": self._feet.save(), "tally": tally}

    def restore(self, saved: Saved) -> None:
        """Go on with the sums, and with the cells of maps with the same grid."""
        self._now_ns = None if saved["now_ns"] is None else int(saved["now_ns"])
        self._feet.restore(saved["feet"])
        for name, own in saved["tally"].items():
            width, height = own["grid"]
            self.tally.setdefault(str(name), HeatTally((int(width), int(height)))).restore(own)

    def end(self) -> None:
        """Forget the tracks; what was added up stays."""
        self._feet.forget()
        self._now_ns = None
        for own in self.tally.values():
            own.forget_tracks()

    def _take(self, options: HeatMaps) -> None:
        self._maps = options.maps
        self._pixels = options.pixels
        self._opacity = options.opacity

    def _fit_tally(self, *, former: Mapping[str, str]) -> None:
        """Give each map sums of its grid; those of maps that are gone keep no cells."""
        names = list(self._maps)
        found = continued_tally(self.tally, former=former, names=names, make=lambda: HeatTally(_UNIT_WH))
        for name, own in found.items():
            shape = self._maps.get(name)
            grid_wh = _UNIT_WH if shape is None else shape.grid
            own.half_life_ns = None if shape is None else shape.half_life
            if own.grid_wh != grid_wh:
                own.grid_wh = grid_wh
                own.clear()
        self.tally = found

    def _add(
        self,
        track_id: npt.NDArray[np.int64],
        start: Floats,
        end: Floats,
        seconds: Floats,
        own: slice,
        wanted: Mapping[str, Mask],
        active: Mask | None,
        now_ns: int,
    ) -> None:
        """Add ways (N, 2) of fractions of the frame to the maps that want them."""
        pieces: dict[tuple[int, int], tuple[Cells, Cells, Floats]] = {}
        for number, (name, shape) in enumerate(self._maps.items()):
            if active is not None and not active[number]:
                continue
            if shape.grid not in pieces:
                pieces[shape.grid] = share_ways(start * shape.grid, end * shape.grid, columns=shape.grid[0])
            owner, cells, share = pieces[shape.grid]
            kept = wanted[name][own][owner] if name in wanted else None
            if name in self._counted:
                kept = self._counted[name][cells] if kept is None else kept & self._counted[name][cells]
            if kept is not None:
                owner, cells, share = owner[kept], cells[kept], share[kept]
            tally = self.tally[name]
            tally.add_time(cells, share * seconds[owner], now_ns=now_ns)
            if shape.measure != "feet":
                tally.add_passages(track_id[owner], cells, now_ns=now_ns)

    def _show(self, now_ns: int) -> None:
        """Make what is drawn anew, if it is older than a second."""
        if self._opacity and (self._shown_ns is None or not 0 <= now_ns - self._shown_ns < _SHOWN_NS):
            self._shown_ns = now_ns
            self._graphics = tuple(HeatLayer(levels_of(self.values(name)), self._opacity) for name in self._maps)
        elif not self._opacity:
            self._graphics = ()


def _cells_inside(corners: Floats, grid_wh: tuple[int, int]) -> Mask:
    """Return the mask (rows * columns,) of the cells whose middle is inside a polygon (V, 2) in fractions."""
    columns, rows = grid_wh
    x, y = np.meshgrid((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows)
    middles = np.stack([x, y], axis=-1).reshape(-1, 1, 2)
    return inside_polygons(middles, edges=polygon_edges([corners]))[:, 0]
