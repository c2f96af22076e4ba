"""`speed`: measure how fast tracked objects move on the ground."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from sightline.graph import ChangesLive
from sightline.graph.described import Described
from sightline.graph.rule import RuleEvent
from sightline.graph.state import Saved
from sightline.media import Part
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.ground import Ground, Metres
from sightline_plugins.rules.motion import Monitor, MotionArea, MotionRule, SeenObjects, Tally
from sightline_plugins.rules.nearness import NearChange, Nearness
from sightline_plugins.rules.shapes import Location, Point, Shape, anchor_fractions
from sightline_plugins.rules.speed_fit import LEAST_SAMPLES, fit_speeds
from sightline_plugins.rules.track_table import Indices, TrackTable

Unit = Literal["km/h", "mph", "m/s"]
_PER_SECOND: Mapping[Unit, float] = {"km/h": 3.6, "mph": 3600 / 1609.344, "m/s": 1.0}
_SAMPLES = 32
"""Positions of a track that are kept for the window: of more frames, as many are used that are about evenly apart."""
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

    def monitor(self) -> SpeedMonitor:
        return SpeedMonitor()

    def summary(self, tally: Tally) -> dict[str, Any]:
        """Return how many objects were `measured` and `over` the limit, how many pairs `near`, and the `mean_speed`."""
        mean = round(_mean(tally) * _PER_SECOND[self.unit], 1)
        counts = {name: int(tally[name]) for name in ("measured", "over", "near")}
        return counts | {"mean_speed": mean}


class SpeedMonitor(Monitor):
    """How fast the objects in an area are. Speeds are kept in metres a second."""

    def __init__(self) -> None:
        self._nearness = Nearness()
        self.table = TrackTable(
            {
                "count": 0,
                "times_ns": np.zeros(_SAMPLES, np.int64),
                "points": np.zeros((_SAMPLES, 2)),
                "speed": _UNKNOWN,
                "uncertainty": _UNKNOWN,
                "measured_ns": -1,
                "over": False,
            }
        )

    def take(self, name: str, rule: Speed, tally: Tally) -> None:
        self._name, self._area, self._tally = name, rule.areas[name], tally
        self._anchor = anchor_fractions([self._area.anchor])[0]
        self._unit, self._factor = rule.unit, _PER_SECOND[rule.unit]

    def place(self, size_wh: tuple[int, int], *, pixels: bool) -> None:
        self._plane = self._area.ground.plane(size_wh, pixels=pixels)

    def update(self, seen: SeenObjects) -> list[RuleEvent]:
        table, now_ns = self.table, seen.now_ns
        self._forget(now_ns)
        rows, _ = table.rows(seen.track_id, now_ns=now_ns)
        last_ns = table["times_ns"][rows, (table["count"][rows] - 1) % _SAMPLES]
        is_due = (table["count"][rows] == 0) | (now_ns - last_ns >= self._area.window // _SAMPLES)
        on_ground = self._plane.is_ground(seen.points)
        is_due &= on_ground
        rows, points = rows[is_due], seen.points[is_due]
        slot = table["count"][rows] % _SAMPLES
        table["times_ns"][rows, slot], table["points"][rows, slot] = now_ns, points
        table["count"][rows] += 1
        events = self._measure(rows, seen.noise[is_due], now_ns=now_ns)
        if (near := self._area.near) is not None:
            places = self._plane.places(seen.points[on_ground])
            track_id = seen.track_id[on_ground]
            changes = self._nearness.update(
                track_id, places, distance=near.distance, after_ns=near.after, now_ns=now_ns
            )
            events += [self._near_event(change) for change in changes]
        return events

    def is_idle(self) -> bool:
        return super().is_idle() and self._nearness.is_idle()

    def stop(self, now_ns: int) -> list[RuleEvent]:
        super().stop(now_ns)
        return [self._near_event(change) for change in self._nearness.clear()]

    def keep(self, kept: Mask) -> None:
        if not kept.all():
            self._nearness.clear()
        super().keep(kept)

    def save(self) -> Saved:
        return {"tracks": super().save(), "nearness": self._nearness.save()}

    def restore(self, saved: Saved) -> None:
        super().restore(saved["tracks"])
        self._nearness.restore(saved["nearness"])

    def values(self, seen: SeenObjects) -> dict[str, Floats]:
        rows, _ = self.table.rows(seen.track_id, now_ns=seen.now_ns)
        measured_ns = self.table["measured_ns"][rows]
        known = (measured_ns >= 0) & (seen.now_ns - measured_ns <= self._area.window)
        return {
            name: np.where(known, np.round(self.table[column][rows] * self._factor, 2), np.nan)
            for name, column in (("speed", "speed"), ("speed_uncertainty", "uncertainty"))
        }

    def positions(self) -> Floats:
        table = self.table
        positions: Floats = table["points"][np.arange(len(table)), (table["count"] - 1) % _SAMPLES]
        return positions

    def counts(self) -> dict[str, int]:
        """Return how many objects were `measured` and `over` the limit, and their `mean` speed in whole units."""
        counts = {"measured": int(self._tally["measured"])}
        if self._area.limit is not None:
            counts["over"] = int(self._tally["over"])
        if self._area.near is not None:
            counts["near"] = len(self._nearness)
        return counts | {"mean": round(_mean(self._tally) * self._factor)}

    def _forget(self, now_ns: int) -> None:
        """Forget the tracks that were not seen for as long as a window may be."""
        self.table.keep(now_ns - self.table.seen_ns <= _LONGEST * self._area.window)

    def _measure(self, rows: Indices, noise: Floats, *, now_ns: int) -> list[RuleEvent]:
        """Measure the speeds of tracks that have enough positions, and return events of those over the limit."""
        used, age_ns = self._used(rows, now_ns=now_ns)
        span_ns = np.where(used, age_ns, 0).max(axis=1, initial=0)
        can = (used.sum(axis=1) >= LEAST_SAMPLES) & (span_ns >= self._area.window // 2)
        rows, used, age_ns, noise = rows[can], used[can], age_ns[can], noise[can]
        if not len(rows):
            return []
        table = self.table
        found = fit_speeds(
            age_ns / -NANOSECONDS,
            table["points"][rows],
            used,
            plane=self._plane,
            noise=noise,
            anchor=self._anchor,
        )
        before_ns = table["measured_ns"][rows]
        seconds = np.where(before_ns < 0, 0, now_ns - before_ns) / NANOSECONDS
        table["speed"][rows], table["uncertainty"][rows] = found.speed, found.uncertainty
        table["measured_ns"][rows] = now_ns
        self._tally["measured"] += int((before_ns < 0).sum())
        self._tally["metres"] += float(found.speed @ seconds)
        self._tally["seconds"] += float(seconds.sum())
        if self._area.limit is None:
            return []
        is_over = ((found.speed - found.uncertainty) * self._factor > self._area.limit) & ~table["over"][rows]
        table["over"][rows] |= is_over
        self._tally["over"] += int(is_over.sum())
        return [self._event(row) for row in rows[is_over].tolist()]

    def _used(self, rows: Indices, *, now_ns: int) -> tuple[Mask, Floats]:
        """Return which positions (N, K) of tracks are used for a speed, and how old they are.

        They are those in the window, or the last `LEAST_SAMPLES` where frames come too slowly for it.
        """
        table = self.table
        count = table["count"][rows][:, None]
        number = (count - 1 - np.arange(_SAMPLES)) % _SAMPLES
        age_ns = now_ns - table["times_ns"][rows]
        in_window = (age_ns <= self._area.window) | (
            (number < LEAST_SAMPLES) & (age_ns <= _LONGEST * self._area.window)
        )
        used: Mask = in_window & (number < count)
        return used, age_ns

    def _event(self, row: int) -> RuleEvent:
        table = self.table
        data: dict[str, str | int | float] = {
            "speed": round(float(table["speed"][row]) * self._factor, 1),
            "uncertainty": round(float(table["uncertainty"][row]) * self._factor, 1),
            "unit": self._unit,
            "track_id": int(table.track_id[row]),
        }
        return RuleEvent("speed", self._name, data)

    def _near_event(self, change: NearChange) -> RuleEvent:
        low, high = change.pair
        data: dict[str, str | int | float] = {
            "state": "near" if change.begins else "apart",
            "track_id": low,
            "other_id": high,
            "metres": round(change.metres, 2),
            "seconds": round(change.lasted_ns / NANOSECONDS, 3),
        }
        self._tally["near"] += change.begins
        part = Part.BEGIN if change.begins else Part.END
        return RuleEvent("near", self._name, data, part, low << 32 | high)


def _mean(tally: Tally) -> float:
    """Return the mean speed of all the time that was measured, in metres a second."""
    return tally["metres"] / tally["seconds"] if tally["seconds"] else 0.0
