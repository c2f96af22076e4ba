"""`stopped`: report which tracked objects stand still, for how long, and when they move again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sightline.graph.rule import RuleEvent, StreamRule
from sightline.media import Part
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.deepstream_history import DEFAULT_WINDOW, Window
from sightline_plugins.rules.deepstream_motion import DeepStreamRule, DeepStreamStopped
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.motion import Distance, Monitor, MotionArea, MotionRule, SeenObjects, Tally
from sightline_plugins.rules.shapes import AREA_OPTIONS, MEANS_NOTHING, Shape, refuse_options, refuse_window
from sightline_plugins.rules.stillness import Stillness


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


class Stopped(MotionRule):
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

    compat: Literal["deepstream"] | None = None
    """Find who stands as another product does, to compare with it; by default as described above."""
    window: Window = DEFAULT_WINDOW
    """With `compat: deepstream`: its `obj-cnt-win-in-ms`, which is the number of frames that it remembers of
    each object."""

    @model_validator(mode="after")
    def _check_compat(self) -> Self:
        if self.compat:
            refuse_options(self.name, self.areas, ("after", "distance", "gone", *AREA_OPTIONS), MEANS_NOTHING)
        refuse_window(self)
        return self

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        if self.compat:
            return DeepStreamStopped(self, earlier if isinstance(earlier, DeepStreamStopped) else None)
        return super().watch(earlier)

    def deepstream_rules(self) -> Mapping[str, DeepStreamRule]:
        """Return the rules for `compat: deepstream`."""
        return {name: DeepStreamRule(area.classes) for name, area in self.areas.items()}

    @property
    def areas(self) -> Mapping[str, StoppedArea]:
        return self.__pydantic_extra__

    def monitor(self) -> StoppedMonitor:
        return StoppedMonitor()

    def summary(self, tally: Tally) -> dict[str, Any]:
        """Return how many have `stopped`, and the `mean_stopped_seconds` of those that moved again or vanished."""
        mean_ns = tally["nanoseconds"] / tally["ended"] if tally["ended"] else 0
        return {"stopped": int(tally["stopped"]), "mean_stopped_seconds": round(mean_ns / NANOSECONDS, 3)}


class StoppedMonitor(Monitor):
    """Who stands in an area."""

    def __init__(self) -> None:
        self._stillness = Stillness({"stopped_ns": -1})
        self.table = self._stillness.table

    def take(self, name: str, rule: Stopped, tally: Tally) -> None:
        self._name, self._area, self._tally = name, rule.areas[name], tally

    def place(self, size_wh: tuple[int, int], *, pixels: bool) -> None:
        """Do nothing: areas have no points of their own."""

    def update(self, seen: SeenObjects) -> list[RuleEvent]:
        table, now_ns = self.table, seen.now_ns
        events: list[RuleEvent] = []
        rows, moved_ns = self._stillness.update(
            seen.track_id, seen.points, reach=seen.reach(self._area.distance), now_ns=now_ns
        )
        stopped_ns = table["stopped_ns"]
        leaves = (moved_ns >= 0) & (stopped_ns[rows] >= 0)
        for row, end_ns in zip(rows[leaves].tolist(), moved_ns[leaves].tolist(), strict=True):
            events.append(self._ended(row, end_ns, "moving"))
        stays = (stopped_ns[rows] < 0) & (now_ns - table["since_ns"][rows] >= self._area.after)
        for row in rows[stays].tolist():
            stopped_ns[row] = table["since_ns"][row]
            self._tally["stopped"] += 1
            events.append(self._event(row, "stopped", now_ns - int(stopped_ns[row])))
        return events + self._gone(now_ns)

    def stop(self, now_ns: int) -> list[RuleEvent]:
        del now_ns
        return self._forget(np.ones(len(self.table), np.bool_))

    def positions(self) -> Floats:
        return self.table["place"]

    def counts(self) -> dict[str, int]:
        """Return how many stand `now`, and how many have `stopped` so far."""
        return {"now": int(np.count_nonzero(self.table["stopped_ns"] >= 0)), "stopped": int(self._tally["stopped"])}

    def _gone(self, now_ns: int) -> list[RuleEvent]:
        """End what tracks did that were not seen for too long."""
        table = self.table
        is_gone = (table.seen_ns < now_ns) & (now_ns - table.seen_ns >= self._area.gone)
        return self._forget(is_gone) if is_gone.any() else []

    def _forget(self, rows: Mask) -> list[RuleEvent]:
        """Forget tracks, and end the stops of those that stood when they were seen last."""
        stood = np.flatnonzero(rows & (self.table["stopped_ns"] >= 0)).tolist()
        events = [self._ended(row, int(self.table.seen_ns[row]), "gone") for row in stood]
        self.table.keep(~rows)
        return events

    def _ended(self, row: int, end_ns: int, state: str) -> RuleEvent:
        lasted_ns = max(0, end_ns - int(self.table["stopped_ns"][row]))
        self.table["stopped_ns"][row] = -1
        self._tally["ended"] += 1
        self._tally["nanoseconds"] += lasted_ns
        return self._event(row, state, lasted_ns)

    def _event(self, row: int, state: str, lasted_ns: int) -> RuleEvent:
        track_id = int(self.table.track_id[row])
        data: dict[str, str | int | float] = {
            "state": state,
            "track_id": track_id,
            "stopped_seconds": round(lasted_ns / NANOSECONDS, 3),
        }
        part = Part.BEGIN if state == "stopped" else Part.END
        return RuleEvent("stopped", self._name, data, part, track_id)
