"""`left_objects`: report objects that somebody left, and objects that were taken from their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sightline.graph.rule import RuleEvent
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Part
from sightline.media.boxes import iou_matrix
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.motion import Distance, Monitor, MotionArea, MotionRule, SeenObjects, Tally
from sightline_plugins.rules.shapes import Location, Shape
from sightline_plugins.rules.stillness import Stillness
from sightline_plugins.rules.track_table import Ids, Indices

_ATTENDED_NS = 5_000_000_000
"""Who is near for this long attends to an object; who passes by does not."""
_MISSED_NS = 1_500_000_000
"""Who is not near for longer has gone."""
_SAME_IOU = 0.5
"""A new track that overlaps an object that is not seen by so much is that object."""
_HIDDEN_SHARE = 0.3
"""An object of whose place another box covers so much may be hidden."""
_LONGEST_NS = 3_600_000_000_000
"""An object that was hidden for longer is forgotten."""


class LeftArea(MotionArea):
    """An area in which objects are watched that stand there."""

    example: ClassVar[str] = "{classes: [suitcase]}"

    owners: Annotated[tuple[str, ...], Field(min_length=1)] = ("person",)
    """Labels of those who can attend to an object; they are no objects that are left."""
    after: Annotated[Duration, Field(gt=0)] = 30_000_000_000
    """How long an object has to stand with nobody near to be left, and how long it has to have stood to be missed."""
    distance: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.5
    """Who is not farther than this is near, in heights of that person's box."""
    still: Distance = "auto"
    """How far an object may be from its place and still stand, in fractions of the frame's height (or pixels). By
    default as far as its box trembles, a tenth of its height at least and half of it at most."""
    gone: Duration = 10_000_000_000
    """How long the place of an object has to be seen without it for the object to have been removed."""

    @property
    def distances(self) -> Iterator[tuple[str, Distance]]:
        yield "still", self.still

    @property
    def identity(self) -> tuple[object, ...]:
        return *super().identity, self.owners


class LeftObjects(MotionRule):
    """Report objects that somebody left, and objects that were taken from their place.

    An object that has stood still for the time `after` with nobody near is left: an event `left` with `state` (`left`),
    `track_id` and `seconds`, how long nobody has been near. It ends with another one whose state says why: somebody
    attends to it (`attended`), it was taken (`removed`), or the schedule ended (`unwatched`). Near are those of the
    classes `owners` that are closer than `distance`; to attend they have to stay for five seconds, so that nobody who
    passes by ends it.

    An object that has stood for the time `after`, whoever was near, and then moves or vanishes, is an event `removed`
    with `how` (`moved` or `vanished`), `track_id` and `seconds`, how long it had stood. It has vanished when its place
    was seen without it for the time `gone`; while another box covers a part of the place, the object may be hidden, and
    that time begins anew. A new track where an object is not seen any more is the same object.

    `draw` shows how many objects are left now, how many were left so far, and how many were removed; the report has
    the latter two.

    ```yaml
    - left_objects: {hall: {classes: [suitcase, backpack, handbag], after: 1m, distance: 2}}
    ```
    """

    __pydantic_extra__: dict[str, LeftArea] = Field(init=False)

    name: ClassVar[str] = "left_objects"
    counted: ClassVar[tuple[str, ...]] = ("left", "removed")
    shape: ClassVar[type[Shape]] = LeftArea

    @property
    def areas(self) -> Mapping[str, LeftArea]:
        return self.__pydantic_extra__

    def monitor(self) -> LeftMonitor:
        return LeftMonitor()

    def summary(self, tally: Tally) -> dict[str, Any]:
        """Return how many objects were `left` and `removed`."""
        return dict(tally)

    def wanted_labels(self) -> Iterator[tuple[Location, str]]:
        """Yield the classes of each rule, and its owners where they are given."""
        yield from super().wanted_labels()
        for name, area in self.areas.items():
            if "owners" in area.model_fields_set:
                for number, label in enumerate(area.owners):
                    yield (name, "owners", number), label


class LeftMonitor(Monitor):
    """The objects that stand in an area, and who is near."""

    def __init__(self) -> None:
        self._stillness = Stillness(
            {
                "first_id": -1,
                "box": np.zeros(4),
                "near_ns": -1,
                "near_since_ns": -1,
                "attended_ns": -1,
                "left": False,
                "left_ns": -1,
                "free_ns": -1,
            }
        )
        self.table = self._stillness.table
        self._owners_of: tuple[TrackedObjects, Mask] | None = None

    def take(self, name: str, rule: LeftObjects, tally: Tally) -> None:
        self._name, self._area, self._tally = name, rule.areas[name], tally
        self._owners_of = None

    def place(self, size_wh: tuple[int, int], *, pixels: bool) -> None:
        """Do nothing: areas have no points of their own."""

    def update(self, seen: SeenObjects) -> list[RuleEvent]:
        table, area, now_ns = self.table, self._area, seen.now_ns
        everything = seen.tracks.xyxy[seen.frame].astype(np.float64)
        is_owner = self._is_owner(seen.tracks)
        own = ~is_owner[seen.row]
        track_id, boxes = seen.track_id[own], seen.xyxy[own]
        self._recognise(track_id, boxes, now_ns=now_ns)
        stood_ns = table["since_ns"].copy()
        rows, moved_ns = self._stillness.update(
            track_id, seen.points[own], reach=seen.reach(area.still)[own], now_ns=now_ns
        )
        table["box"][rows], table["free_ns"][rows] = boxes, -1
        fresh = table["first_id"][rows] < 0
        table["first_id"][rows[fresh]] = track_id[fresh]

        events: list[RuleEvent] = []
        for row, end_ns in zip(rows[moved_ns >= 0].tolist(), moved_ns[moved_ns >= 0].tolist(), strict=True):
            events += self._removed(row, end_ns - int(stood_ns[row]), "moved", now_ns=now_ns)
        self._attend(rows, seen.points[own], everything[is_owner[seen.frame]], now_ns=now_ns)
        events += self._left(rows, now_ns=now_ns)
        return events + self._vanished(everything, now_ns=now_ns)

    def stop(self, now_ns: int) -> list[RuleEvent]:
        events = [self._ended(row, "unwatched", now_ns=now_ns) for row in np.flatnonzero(self.table["left"]).tolist()]
        self.table.clear()
        return events

    def positions(self) -> Floats:
        return self.table["place"]

    def counts(self) -> dict[str, int]:
        """Return how many objects are left `now`, and how many were `left` and `removed` so far."""
        now = int(np.count_nonzero(self.table["left"]))
        return {"now": now, "left": int(self._tally["left"]), "removed": int(self._tally["removed"])}

    def _is_owner(self, tracks: TrackedObjects) -> Mask:
        """Return which of the objects of an update (N,) are owners: worked out once for all of its frames."""
        if self._owners_of is None or self._owners_of[0] is not tracks:
            self._owners_of = tracks, tracks.has_label(self._area.owners)
        return self._owners_of[1]

    def _recognise(self, track_id: Ids, boxes: Floats, *, now_ns: int) -> None:
        """Let new tracks go on as the objects in whose place they are, where those are not seen."""
        table = self.table
        rows = table.known(track_id)
        is_new = rows < 0
        if not is_new.any():
            return
        is_unseen = table.seen_ns < now_ns
        is_unseen[rows[~is_new]] = False
        unseen = np.flatnonzero(is_unseen)
        if not len(unseen):
            return
        overlap = iou_matrix(boxes[is_new].astype(np.float32), table["box"][unseen].astype(np.float32))
        for number, column in enumerate(overlap):
            best = int(column.argmax())
            if column[best] >= _SAME_IOU:
                table.rename(int(unseen[best]), int(track_id[is_new][number]))
                overlap[:, best] = 0

    def _attend(self, rows: Indices, points: Floats, owners: Floats, *, now_ns: int) -> None:
        """Note who of the owners, boxes (M, 4), is near objects at points (N, 2)."""
        table = self.table
        if not len(owners):
            return
        feet = np.stack([(owners[:, 0] + owners[:, 2]) / 2, owners[:, 3]], axis=1)
        apart = np.hypot(*np.moveaxis(points[:, None] - feet, -1, 0))
        is_near: Mask = (apart <= self._area.distance * (owners[:, 3] - owners[:, 1])).any(axis=1)
        near = rows[is_near]
        comes = (table["near_ns"][near] < 0) | (now_ns - table["near_ns"][near] > _MISSED_NS)
        table["near_since_ns"][near[comes]] = now_ns
        table["near_ns"][near] = now_ns
        attends = near[now_ns - table["near_since_ns"][near] >= _ATTENDED_NS]
        table["attended_ns"][attends] = now_ns

    def _left(self, rows: Indices, *, now_ns: int) -> list[RuleEvent]:
        """Return events of objects that are left from now on, or attended to again."""
        table = self.table
        is_attended = table["attended_ns"][rows] == now_ns
        is_left = table["left"][rows]
        events = [self._ended(row, "attended", now_ns=now_ns) for row in rows[is_left & is_attended].tolist()]
        alone_ns = now_ns - self._alone_since(rows)
        for row, lasted_ns in zip(rows.tolist(), alone_ns.tolist(), strict=True):
            if lasted_ns >= self._area.after and not table["left"][row]:
                table["left"][row], table["left_ns"][row] = True, now_ns - lasted_ns
                self._tally["left"] += 1
                events.append(self._event(row, "left", lasted_ns, Part.BEGIN))
        return events

    def _alone_since(self, rows: Indices) -> Ids:
        """Return since when nobody has attended to objects where they stand."""
        since: Ids = np.maximum(self.table["since_ns"][rows], self.table["attended_ns"][rows])
        return since

    def _vanished(self, boxes: Floats, *, now_ns: int) -> list[RuleEvent]:
        """Return events of objects that were removed unseen, given all boxes (M, 4) of the frame."""
        table = self.table
        unseen = np.flatnonzero(table.seen_ns < now_ns)
        if not len(unseen):
            return []
        is_hidden = _covered(table["box"][unseen], boxes).max(axis=1, initial=0) >= _HIDDEN_SHARE
        free_ns = table["free_ns"][unseen]
        table["free_ns"][unseen] = free_ns = np.where(is_hidden, -1, np.where(free_ns < 0, now_ns, free_ns))
        is_gone = (free_ns >= 0) & (now_ns - free_ns >= self._area.gone)
        events: list[RuleEvent] = []
        for row in unseen[is_gone].tolist():
            stood_ns = int(table.seen_ns[row] - table["since_ns"][row])
            events += self._removed(row, stood_ns, "vanished", now_ns=now_ns)
        kept = now_ns - table.seen_ns <= _LONGEST_NS
        kept[unseen[is_gone]] = False
        for row in np.flatnonzero(~kept & table["left"]).tolist():
            events.append(self._ended(row, "unwatched", now_ns=now_ns))
        table.keep(kept)
        return events

    def _removed(self, row: int, stood_ns: int, how: str, *, now_ns: int) -> list[RuleEvent]:
        """Return the events of an object that is not in its place any more, if it had stood there for long enough."""
        events = [self._ended(row, "removed", now_ns=now_ns)] if self.table["left"][row] else []
        if stood_ns >= self._area.after:
            self._tally["removed"] += 1
            data: dict[str, str | int | float] = {
                "how": how,
                "track_id": int(self.table.track_id[row]),
                "seconds": round(stood_ns / NANOSECONDS, 3),
            }
            events.append(RuleEvent("removed", self._name, data))
        return events

    def _ended(self, row: int, state: str, *, now_ns: int) -> RuleEvent:
        self.table["left"][row] = False
        return self._event(row, state, now_ns - int(self.table["left_ns"][row]), Part.END)

    def _event(self, row: int, state: str, lasted_ns: int, part: Part) -> RuleEvent:
        data: dict[str, str | int | float] = {
            "state": state,
            "track_id": int(self.table.track_id[row]),
            "seconds": round(lasted_ns / NANOSECONDS, 3),
        }
        return RuleEvent("left", self._name, data, part, int(self.table["first_id"][row]))


def _covered(boxes: Floats, others: Floats) -> Floats:
    """Return which share of boxes (N, 4) each of the others (M, 4) covers -> (N, M)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    sides = np.maximum(high - low, 0)
    common = sides[..., 0] * sides[..., 1]
    area = np.maximum((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), 1e-9)
    share: Floats = common / area[:, None]
    return share
