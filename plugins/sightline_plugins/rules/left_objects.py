"""`left_objects`: report objects that somebody left, and objects that were taken from their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sightline.graph.rule import Counts, RuleEvent, StreamRule
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Part
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.area_tracks import AreaTracks
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.motion import Distance, MotionArea, MotionRule, Tally
from sightline_plugins.rules.nearby import are_covered, are_near, places_taken
from sightline_plugins.rules.shapes import Location, Shape
from sightline_plugins.rules.stillness import STILLNESS, stand
from sightline_plugins.rules.stream_motion import AreaEvent, SeenPairs, StreamMotion
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

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamLeftObjects(self, earlier if isinstance(earlier, StreamLeftObjects) else None)

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


class StreamLeftObjects(StreamMotion):
    """The objects that stand in the areas of a stream, and who is near."""

    def __init__(self, rule: LeftObjects, earlier: StreamMotion | None = None) -> None:
        self.table = AreaTracks(
            {
                **STILLNESS,
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
        super().__init__(rule, earlier)

    def take(self) -> None:
        self._after_ns = np.array([area.after for area in self.areas], np.int64)
        self._gone_ns = np.array([area.gone for area in self.areas], np.int64)
        self._reach = np.array([area.distance for area in self.areas], np.float64)
        self._owners = list(dict.fromkeys(area.owners for area in self.areas))
        """The different owners of areas, and by area which of them it has."""
        self._owners_of = np.array([self._owners.index(area.owners) for area in self.areas], np.intp)
        self._are_owners: tuple[TrackedObjects, Mask] | None = None

    def take_size(self, size_wh: tuple[int, int]) -> None:
        del size_wh
        self._distances = self.in_pixels([area.still for area in self.areas])

    def step(self, seen: SeenPairs) -> list[AreaEvent]:
        table, now_ns = self.table, seen.now_ns
        everything = seen.tracks.xyxy[seen.frame].astype(np.float64)
        are_owners = self._owners_among(seen.tracks)
        own = np.flatnonzero(~are_owners[self._owners_of[seen.area], seen.row])
        area, track_id, points, boxes = seen.area[own], seen.track_id[own], seen.points[own], seen.xyxy[own]
        known = self._recognised(area, track_id, boxes, now_ns=now_ns)
        rows, is_new = table.see(known, area, track_id, now_ns=now_ns)
        stood_ns = table["since_ns"][rows]
        moved_ns = stand(table, rows, is_new, points, reach=seen.reach(self._distances)[own], now_ns=now_ns)
        table["box"][rows], table["free_ns"][rows] = boxes, -1
        fresh = table["first_id"][rows] < 0
        table["first_id"][rows[fresh]] = track_id[fresh]

        has_moved = moved_ns >= 0
        events = self._removed(rows[has_moved], (moved_ns - stood_ns)[has_moved], "moved", now_ns=now_ns)
        for number, are_own in enumerate(are_owners[:, seen.frame]):
            looks = self._owners_of[area] == number
            near = are_near(points[looks], everything[are_own], reach=self._reach[area[looks]])
            self._attend(rows[looks][near], now_ns=now_ns)
        events += self._left(rows, now_ns=now_ns)
        return events + self._vanished(everything, now_ns=now_ns)

    def stop(self, stopped: Mask, now_ns: int) -> list[AreaEvent]:
        rows = stopped[self.table.area]
        events = self._unwatched(rows, now_ns=now_ns)
        self.table.forget(rows)
        return events

    def positions(self, rows: Indices) -> Floats:
        positions: Floats = self.table["place"][rows]
        return positions

    def counts(self) -> Counts:
        """Return how many objects are left `now` in each area, and how many were `left` and `removed` so far."""
        return {
            name: {"now": now, "left": int(own["left"]), "removed": int(own["removed"])}
            for now, (name, own) in zip(self.counted(self.table["left"]), self.present_tally(), strict=True)
        }

    def _owners_among(self, tracks: TrackedObjects) -> Mask:
        """Return which of the objects of an update are among the `_owners` (K, N): worked out once for all its
        frames.
        """
        if self._are_owners is None or self._are_owners[0] is not tracks:
            self._are_owners = tracks, np.stack([tracks.has_label(labels) for labels in self._owners])
        return self._are_owners[1]

    def _recognised(self, area: Indices, track_id: Ids, boxes: Floats, *, now_ns: int) -> Indices:
        """Return the rows (P,) of pairs, -1 for new ones. New tracks go on as the objects in whose place they are,
        where those are not seen.
        """
        table = self.table
        rows = table.known(area, track_id)
        new = np.flatnonzero(rows < 0)
        if not len(new):
            return rows
        is_unseen = table.seen_ns < now_ns
        is_unseen[rows[rows >= 0]] = False
        rows[new] = places_taken(
            area[new], boxes[new], place_area=table.area, places=table["box"], is_free=is_unseen, least=_SAME_IOU
        )
        for place in new[rows[new] >= 0].tolist():
            table.rename(int(rows[place]), int(track_id[place]))
        return rows

    def _attend(self, near: Indices, *, now_ns: int) -> None:
        """Note that owners are near objects in these rows."""
        table = self.table
        comes = (table["near_ns"][near] < 0) | (now_ns - table["near_ns"][near] > _MISSED_NS)
        table["near_since_ns"][near[comes]] = now_ns
        table["near_ns"][near] = now_ns
        attends = near[now_ns - table["near_since_ns"][near] >= _ATTENDED_NS]
        table["attended_ns"][attends] = now_ns

    def _left(self, rows: Indices, *, now_ns: int) -> list[AreaEvent]:
        """Return events of objects that are left from now on, or attended to again."""
        table = self.table
        is_attended = table["attended_ns"][rows] == now_ns
        is_left = table["left"][rows]
        events = [self._ended(row, "attended", now_ns=now_ns) for row in rows[is_left & is_attended].tolist()]
        alone_ns = now_ns - np.maximum(table["since_ns"][rows], table["attended_ns"][rows])
        begins = ~table["left"][rows] & (alone_ns >= self._after_ns[table.area[rows]])
        for row, lasted_ns in zip(rows[begins].tolist(), alone_ns[begins].tolist(), strict=True):
            table["left"][row], table["left_ns"][row] = True, now_ns - lasted_ns
            self.tally_of(row)["left"] += 1
            events.append(self._event(row, "left", lasted_ns, Part.BEGIN))
        return events

    def _vanished(self, boxes: Floats, *, now_ns: int) -> list[AreaEvent]:
        """Return events of objects that were removed unseen, given all boxes (M, 4) of the frame."""
        table = self.table
        unseen = np.flatnonzero((table.seen_ns < now_ns) & (table.area >= 0))
        if not len(unseen):
            return []
        is_hidden = are_covered(table["box"][unseen], boxes, share=_HIDDEN_SHARE)
        free_ns = table["free_ns"][unseen]
        table["free_ns"][unseen] = free_ns = np.where(is_hidden, -1, np.where(free_ns < 0, now_ns, free_ns))
        is_gone = (free_ns >= 0) & (now_ns - free_ns >= self._gone_ns[table.area[unseen]])
        gone = unseen[is_gone]
        events = self._removed(gone, table.seen_ns[gone] - table["since_ns"][gone], "vanished", now_ns=now_ns)
        forgotten = now_ns - table.seen_ns > _LONGEST_NS
        forgotten[gone] = True
        events += self._unwatched(forgotten, now_ns=now_ns)
        table.forget(forgotten)
        return events

    def _removed(self, rows: Indices, stood_ns: Ids, how: str, *, now_ns: int) -> list[AreaEvent]:
        """Return the events of objects that are not in their place any more, those that had stood there long enough."""
        table, events = self.table, []
        has_stood = stood_ns >= self._after_ns[table.area[rows]]
        told = table["left"][rows] | has_stood
        for row, lasted_ns, counts in zip(
            rows[told].tolist(), stood_ns[told].tolist(), has_stood[told].tolist(), strict=True
        ):
            if table["left"][row]:
                events.append(self._ended(row, "removed", now_ns=now_ns))
            if counts:
                self.tally_of(row)["removed"] += 1
                data: dict[str, str | int | float] = {
                    "how": how,
                    "track_id": int(table.track_id[row]),
                    "seconds": round(lasted_ns / NANOSECONDS, 3),
                }
                number = int(table.area[row])
                events.append((number, RuleEvent("removed", self.names[number], data)))
        return events

    def _unwatched(self, rows: Mask, *, now_ns: int) -> list[AreaEvent]:
        """Return the ends of what is left in rows (R,) that are forgotten."""
        is_left = rows & self.table["left"] & (self.table.area >= 0)
        return [self._ended(row, "unwatched", now_ns=now_ns) for row in np.flatnonzero(is_left).tolist()]

    def _ended(self, row: int, state: str, *, now_ns: int) -> AreaEvent:
        self.table["left"][row] = False
        return self._event(row, state, now_ns - int(self.table["left_ns"][row]), Part.END)

    def _event(self, row: int, state: str, lasted_ns: int, part: Part) -> AreaEvent:
        data: dict[str, str | int | float] = {
            "state": state,
            "track_id": int(self.table.track_id[row]),
            "seconds": round(lasted_ns / NANOSECONDS, 3),
        }
        number = int(self.table.area[row])
        return number, RuleEvent("left", self.names[number], data, part, int(self.table["first_id"][row]))
