"""Frames of a batch whose detections are tracked together, and C functions that work on all of them in one call."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Frame

Rows = slice | npt.NDArray[np.intp]
State = TypeVar("State")


class TrackedRows:
    """Which rows of a batch's objects are tracked: all, or those that are not found on other objects."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        objects = batch.objects
        has_children = max(objects.parent.tolist(), default=-1) >= 0
        self._index = np.flatnonzero(objects.parent < 0) if has_children else None
        frame = objects.frame if self._index is None else objects.frame[self._index]
        self.ends: list[int] = (
            [len(frame)] if len(batch) == 1 else frame.searchsorted(np.arange(len(batch)), side="right").tolist()
        )
        """The number of tracked objects up to the end of each frame."""

    def begins_gap(self, frame: int) -> bool:
        """Return whether the next frame of the stream may be without a detector run; of the last one nobody knows."""
        frames, detected = self._batch.frames, self._batch.columns.detected
        for number in range(frame + 1, len(frames)):
            if frames[number].stream == frames[frame].stream:
                return bool(detected) and not detected[number]
        return True

    def between(self, first: int, last: int) -> Rows:
        """Return the rows of the tracked objects from number `first` to before `last`."""
        return slice(first, last) if self._index is None else self._index[first:last]


class FramesTogether(Generic[State]):
    """Frames of a batch, in order, each with the state of its stream."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.frames: list[Frame] = []
        self.numbers: list[int] = []
        """Of the frames in the batch."""

    def add(self, number: int, frame: Frame, state: State) -> None:
        """Add the next frame, which has this number in its batch."""
        self.states.append(state)
        self.frames.append(frame)
        self.numbers.append(number)

    def rows(self, tracked: TrackedRows) -> tuple[Rows, list[int]]:
        """Return the rows of the objects tracked on these frames, and how many these are up to the end of each."""
        if len(self.numbers) == len(tracked.ends):
            return tracked.between(0, tracked.ends[-1]), tracked.ends
        bounds = [(tracked.ends[number - 1] if number else 0, tracked.ends[number]) for number in self.numbers]
        ends = np.cumsum([last - first for first, last in bounds]).tolist()
        first, last = bounds[0][0], bounds[-1][1]
        if ends[-1] == last - first:
            return tracked.between(first, last), ends
        numbers = np.concatenate([np.arange(first, last) for first, last in bounds])
        rows = tracked.between(0, tracked.ends[-1])
        return numbers if isinstance(rows, slice) else rows[numbers], ends


class InC(Protocol):
    """What is kept of a stream for a C function: the address of a struct, whose arrays Python makes."""

    address: int

    def make_room(self, detections: int, /) -> None:
        """Make room for a frame of so many detections."""


def call_for_frames(
    function: Callable[..., int], kept: Sequence[InC], *columns: Any, ends: Sequence[int], pts_ns: Sequence[int]
) -> None:
    """Call a C function for `Frames` (frames.h): what is kept of the stream of each, the row behind its last detection,
    and its time.

    `columns` are pointers to arrays with as many rows as `ends` says. The function returns the number of the first
    frame whose stream lacks room, from which it is called again. Raises ValueError when `ends` are no such rows.
    """
    frames = len(kept)
    if not len(ends) == len(pts_ns) == frames or sorted(ends) != list(ends) or (frames and ends[0] < 0):
        raise ValueError(f"tracker: {frames} frames need as many times and rows that ascend, not {ends} and {pts_ns}")
    given = struct.pack(f"{3 * frames}q", *[one.address for one in kept], *ends, *pts_ns)
    done = function(given, 0, frames, *columns)
    while done < frames:
        kept[done].make_room(ends[done] - (ends[done - 1] if done else 0))
        done = function(given, done, frames, *columns)
