"""Per-track memory: when the model runs on a tracked object again, and what is known of it until then.

Whether a track is due is decided when its frame is submitted, from times, sizes and confidences of the boxes alone; its
result is written when results are collected, which happens in the same order. So results do not depend on batch size
or timing. It also means that an empty or uncertain result cannot cause another run at once; therefore the model runs
on new tracks several times in quick succession, whatever it finds.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.media import Objects, Stream
from sightline.media.boxes import Boxes
from sightline.media.objects import Column

Result = TypeVar("Result")
ChildNumbers = npt.NDArray[np.int32]

_YOUNG_NS = (200_000_000, 300_000_000, 500_000_000)
"""Intervals after the first, second and third run: a track is due 0.2, 0.5 and 1 s after it appeared."""
_GROWTH = 1.5
_CONFIDENCE_GAIN = 0.1
_FORGET_NS = 30_000_000_000
_SWEEP = 256
_CHILD_NUMBER = "_sibling"
_REMEMBERED = "_remembered"
_MAX_CHILDREN = 64


@dataclass(slots=True, eq=False)
class TrackEntry(Generic[Result]):
    """What is known of one track. The submitting thread owns all fields but `result`, the collecting thread `result`.

    `runs` counts the runs of the model and `run_ns` is the time of the newest one; `area` (pixels) and `confidence` of
    the object are the largest with which it ran.
    """

    runs: int = 0
    run_ns: int = 0
    area: float = 0.0
    confidence: float = 0.0
    seen_ns: int = 0
    result: Result | None = None


class TrackMemory(Generic[Result]):
    """Entries by stream and track. With `reinfer_interval_ns` 0 every track is due on every frame."""

    def __init__(self, reinfer_interval_ns: int) -> None:
        self.reinfer_interval_ns = reinfer_interval_ns
        self._entries: dict[Stream, dict[Hashable, TrackEntry[Result]]] = {}

    def entry(self, stream: Stream, key: Hashable, *, pts_ns: int) -> TrackEntry[Result]:
        """Return the entry of a track, which is made for a new one; tracks not seen for long are dropped at times."""
        entries = self._entries.setdefault(stream, {})
        entry = entries.get(key)
        if entry is None:
            if len(entries) % _SWEEP == _SWEEP - 1:
                recent = {name: known for name, known in entries.items() if pts_ns - known.seen_ns < _FORGET_NS}
                entries = self._entries[stream] = recent
            entry = entries[key] = TrackEntry()
        entry.seen_ns = pts_ns
        return entry

    def known(self, stream: Stream, key: Hashable, *, pts_ns: int) -> TrackEntry[Result] | None:
        """Return the entry of a track that the model has run on; None for others."""
        entry = self._entries.get(stream, {}).get(key)
        if entry is None or not entry.runs:
            return None
        entry.seen_ns = pts_ns
        return entry

    def take_due(self, entry: TrackEntry[Result], *, pts_ns: int, area: float, confidence: float) -> bool:
        """Return whether the model has to run on a track, and note that it does.

        It has to the first time, when its interval has passed, when its box has grown by half, or when it is seen with
        more confidence.
        """
        interval_ns = self.reinfer_interval_ns
        if 1 <= entry.runs <= len(_YOUNG_NS):
            interval_ns = min(_YOUNG_NS[entry.runs - 1], interval_ns)
        due = (
            not entry.runs
            or pts_ns - entry.run_ns >= interval_ns
            or pts_ns < entry.run_ns
            or area >= entry.area * _GROWTH
            or confidence >= entry.confidence + _CONFIDENCE_GAIN
        )
        if due:
            entry.runs, entry.run_ns = entry.runs + 1, pts_ns
            entry.area, entry.confidence = max(area, entry.area), max(confidence, entry.confidence)
        return due

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's tracks; results under way keep their entries."""
        self._entries.pop(stream, None)


@dataclass(frozen=True, slots=True, eq=False)
class Children:
    """The last positions of the objects found on one object, by their number.

    `centers` float32 (K, 2) are fractions of the parent's width and height, `class_id` int32 (K,) their classes.
    """

    centers: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int32]

    def numbered(self, xyxy: Boxes, class_id: npt.NDArray[np.int32], *, parent: Boxes) -> tuple[ChildNumbers, Children]:
        """Return the number (N,) of each box (N, 4) found on a parent box (4,), and where all children are now.

        Boxes are matched greedily to the nearest known child of their class; the others get new numbers, in order. Up
        to 64 are distinguished, all further ones share the last number.
        """
        sides = np.maximum(parent[2:] - parent[:2], np.float32(1e-6))
        centers = ((xyxy[:, :2] + xyxy[:, 2:]) / 2 - parent[:2]) / sides
        numbers = np.full(len(xyxy), -1, np.int32)
        distance = np.linalg.norm(centers[:, None] - self.centers[None], axis=2)
        distance[class_id[:, None] != self.class_id[None]] = np.inf
        for _ in range(min(distance.shape)):
            row, number = np.unravel_index(int(distance.argmin()), distance.shape)
            if distance[row, number] == np.inf:
                break
            numbers[row] = number
            distance[row], distance[:, number] = np.inf, np.inf
        new = numbers < 0
        numbers[new] = np.minimum(len(self.centers) + np.arange(np.count_nonzero(new)), _MAX_CHILDREN - 1)
        count = max(len(self.centers), int(numbers.max(initial=-1)) + 1)
        after = Children(np.zeros((count, 2), np.float32), np.full(count, -1, np.int32))
        after.centers[: len(self.centers)], after.class_id[: len(self.centers)] = self.centers, self.class_id
        after.centers[numbers], after.class_id[numbers] = centers, class_id
        return numbers, after


NO_CHILDREN = Children(np.empty((0, 2), np.float32), np.empty(0, np.int32))


def child_columns(numbers: npt.ArrayLike, *, remembered: npt.ArrayLike) -> dict[str, Column]:
    """Return the columns of objects found on others: their numbers (N,), and whether they are carried over (N,)."""
    return {_CHILD_NUMBER: np.asarray(numbers, np.int32), _REMEMBERED: np.asarray(remembered, np.bool_)}


def is_remembered(objects: Objects, row: int) -> bool:
    """Return whether an object was found on an earlier frame, and its position carried over."""
    column = objects.extra.get(_REMEMBERED)
    return column is not None and bool(column[row])


def child_numbers(objects: Objects) -> ChildNumbers:
    """Return the number (N,) of each object among those that one step found on the same parent.

    Objects without a number are counted in order.
    """
    column = objects.extra.get(_CHILD_NUMBER)
    numbers = np.full(len(objects), -1, np.int32) if column is None else column.astype(np.int32)
    counts: dict[tuple[int, int], int] = {}
    for row in np.flatnonzero((numbers < 0) & (objects.parent >= 0)).tolist():
        kind = (int(objects.parent[row]), int(objects.origin[row]))
        counts[kind] = counts.get(kind, -1) + 1
        numbers[row] = counts[kind]
    return numbers
