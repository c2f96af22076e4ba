"""`stopped`: report which tracked objects stand still, for how long, and when they move again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from sightline.graph.rule import Counts, RuleEvent, StreamRule
from sightline.media import Part
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.area_tracks import AreaTracks
from sightline_plugins.rules.deepstream_motion import DeepStreamRule, DeepStreamStopped
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.motion import ComparedMotionRule, Distance, MotionArea, Tally
from sightline_plugins.rules.shapes import AREA_OPTIONS, MEANS_NOTHING, Shape, refuse_options
from sightline_plugins.rules.stillness import STILLNESS, stand
from sightline_plugins.rules.stream_motion import AreaEvent, SeenPairs, StreamMotion
from sightline_plugins.rules.track_table import Indices


class StoppedArea(MotionArea):
    """An area in which objects are reported that stop."""

    example: ClassVar[str] = "{after: 5s}"
    other_options: ClassVar[tuple[str, ...]] = (*MotionArea.other_options, "compat", "window")

    after: Annotated[Duration, Field(gt=0)] = 5_000_000_000
    """How long an object has to stand still to have stopped."""
    distance: Distance = "auto"
    """How far it may be from its place meanwhile, in fractions of the frame's height (or pixels). By default as far as
    its box trembles, a tenth of its height at least and half of it at most."""
    gone: Duration = 2_000_000_000
    """A track that was not seen for this long stands no more: it ended when it was seen last."""

    @property
    def distances(self) -> Iterator[tuple[str, Distance]]:
        yield "distance", self.distance


class Stopped(ComparedMotionRule):
    """Report which tracked objects stand still, for how long, and when they move again.

    An object that was not farther than `distance` from its place for the time `after` has stopped: an event `stopped`
    with `state` (`stopped`), `track_id` and `stopped_seconds`, which count from when it came to its place. When it
    leaves, another one has the state `moving` and all of the time; the state is `gone` when its track or the rule's
    schedule ended. It has left when it was away for half a second, so a box that jumps for a moment ends nothing. A gap
    in the track ends nothing either if it is shorter than `gone`.

    `draw` shows how many stand now and how many have stopped so far; the report has the latter, and the mean of the
    times that ended.

    `compat: deepstream` finds who stands as nvdsanalytics of DeepStream does, by how little the centre of an object has
    varied in its last 50 frames.

    ```yaml
    - stopped: {lane: {polygon: [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9], [0.2, 0.9]], classes: [car], after: 10s}}
    ```
    """

    __pydantic_extra__: dict[str, StoppedArea] = Field(init=False)

    name: ClassVar[str] = "stopped"
    counted: ClassVar[tuple[str, ...]] = ("stopped", "ended", "nanoseconds")
    shape: ClassVar[type[Shape]] = StoppedArea

    @model_validator(mode="after")
    def _check_compat(self) -> Self:
        if self.compat:
            refuse_options(self.name, self.areas, ("after", "distance", "gone", *AREA_OPTIONS), MEANS_NOTHING)
        return self

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        if self.compat:
            return DeepStreamStopped(self, earlier if isinstance(earlier, DeepStreamStopped) else None)
        return StreamStopped(self, earlier if isinstance(earlier, StreamStopped) else None)

    def deepstream_rules(self) -> Mapping[str, DeepStreamRule]:
        """Return the rules for `compat: deepstream`."""
        return {name: DeepStreamRule(area.classes) for name, area in self.areas.items()}

    @property
    def areas(self) -> Mapping[str, StoppedArea]:
        return self.__pydantic_extra__

    def summary(self, tally: Tally) -> dict[str, Any]:
        """Return how many have `stopped`, and the `mean_stopped_seconds` of those that moved again or vanished."""
        mean_ns = tally["nanoseconds"] / tally["ended"] if tally["ended"] else 0
        return {"stopped": int(tally["stopped"]), "mean_stopped_seconds": round(mean_ns / NANOSECONDS, 3)}


class StreamStopped(StreamMotion):
    """Who stands in the areas of a stream."""

    def __init__(self, rule: Stopped, earlier: StreamMotion | None = None) -> None:
        self.table = AreaTracks({**STILLNESS, "stopped_ns": -1})
        super().__init__(rule, earlier)

    def take(self) -> None:
        self._after_ns = np.array([area.after for area in self.areas], np.int64)
        self._gone_ns = np.array([area.gone for area in self.areas], np.int64)

    def take_size(self, size_wh: tuple[int, int]) -> None:
        del size_wh
        self._distances = self.in_pixels([area.distance for area in self.areas])

    def step(self, seen: SeenPairs) -> list[AreaEvent]:
        table, now_ns = self.table, seen.now_ns
        rows, is_new = table.rows(seen.area, seen.track_id, now_ns=now_ns)
        moved_ns = stand(table, rows, is_new, seen.points, reach=seen.reach(self._distances), now_ns=now_ns)
        stopped_ns, since_ns = table["stopped_ns"], table["since_ns"]
        leaves = (moved_ns >= 0) & (stopped_ns[rows] >= 0)
        events = [
            self._ended(row, end_ns, "moving")
            for row, end_ns in zip(rows[leaves].tolist(), moved_ns[leaves].tolist(), strict=True)
        ]
        stays = (stopped_ns[rows] < 0) & (now_ns - since_ns[rows] >= self._after_ns[seen.area])
        for row in rows[stays].tolist():
            stopped_ns[row] = since_ns[row]
            self.tally_of(row)["stopped"] += 1
            events.append(self._event(row, "stopped", now_ns - int(since_ns[row])))
        is_gone = (table.seen_ns < now_ns) & (now_ns - table.seen_ns >= self._gone_ns[table.area])
        return events + self._forgotten(is_gone)

    def stop(self, stopped: Mask, now_ns: int) -> list[AreaEvent]:
        del now_ns
        return self._forgotten(stopped[self.table.area])

    def positions(self, rows: Indices) -> Floats:
        positions: Floats = self.table["place"][rows]
        return positions

    def counts(self) -> Counts:
        """Return how many stand `now` in each area, and how many have `stopped` so far."""
        now = self.counted(self.table["stopped_ns"] >= 0)
        return {
            name: {"now": count, "stopped": int(own["stopped"])}
            for count, (name, own) in zip(now, self.present_tally(), strict=True)
        }

    def _forgotten(self, rows: Mask) -> list[AreaEvent]:
        """Forget pairs (R,), and end the stops of those that stood when they were seen last."""
        table = self.table
        stood = np.flatnonzero(rows & (table["stopped_ns"] >= 0) & (table.area >= 0)).tolist()
        events = [self._ended(row, int(table.seen_ns[row]), "gone") for row in stood]
        table.forget(rows)
        return events

    def _ended(self, row: int, end_ns: int, state: str) -> AreaEvent:
        lasted_ns = max(0, end_ns - int(self.table["stopped_ns"][row]))
        self.table["stopped_ns"][row] = -1
        tally = self.tally_of(row)
        tally["ended"] += 1
        tally["nanoseconds"] += lasted_ns
        return self._event(row, state, lasted_ns)

    def _event(self, row: int, state: str, lasted_ns: int) -> AreaEvent:
        area, track_id = int(self.table.area[row]), int(self.table.track_id[row])
        data: dict[str, str | int | float] = {
            "state": state,
            "track_id": track_id,
            "stopped_seconds": round(lasted_ns / NANOSECONDS, 3),
        }
        part = Part.BEGIN if state == "stopped" else Part.END
        return area, RuleEvent("stopped", self.names[area], data, part, track_id)
