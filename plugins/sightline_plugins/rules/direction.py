"""`direction`: report tracked objects that move in an allowed or a forbidden direction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.graph.described import Described
from sightline.graph.rule import Counts, RuleEvent, StreamRule
from sightline.media import Arrows
from sightline_plugins.rules.area_tracks import AreaTracks
from sightline_plugins.rules.deepstream_motion import DeepStreamDirection, DeepStreamRule
from sightline_plugins.rules.geometry import Floats
from sightline_plugins.rules.motion import ComparedMotionRule, Distance, MotionArea, Tally
from sightline_plugins.rules.shapes import (
    AREA_OPTIONS,
    MEANS_NOTHING,
    NOISE_MARGIN,
    Coordinate,
    Location,
    Point,
    Shape,
    in_pixels,
    refuse_options,
)
from sightline_plugins.rules.stream_motion import AreaEvent, SeenPairs, StreamMotion
from sightline_plugins.rules.track_table import Indices

_GAP_NS = 3_000_000_000
"""A track that was not seen for longer begins its way anew."""
_MEMORY_NS = 60_000_000_000
"""A track that was not seen for longer is another object."""
_OF_FRAME, _OF_BOX, _OF_NOISE = 0.05, 0.5, 2 * NOISE_MARGIN
"""The distance `auto`, of the height of the frame, of that of the box, and of its noise: the largest of them."""


_ARROW_LENGTH = 0.2
"""The length of the arrow that shows an angle, of the height of the frame."""


class Arrow(Described):
    """A direction as an arrow on the frame."""

    start: Annotated[Point, Field(alias="from")]
    """Where the arrow begins, [x, y]."""
    to: Point
    """Where it points to, [x, y]."""

    @model_validator(mode="after")
    def _has_length(self) -> Self:
        if self.start == self.to:
            raise ValueError("from and to are the same point: an arrow needs a length")
        return self


Angle = Annotated[Coordinate, Field(ge=-360, le=360)]


class DirectionArea(MotionArea):
    """An area in which objects have to move in some direction."""

    example: ClassVar[str] = "{allowed: {from: [x, y], to: [x, y]}}"
    other_options: ClassVar[tuple[str, ...]] = (*MotionArea.other_options, "compat", "window")

    allowed: Arrow | Angle | None = None
    """The direction in which objects have to move: an arrow {from: [x, y], to: [x, y]}, or an angle in degrees, 0 to
    the right and 90 upwards. Every other direction is wrong, if `forbidden` is not given as well."""
    forbidden: Arrow | Angle | None = None
    """The direction in which objects must not move, in the same way. Every other one is right, if `allowed` is not
    given as well; then those that are neither are not judged."""
    tolerance: Annotated[float, Field(gt=0, lt=180, allow_inf_nan=False)] = 45
    """By how many degrees a direction may differ from the given one, to either side."""
    distance: Distance = "auto"
    """How far an object has to go to be judged, in fractions of the frame's height (or pixels). By default the largest
    of a twentieth of the frame's height, half of the box's height, and twelve times the deviation of its edges, which
    is measured."""

    @model_validator(mode="after")
    def _is_judged(self) -> Self:
        if self.allowed is None and self.forbidden is None:
            raise ValueError(f"give the direction that is allowed, or forbidden: {self.example}")
        if self.allowed == self.forbidden:
            raise ValueError("allowed and forbidden are the same direction: give one of them, or different ones")
        return self

    def points(self) -> Iterator[tuple[Location, Point]]:
        yield from super().points()
        for option, arrow in (("allowed", self.allowed), ("forbidden", self.forbidden)):
            if isinstance(arrow, Arrow):
                yield (option, "from"), arrow.start
                yield (option, "to"), arrow.to

    @property
    def distances(self) -> Iterator[tuple[str, Distance]]:
        yield "distance", self.distance


class Direction(ComparedMotionRule):
    """Report tracked objects that move in an allowed or a forbidden direction.

    Give `allowed`, `forbidden` or both, as arrows or angles: 0 degrees are to the right on the screen, 90 upwards, 180
    to the left and 270 downwards. An object is judged by the way that it went and not by frames: when it has gone
    `distance`, and after a turn when it has gone as far in the other direction. An event `direction` with `state`
    (`wrong` or `right`), `angle` and `track_id` reports this once for each object and state. Where both are given and
    a direction is within the tolerance of both, it is wrong.

    `draw` shows the directions as arrows, forbidden ones in red, and how many objects went right and wrong, as the
    report does. An object that did both counts in both.

    `compat: deepstream` finds directions as nvdsanalytics of DeepStream does: each rule is the arrow `allowed`, and
    objects that move along it have its name as the attribute `direction`.

    ```yaml
    - direction: {ramp: {allowed: {from: [0.2, 0.8], to: [0.7, 0.3]}, tolerance: 60, classes: [car, truck]}}
    ```
    """

    __pydantic_extra__: dict[str, DirectionArea] = Field(init=False)

    name: ClassVar[str] = "direction"
    counted: ClassVar[tuple[str, ...]] = ("right", "wrong")
    shape: ClassVar[type[Shape]] = DirectionArea

    @model_validator(mode="after")
    def _check_compat(self) -> Self:
        if self.compat:
            refused = "forbidden", "tolerance", "distance", *AREA_OPTIONS
            refuse_options(self.name, self.areas, refused, MEANS_NOTHING)
            advice = "`compat: deepstream` has directions as arrows: {from: [x, y], to: [x, y]}"
            angles = [name for name, area in self.areas.items() if not isinstance(area.allowed, Arrow)]
            refuse_options(self.name, {name: self.areas[name] for name in angles}, ("allowed",), advice)
        return self

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        if self.compat:
            return DeepStreamDirection(self, earlier if isinstance(earlier, DeepStreamDirection) else None)
        return StreamDirection(self, earlier if isinstance(earlier, StreamDirection) else None)

    def deepstream_rules(self) -> Mapping[str, DeepStreamRule]:
        """Return the directions for `compat: deepstream`."""
        return {
            name: DeepStreamRule(area.classes, (area.allowed.start, area.allowed.to))
            for name, area in self.areas.items()
            if isinstance(area.allowed, Arrow)
        }

    @property
    def areas(self) -> Mapping[str, DirectionArea]:
        return self.__pydantic_extra__

    def summary(self, tally: Tally) -> dict[str, Any]:
        """Return how many objects went `right` and `wrong`."""
        return dict(tally)


class StreamDirection(StreamMotion):
    """Where the objects in the areas of a stream are going.

    Each track draws a point behind it, as on a leash that is half of `distance` long. While the leash is taut, its
    direction is that in which the object goes; it follows turns, however fast frames come, and noise that is shorter
    than the leash does not move it. After a turn back it is slack until the object has gone twice its length.
    """

    def __init__(self, rule: Direction, earlier: StreamMotion | None = None) -> None:
        self.table = AreaTracks(
            {
                "point": np.zeros(2),
                "drawn": np.zeros(2),
                "way": 0.0,
                "judged_ns": -1,
                "right": False,
                "wrong": False,
            }
        )
        super().__init__(rule, earlier)

    def take(self) -> None:
        self._least_cosine = np.cos(np.radians(np.array([area.tolerance for area in self.areas], np.float64)))
        self._has_allowed = np.array([area.allowed is not None for area in self.areas])
        self._has_forbidden = np.array([area.forbidden is not None for area in self.areas])

    def take_size(self, size_wh: tuple[int, int]) -> None:
        self._height = size_wh[1]
        self._distances = self.in_pixels([area.distance for area in self.areas])
        self._allowed = self._units([area.allowed for area in self.areas], size_wh)
        self._forbidden = self._units([area.forbidden for area in self.areas], size_wh)
        self._graphics = tuple(
            Arrows(self._ends(way, area.polygon, size_wh), is_forbidden=is_forbidden)
            for area in self.areas
            for way, is_forbidden in ((area.allowed, False), (area.forbidden, True))
            if way is not None
        )

    def step(self, seen: SeenPairs) -> list[AreaEvent]:
        table = self.table
        table.forget(seen.now_ns - table.seen_ns > _MEMORY_NS)
        rows, _ = table.rows(seen.area, seen.track_id, now_ns=seen.now_ns)
        last_ns = table["judged_ns"][rows]
        begins = (last_ns < 0) | (seen.now_ns - last_ns > _GAP_NS)
        before = np.where(begins[:, None], seen.points, table["drawn"][rows])
        leash = self._distance(seen) / 2
        towards = seen.points - before
        length = np.hypot(towards[:, 0], towards[:, 1])
        is_taut = length > leash
        pulled = np.where(is_taut, length - leash, 0)
        ahead = towards / np.where(length == 0, 1, length)[:, None]
        way = np.where(begins, 0, table["way"][rows]) + pulled
        table["point"][rows], table["judged_ns"][rows], table["way"][rows] = seen.points, seen.now_ns, way
        table["drawn"][rows] = before + pulled[:, None] * ahead
        is_judged = is_taut & (way >= leash)
        return self._judge(rows[is_judged], ahead[is_judged])

    def positions(self, rows: Indices) -> Floats:
        positions: Floats = self.table["point"][rows]
        return positions

    def graphics(self) -> tuple[Arrows, ...]:
        """Return the directions as arrows; an angle lies in the middle of the area."""
        return self._graphics

    def counts(self) -> Counts:
        """Return how many objects went `right` and `wrong` in each area."""
        return {name: {"right": int(own["right"]), "wrong": int(own["wrong"])} for name, own in self.present_tally()}

    def _units(self, ways: Sequence[Arrow | float | None], size_wh: tuple[int, int]) -> Floats:
        """Return directions (Z, 2) in pixels, of length 1, and 0 where there is none."""
        pixels = self.rule.pixels
        none = np.zeros(2)
        return np.stack([none if way is None else _unit(way, size_wh=size_wh, pixels=pixels) for way in ways])

    def _ends(
        self, way: Arrow | float, polygon: Sequence[Point] | None, size_wh: tuple[int, int]
    ) -> npt.NDArray[np.float32]:
        """Return the tail and the tip (1, 4) of the arrow of a direction, in pixels."""
        pixels = self.rule.pixels
        if isinstance(way, Arrow):
            ends = in_pixels([way.start, way.to], size_wh=size_wh, pixels=pixels)
        else:
            middle = np.array(size_wh) / 2
            if polygon is not None:
                middle = in_pixels(polygon, size_wh=size_wh, pixels=pixels).mean(axis=0)
            half = _unit(way, size_wh=size_wh, pixels=pixels) * size_wh[1] * _ARROW_LENGTH / 2
            ends = np.stack([middle - half, middle + half])
        return ends.reshape(1, 4).astype(np.float32)

    def _distance(self, seen: SeenPairs) -> Floats:
        given = self._distances[seen.area]
        auto = np.maximum(_OF_FRAME * self._height, np.maximum(_OF_BOX * seen.heights, _OF_NOISE * seen.noise))
        return np.where(np.isnan(given), auto, given)

    def _judge(self, rows: Indices, ahead: Floats) -> list[AreaEvent]:
        """Return the events of pairs (N,) whose tracks go in directions (N, 2) of length 1."""
        area = self.table.area[rows]
        least, has_allowed, has_forbidden = (
            own[area] for own in (self._least_cosine, self._has_allowed, self._has_forbidden)
        )
        is_allowed = has_allowed & ((ahead * self._allowed[area]).sum(axis=1) >= least)
        is_forbidden = (ahead * self._forbidden[area]).sum(axis=1) >= least
        is_wrong = np.where(has_forbidden, is_forbidden, ~is_allowed)
        is_right = ~is_wrong & (is_allowed | ~has_allowed)
        events = []
        for state, mask in (("wrong", is_wrong), ("right", is_right)):
            reported = self.table[state]
            new = mask & ~reported[rows]
            for row, number, (x, y) in zip(rows[new].tolist(), area[new].tolist(), ahead[new].tolist(), strict=True):
                reported[row] = True
                name = self.names[number]
                self.tally[name][state] += 1
                angle = round(float(np.degrees(np.arctan2(-y, x))) % 360, 1) % 360
                track_id = int(self.table.track_id[row])
                data: dict[str, str | int | float] = {"state": state, "angle": angle, "track_id": track_id}
                events.append((number, RuleEvent("direction", name, data)))
        return events


def _unit(direction: Arrow | float, *, size_wh: tuple[int, int], pixels: bool) -> Floats:
    """Return a direction (2,) in pixels, of length 1."""
    if isinstance(direction, Arrow):
        start, to = in_pixels([direction.start, direction.to], size_wh=size_wh, pixels=pixels)
        ahead: Floats = to - start
    else:
        radians = np.radians(direction)
        ahead = np.array([np.cos(radians), -np.sin(radians)])
    unit: Floats = ahead / np.hypot(*ahead)
    return unit
