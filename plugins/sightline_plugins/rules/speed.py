"""`speed`: measure how fast tracked objects move on the ground."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from sightline.graph import ChangesLive
from sightline.graph.described import Described
from sightline.graph.rule import Counts, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.media import Part
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.area_tracks import AreaTracks
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.ground import Ground, Metres
from sightline_plugins.rules.motion import MotionArea, MotionRule, Tally
from sightline_plugins.rules.nearness import NearChange, Nearness
from sightline_plugins.rules.shapes import Location, Point, Shape, anchor_fractions
from sightline_plugins.rules.speed_fit import SAMPLES, Grounds, fit_speeds
from sightline_plugins.rules.stream_motion import AreaEvent, SeenPairs, StreamMotion
from sightline_plugins.rules.track_table import Indices

Unit = Literal["km/h", "mph", "m/s"]
_PER_SECOND: Mapping[Unit, float] = {"km/h": 3.6, "mph": 3600 / 1609.344, "m/s": 1.0}
_LONGEST = 5
"""Where frames come slowly, the window grows to so many times its length to hold `LEAST_SAMPLES`."""
_UNKNOWN = -1.0


class Near(Described):
    """When two objects are near each other."""

    distance: Metres
    """How near they have to be to each other on the ground, in metres."""
    after: Duration = 1_000_000_000
    """For how long they have to be near, or no longer near, for an event."""


class SpeedArea(MotionArea):
    """An area in which speeds are measured, and what is known of its ground."""

    example: ClassVar[str] = "{ground: {frame: [[x, y], [x, y], [x, y], [x, y]], width: 7, length: 20}}"
    other_options: ClassVar[tuple[str, ...]] = ("id", "streams", "pixels", "unit")

    ground: Ground
    """Where the ground is: four points of it with their places, or a rectangle, or one length seen from above."""
    window: Annotated[Duration, Field(gt=0)] = 1_000_000_000
    """Over how much time a speed is measured: a longer one is more exact, a shorter one follows braking sooner."""
    limit: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Emit an event when an object is faster than this beyond doubt, in `unit`."""
    near: Near | None = None
    """Emit an event when two objects come nearer to each other than {distance: 1.5} metres, and when they part."""

    def points(self) -> Iterator[tuple[Location, Point]]:
        yield from super().points()
        for path, point in self.ground.points():
            yield ("ground", *path), point

    @property
    def identity(self) -> tuple[object, ...]:
        return *super().identity, self.ground, self.window, self.near


class Speed(MotionRule):
    """Measure how fast tracked objects move on the ground.

    `ground` says where points of the frame are: four points with their places in `metres`, the four corners of a
    rectangle with its `width` and `length`, or for a camera that looks straight down one line with its `length`. The
    ground is taken for a plane, and the anchor of an object for a point on it.

    The speed of an object is that of a uniform motion through its positions of the last `window`. It becomes an
    attribute `speed` of the object, which `draw` shows and outputs write, with `speed_uncertainty`: in at least 95 of
    100 cases the true speed differs by less. This comes from how far positions are off the line and how the box
    trembles, and grows with the distance from the camera; mistakes in the points of the ground come on top of it.
    Nothing is measured in the first half of a window, or three times as far away as the farthest point of the ground.

    With `limit`, an event `speed` with `speed`, `uncertainty`, `unit` and `track_id` reports once for each object that
    it is faster, even by the uncertainty less. `draw` shows how many objects were measured, how many were over the
    limit, and the mean speed; the report holds the same. The mean is that of all the time that was measured.

    With `near`, an event `near` with `state` (`near`), `track_id`, `other_id`, `metres` and `seconds` reports that two
    objects have been nearer to each other than its `distance` for the time `after`; another one with the state `apart`
    when they have been farther apart, by a fifth, for as long, or one of them has gone.

    ```yaml
    - speed:
        unit: km/h
        road: {ground: {frame: [[0.3, 0.5], [0.6, 0.5], [0.9, 0.9], [0.1, 0.9]], width: 7, length: 24}, limit: 50}
    ```
    """

    __pydantic_extra__: dict[str, SpeedArea] = Field(init=False)

    name: ClassVar[str] = "speed"
    counted: ClassVar[tuple[str, ...]] = ("measured", "over", "metres", "seconds", "near")
    shape: ClassVar[type[Shape]] = SpeedArea

    unit: ChangesLive[Unit] = "km/h"
    """The unit of speeds and limits."""

    @property
    def areas(self) -> Mapping[str, SpeedArea]:
        return self.__pydantic_extra__

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamSpeed(self, earlier if isinstance(earlier, StreamSpeed) else None)

    def summary(self, tally: Tally) -> dict[str, Any]:
        """Return how many objects were `measured` and `over` the limit, how many pairs `near`, and the `mean_speed`."""
        mean = round(_mean(tally) * _PER_SECOND[self.unit], 1)
        counts = {name: int(tally[name]) for name in ("measured", "over", "near")}
        return counts | {"mean_speed": mean}


class StreamSpeed(StreamMotion):
    """How fast the objects in the areas of a stream are. Speeds are kept in metres a second."""

    def __init__(self, rule: Speed, earlier: StreamMotion | None = None) -> None:
        self._nearness = Nearness()
        """Who is near whom, in areas where that is asked for."""
        self.table = AreaTracks(
            {
                "count": 0,
                "times_ns": np.zeros(SAMPLES, np.int64),
                "points": np.zeros((SAMPLES, 2)),
                "speed": _UNKNOWN,
                "uncertainty": _UNKNOWN,
                "measured_ns": -1,
                "over": False,
            }
        )
        super().__init__(rule, earlier)

    def take(self) -> None:
        self._window_ns = np.array([area.window for area in self.areas], np.int64)
        self._limit = np.array([np.nan if area.limit is None else area.limit for area in self.areas], np.float64)
        self._limited = [area.limit is not None for area in self.areas]
        self._factor = _PER_SECOND[self.rule.unit]
        near = [area.near for area in self.areas]
        self._asks = [one is not None for one in near]
        self._asked = np.array(self._asks)
        self._distance = np.array([0.0 if one is None else one.distance for one in near])
        self._after_ns = np.array([0 if one is None else one.after for one in near], np.int64)

    def take_size(self, size_wh: tuple[int, int]) -> None:
        self._grounds = Grounds.of(
            [area.ground.plane(size_wh, pixels=self.rule.pixels) for area in self.areas],
            anchors=anchor_fractions(area.anchor for area in self.areas),
            window_ns=self._window_ns,
            longest_ns=_LONGEST * self._window_ns,
        )

    def step(self, seen: SeenPairs) -> list[AreaEvent]:
        table, now_ns = self.table, seen.now_ns
        table.forget(now_ns - table.seen_ns > self._grounds.longest_ns[table.area])
        rows, _ = table.rows(seen.area, seen.track_id, now_ns=now_ns)
        count, window_ns = table["count"][rows], self._window_ns[seen.area]
        last_ns = table["times_ns"][rows, (count - 1) % SAMPLES]
        on_ground = self._grounds.hold(seen.area, seen.points)
        is_due = on_ground & ((count == 0) | (now_ns - last_ns >= window_ns // SAMPLES))
        due, slot = rows[is_due], count[is_due] % SAMPLES
        table["times_ns"][due, slot], table["points"][due, slot] = now_ns, seen.points[is_due]
        table["count"][due] += 1
        events = self._measure(due, seen.noise[is_due], now_ns=now_ns)
        measured_ns = table["measured_ns"][rows]
        known = (measured_ns >= 0) & (now_ns - measured_ns <= window_ns)
        for name, column in (("speed", "speed"), ("speed_uncertainty", "uncertainty")):
            self.note(seen, name, np.where(known, np.round(table[column][rows] * self._factor, 2), np.nan))
        return events + self._near(seen, on_ground)

    def is_idle(self) -> bool:
        return super().is_idle() and self._nearness.is_idle()

    def stop(self, stopped: Mask, now_ns: int) -> list[AreaEvent]:
        super().stop(stopped, now_ns)
        ended = self._nearness.clear(set(np.flatnonzero(stopped).tolist()))
        return [self._near_event(number, change) for number, change in ended]

    def forget(self, forgotten: Mask) -> None:
        self._nearness.clear(set(self.table.area[forgotten].tolist()))
        super().forget(forgotten)

    def renumber(self, moved: Mapping[int, int]) -> None:
        super().renumber(moved)
        self._nearness.renumber(moved)

    def save(self) -> Saved:
        return {**super().save(), "nearness": self._nearness.save()}

    def restore_tracks(self, saved: Saved, moved: Mapping[int, int]) -> None:
        super().restore_tracks(saved, moved)
        self._nearness.restore(saved["nearness"], moved)

    def positions(self, rows: Indices) -> Floats:
        positions: Floats = self.table["points"][rows, (self.table["count"][rows] - 1) % SAMPLES]
        return positions

    def counts(self) -> Counts:
        """Return how many objects were `measured` and `over` the limit in each area, how many pairs are `near`, and the
        `mean` speed in whole units.
        """
        factor, near = self._factor, self._nearness.counted()
        counts: dict[str, dict[str, int]] = {}
        for number, (name, is_limited, is_asked) in enumerate(zip(self.names, self._limited, self._asks, strict=True)):
            tally = self.tally[name]
            own = counts[name] = {"measured": int(tally["measured"])}
            if is_limited:
                own["over"] = int(tally["over"])
            if is_asked:
                own["near"] = near.get(number, 0)
            own["mean"] = round(_mean(tally) * factor)
        return counts

    def _measure(self, rows: Indices, noise: Floats, *, now_ns: int) -> list[AreaEvent]:
        """Measure the speeds of tracks that have enough positions, and return events of those over the limit."""
        table = self.table
        speed, uncertainty = fit_speeds(
            rows,
            table.area[rows],
            counts=table["count"],
            times_ns=table["times_ns"],
            points=table["points"],
            grounds=self._grounds,
            noise=noise,
            now_ns=now_ns,
        )
        can = ~np.isnan(speed)
        rows, speed, uncertainty = rows[can], speed[can], uncertainty[can]
        if not len(rows):
            return []
        before_ns = table["measured_ns"][rows]
        seconds = np.where(before_ns < 0, 0, now_ns - before_ns) / NANOSECONDS
        table["speed"][rows], table["uncertainty"][rows] = speed, uncertainty
        table["measured_ns"][rows] = now_ns
        area = table.area[rows]
        is_over = ((speed - uncertainty) * self._factor > self._limit[area]) & ~table["over"][rows]
        table["over"][rows] |= is_over
        self._count(area, measured=(before_ns < 0), metres=speed * seconds, seconds=seconds, over=is_over)
        return [self._event(row) for row in rows[is_over].tolist()]

    def _count(self, area: Indices, **values: Floats | Mask) -> None:
        """Add values (N,) of objects in areas (N,) to what is counted, by name."""
        for name, own in values.items():
            sums = np.bincount(area, own, minlength=len(self.areas))
            numbers = np.flatnonzero(sums)
            for number, more in zip(numbers.tolist(), sums[numbers].tolist(), strict=True):
                self.tally[self.names[number]][name] += more

    def _near(self, seen: SeenPairs, on_ground: Mask) -> list[AreaEvent]:
        """Return the events of who comes near whom, or parts."""
        here = np.flatnonzero(on_ground & self._asked[seen.area])
        if not len(here) and self._nearness.is_idle():
            return []
        area = seen.area[here]
        changes = self._nearness.update(
            area,
            seen.track_id[here],
            self._grounds.places(area, seen.points[here]),
            distance=self._distance,
            after_ns=self._after_ns,
            now_ns=seen.now_ns,
        )
        return [self._near_event(number, change) for number, change in changes]

    def _event(self, row: int) -> AreaEvent:
        table, number = self.table, int(self.table.area[row])
        data: dict[str, str | int | float] = {
            "speed": round(float(table["speed"][row]) * self._factor, 1),
            "uncertainty": round(float(table["uncertainty"][row]) * self._factor, 1),
            "unit": self.rule.unit,
            "track_id": int(table.track_id[row]),
        }
        return number, RuleEvent("speed", self.names[number], data)

    def _near_event(self, number: int, change: NearChange) -> AreaEvent:
        low, high = change.pair
        data: dict[str, str | int | float] = {
            "state": "near" if change.begins else "apart",
            "track_id": low,
            "other_id": high,
            "metres": round(change.metres, 2),
            "seconds": round(change.lasted_ns / NANOSECONDS, 3),
        }
        self.tally[self.names[number]]["near"] += change.begins
        part = Part.BEGIN if change.begins else Part.END
        return number, RuleEvent("near", self.names[number], data, part, low << 32 | high)


def _mean(tally: Tally) -> float:
    """Return the mean speed of all the time that was measured, in metres a second."""
    return tally["metres"] / tally["seconds"] if tally["seconds"] else 0.0
