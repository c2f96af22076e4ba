"""What rules look at: tracked objects of one stream, as columns, with the times of their frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph.rule_options import active_rules
from sightline.graph.schedule import Schedule
from sightline.media import Batch, Event, Objects
from sightline.media.boxes import Boxes


@dataclass(frozen=True, slots=True, eq=False)
class TrackedObjects:
    """Tracked objects of one stream on F successive frames; columns over N objects, in the order of their frames.

    frame     integers (N,)   number of the object's frame among the F frames
    track_id  int64 (N,)      never -1
    xyxy      float32 (N, 4)  source pixels
    pts_ns    int64 (F,)      time of each frame by the clock of the rules, which goes on when the process is another
    time_ns   int64 (F,)      time of day of each frame, since the epoch
    events    F tuples        what earlier steps reported on each frame
    active    mask (F, R)     on which frames each rule of the element is active, in the order of `rule_names`; None
                              where all are on all frames
    """

    frame: npt.NDArray[np.integer]
    track_id: npt.NDArray[np.int64]
    xyxy: Boxes
    pts_ns: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]
    events: tuple[tuple[Event, ...], ...]
    active: npt.NDArray[np.bool_] | None
    _objects: Objects = field(repr=False)
    _index: npt.NDArray[np.intp] = field(repr=False)

    def __len__(self) -> int:
        return len(self.track_id)

    @classmethod
    def of(
        cls,
        batch: Batch,
        rows: Sequence[int],
        *,
        times_ns: Sequence[int],
        shift_ns: int = 0,
        not_before_ns: int | None = None,
        schedules: Sequence[Schedule | None] = (),
    ) -> TrackedObjects:
        """Return the tracked objects on the frames of a batch in these rows, which are in ascending order.

        `times_ns` are the times of day of the frames, `shift_ns` is added to their presentation times, of which none
        is before `not_before_ns` then, and `schedules` say when each rule is active.
        """
        objects = batch.objects
        tracked = objects.track_id >= 0
        frame: npt.NDArray[np.integer]
        if len(rows) == len(batch):
            index = np.flatnonzero(tracked)
            frame = objects.frame[index]
        else:
            index = np.flatnonzero(tracked & np.isin(objects.frame, rows))
            frame = np.searchsorted(rows, objects.frame[index])
        pts_ns = np.array([batch.frames[row].pts_ns + shift_ns for row in rows], np.int64)
        if not_before_ns is not None:
            pts_ns = np.maximum(pts_ns, not_before_ns)
        events: dict[int, tuple[Event, ...]] = {}
        for event in batch.events:
            events[event.frame] = (*events.get(event.frame, ()), event)
        return cls(
            frame,
            objects.track_id[index],
            objects.xyxy[index],
            pts_ns,
            np.array(times_ns, np.int64),
            tuple([events.get(row, ()) for row in rows]),
            active_rules(schedules, times_ns),
            objects,
            index,
        )

    def by_frame(self) -> Iterator[slice]:
        """Yield the slice of the objects of each frame, also of frames without an object."""
        bounds = np.searchsorted(self.frame, np.arange(len(self.pts_ns) + 1)).tolist()
        return (slice(first, last) for first, last in pairwise(bounds))

    def last_frame(self) -> TrackedObjects:
        """Return those on the last frame."""
        own = np.flatnonzero(self.frame == len(self.pts_ns) - 1)
        return TrackedObjects(
            np.zeros(len(own), np.intp),
            self.track_id[own],
            self.xyxy[own],
            self.pts_ns[-1:],
            self.time_ns[-1:],
            self.events[-1:],
            None if self.active is None else self.active[-1:],
            self._objects,
            self._index[own],
        )

    def with_attribute(self, objects: Objects, name: str, *, values: npt.NDArray[Any]) -> Objects:
        """Return the batch's `objects`, of which these are some, with values (N,) of theirs that are not NaN, or not
        empty texts.
        """
        known = values != "" if values.dtype.kind == "U" else ~np.isnan(values)
        return objects.with_values(name, rows=self._index[known], values=values[known])

    def labels(self, rows: npt.NDArray[np.intp]) -> list[str]:
        """Return the labels of these objects."""
        return self._objects.select(self._index[rows]).labels()

    def has_label(self, labels: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return the mask (N,) of the objects whose class has one of these names."""
        return self._objects.has_label(labels)[self._index]

    def when_active(self) -> npt.NDArray[np.bool_] | None:
        """Return the mask (N, R) of the objects that each rule sees, by its schedule; None where all see all."""
        return None if self.active is None else self.active[self.frame]
