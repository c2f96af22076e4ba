"""Per-track memory: when a tracked object is due for inference again, and what is known of it.

Whether a track is due again is decided when its frame is submitted, from times, sizes and confidences of the boxes
alone; what was found out is written when results are collected, which happens in the same order. So answers do
not depend on batch size or timing. It also means that nobody can wait for an answer that turns out empty or unsure
before asking again: new tracks are therefore looked at several times soon after one another, whatever was found.
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

Known = TypeVar("Known")

_YOUNG_NS = (200_000_000, 300_000_000, 500_000_000)
"""How long after the first, the second and the third look a track is due again: 0.2, 0.5 and 1 s after it appeared."""
_GROWN = 1.5
_BETTER = 0.1
_FORGOTTEN_NS = 30_000_000_000
_SWEEP = 256


@dataclass(slots=True, eq=False)
class TrackEntry(Generic[Known]):
    """What is known of one track. The submitting thread keeps everything but `known`, the other thread `known`.

    `looks` counts how often the model was asked and `asked_ns` says when it was last; `area`, in pixels, and `quality`,
    the confidence of the object, are the largest with which it was.
    """

    looks: int = 0
    asked_ns: int = 0
    area: float = 0.0
    quality: float = 0.0
    seen_ns: int = 0
    known: Known | None = None


class TrackMemory(Generic[Known]):
    """Slots by stream and track. `reinfer_interval_ns` 0 asks on every frame."""

    def __init__(self, reinfer_interval_ns: int) -> None:
        self.reinfer_interval_ns = reinfer_interval_ns
        self._slots: dict[Stream, dict[Hashable, TrackEntry[Known]]] = {}

    def slot(self, stream: Stream, key: Hashable, *, pts_ns: int) -> TrackEntry[Known]:
        """The slot of a track, made when it is new. Tracks not seen for long are forgotten now and then."""
        slots = self._slots.setdefault(stream, {})
        slot = slots.get(key)
        if slot is None:
            if len(slots) % _SWEEP == _SWEEP - 1:
                fresh = {name: one for name, one in slots.items() if pts_ns - one.seen_ns < _FORGOTTEN_NS}
                slots = self._slots[stream] = fresh
            slot = slots[key] = TrackEntry()
        slot.seen_ns = pts_ns
        return slot

    def asked(self, stream: Stream, key: Hashable, *, pts_ns: int) -> TrackEntry[Known] | None:
        """The slot of a track that the model has looked at before; None for others, which get none."""
        slot = self._slots.get(stream, {}).get(key)
        if slot is None or not slot.looks:
            return None
        slot.seen_ns = pts_ns
        return slot

    def asks(self, slot: TrackEntry[Known], *, pts_ns: int, area: float, quality: float) -> bool:
        """Whether the model has to look (again): never looked, too long ago, the box grew by half, or seen better.

        Notes that it does.
        """
        due = (
            not slot.looks
            or pts_ns - slot.asked_ns >= self._patience_ns(slot.looks)
            or pts_ns < slot.asked_ns
            or area >= slot.area * _GROWN
            or quality >= slot.quality + _BETTER
        )
        if due:
            slot.looks, slot.asked_ns = slot.looks + 1, pts_ns
            slot.area, slot.quality = max(area, slot.area), max(quality, slot.quality)
        return due

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's tracks; results under way keep their slots."""
        self._slots.pop(stream, None)

    def _patience_ns(self, looks: int) -> int:
        """How long the answers of so many looks are used."""
        return (
            min(_YOUNG_NS[looks - 1], self.reinfer_interval_ns) if looks <= len(_YOUNG_NS) else self.reinfer_interval_ns
        )


Numbers = npt.NDArray[np.int32]
_NUMBER = "_sibling"
_REMEMBERED = "_remembered"
_MOST = 64


@dataclass(frozen=True, slots=True, eq=False)
class Siblings:
    """Where the things found on one object were last seen, the n-th row that of number n.

    `middles` float32 (K, 2) are shares of the object's width and height, `class_id` int32 (K,) their classes.
    """

    middles: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int32]

    def numbered(self, xyxy: Boxes, class_id: npt.NDArray[np.int32], *, on: Boxes) -> tuple[Numbers, Siblings]:
        """The number of each thing (N,) found on the object whose box (4,) is `on`, and where all are now.

        The pairs of a thing and the place of one of its class that lie nearest each other go together; what is left
        gets new numbers, in order. Up to 64 are kept apart, all further ones share the last number.
        """
        sides = np.maximum(on[2:] - on[:2], np.float32(1e-6))
        middles = ((xyxy[:, :2] + xyxy[:, 2:]) / 2 - on[:2]) / sides
        numbers = np.full(len(xyxy), -1, np.int32)
        far = np.linalg.norm(middles[:, None] - self.middles[None], axis=2)
        far[class_id[:, None] != self.class_id[None]] = np.inf
        for _ in range(min(far.shape)):
            thing, number = np.unravel_index(int(far.argmin()), far.shape)
            if far[thing, number] == np.inf:
                break
            numbers[thing] = number
            far[thing], far[:, number] = np.inf, np.inf
        new = numbers < 0
        numbers[new] = np.minimum(len(self.middles) + np.arange(np.count_nonzero(new)), _MOST - 1)
        count = max(len(self.middles), int(numbers.max(initial=-1)) + 1)
        after = Siblings(np.zeros((count, 2), np.float32), np.full(count, -1, np.int32))
        after.middles[: len(self.middles)], after.class_id[: len(self.middles)] = self.middles, self.class_id
        after.middles[numbers], after.class_id[numbers] = middles, class_id
        return numbers, after


NOBODY = Siblings(np.empty((0, 2), np.float32), np.empty(0, np.int32))


def sibling_columns(numbers: npt.ArrayLike, *, remembered: npt.ArrayLike) -> dict[str, Column]:
    """Columns for objects found on others: their numbers (N,), and whether their place is only remembered (N,)."""
    return {_NUMBER: np.asarray(numbers, np.int32), _REMEMBERED: np.asarray(remembered, np.bool_)}


def is_remembered(objects: Objects, row: int) -> bool:
    """Whether an object was found on an earlier frame, and put where it must be now."""
    column = objects.extra.get(_REMEMBERED)
    return column is not None and bool(column[row])


def sibling_numbers(objects: Objects) -> Numbers:
    """The number (N,) of each object among those found on the same one by the same step.

    Objects that nobody numbered are counted in order.
    """
    column = objects.extra.get(_NUMBER)
    numbers = np.full(len(objects), -1, np.int32) if column is None else column.astype(np.int32)
    counts: dict[tuple[int, int], int] = {}
    for row in np.flatnonzero((numbers < 0) & (objects.parent >= 0)).tolist():
        kind = (int(objects.parent[row]), int(objects.origin[row]))
        counts[kind] = counts.get(kind, -1) + 1
        numbers[row] = counts[kind]
    return numbers
