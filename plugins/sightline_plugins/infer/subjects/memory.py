"""What is known of tracked objects, so that a model need not look at each of them on every frame.

Whether a track is due again is decided when its frame is submitted, from times, sizes and confidences of the boxes
alone; what was found out is written when results are collected, which happens in the same order. So answers do
not depend on batch size or timing. It also means that nobody can wait for an answer that turns out empty or unsure
before asking again: new tracks are therefore looked at several times soon after one another, whatever was found.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sightline.media import Stream

Known = TypeVar("Known")

_YOUNG_NS = (200_000_000, 300_000_000, 500_000_000)
"""How long after the first, the second and the third look a track is due again: 0.2, 0.5 and 1 s after it appeared."""
_GROWN = 1.5
_BETTER = 0.1
_FORGOTTEN_NS = 30_000_000_000
_SWEEP = 256


@dataclass(slots=True, eq=False)
class Slot(Generic[Known]):
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
    """Slots by stream and track. `refresh_ns` 0 asks on every frame."""

    def __init__(self, refresh_ns: int) -> None:
        self.refresh_ns = refresh_ns
        self._slots: dict[Stream, dict[Hashable, Slot[Known]]] = {}

    def slot(self, stream: Stream, key: Hashable, *, pts_ns: int) -> Slot[Known]:
        """The slot of a track, made when it is new. Tracks not seen for long are forgotten now and then."""
        slots = self._slots.setdefault(stream, {})
        slot = slots.get(key)
        if slot is None:
            if len(slots) % _SWEEP == _SWEEP - 1:
                fresh = {name: one for name, one in slots.items() if pts_ns - one.seen_ns < _FORGOTTEN_NS}
                slots = self._slots[stream] = fresh
            slot = slots[key] = Slot()
        slot.seen_ns = pts_ns
        return slot

    def asked(self, stream: Stream, key: Hashable, *, pts_ns: int) -> Slot[Known] | None:
        """The slot of a track that the model has looked at before; None for others, which get none."""
        slot = self._slots.get(stream, {}).get(key)
        if slot is None or not slot.looks:
            return None
        slot.seen_ns = pts_ns
        return slot

    def asks(self, slot: Slot[Known], *, pts_ns: int, area: float, quality: float) -> bool:
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
        return min(_YOUNG_NS[looks - 1], self.refresh_ns) if looks <= len(_YOUNG_NS) else self.refresh_ns
