"""Batches: frames of one or more streams that travel together, with everything found on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media.events import Event, Overlay, Tensor
from sightline.media.frame import Frame, Stream
from sightline.media.objects import Objects
from sightline.media.surface import Surface


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Frames by reference, and the objects, events and overlays found on them; immutable.

    Frames of one stream stand in their order, and batches keep it too. `detected` holds, for each frame, whether a
    detector ran on it: a tracker predicts on those where none did (`every: 3`). `overlays` holds, for each frame,
    the shapes that rules want drawn; it is empty or as long as `frames`. `tensors` are the raw outputs of models that
    steps kept, in the order of their frames. `searched_by` holds, for each frame, the ids of the steps that looked at
    all of it that they should, and had nothing but finite numbers to go by: who must not overlook anything relies on
    it. It is empty, when nothing searched, or as long as `frames`.
    """

    frames: tuple[Frame, ...]
    objects: Objects = field(default_factory=Objects.empty)
    events: tuple[Event, ...] = ()
    overlays: tuple[tuple[Overlay, ...], ...] = ()
    detected: tuple[bool, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    searched_by: tuple[frozenset[str], ...] = ()

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[FrameView]:
        return (FrameView(self, row) for row in range(len(self)))

    def with_objects(self, objects: Objects) -> Batch:
        """This batch with other objects."""
        return dataclasses.replace(self, objects=objects)

    def with_events(self, events: Sequence[Event]) -> Batch:
        """This batch with more events, in the order of their frames."""
        if not events:
            return self
        ordered = sorted((*self.events, *events), key=lambda event: event.frame)
        return dataclasses.replace(self, events=tuple(ordered))

    def with_tensors(self, tensors: Sequence[Tensor]) -> Batch:
        """This batch with more tensors, in the order of their frames."""
        ordered = sorted((*self.tensors, *tensors), key=lambda tensor: tensor.frame)
        return dataclasses.replace(self, tensors=tuple(ordered))

    def with_overlays(self, overlays: Sequence[tuple[Overlay, ...]]) -> Batch:
        """This batch with more overlays: one tuple for each frame, added after those already there."""
        before = self.overlays or ((),) * len(self)
        joined = tuple(old + new for old, new in zip(before, overlays, strict=True))
        return dataclasses.replace(self, overlays=joined)

    def with_search(self, element: str, rows: Collection[int]) -> Batch:
        """This batch with the frames at `rows` marked as searched by a step."""
        if not rows:
            return self
        own = frozenset((element,))
        before = self.searched_by or (frozenset(),) * len(self)
        searched = tuple(old | own if row in rows else old for row, old in enumerate(before))
        return dataclasses.replace(self, searched_by=searched)

    def with_surfaces(self, surfaces: Sequence[Surface]) -> Batch:
        """This batch with other pixels, one surface for each frame."""
        frames = tuple(
            dataclasses.replace(frame, surface=surface) for frame, surface in zip(self.frames, surfaces, strict=True)
        )
        return dataclasses.replace(self, frames=frames)

    def shared(self) -> Batch:
        """The same batch for several holders: no surface of it is exclusive any more."""
        if not any(frame.surface.exclusive for frame in self.frames):
            return self
        return self.with_surfaces([frame.surface.shared() for frame in self.frames])

    def select_frames(self, rows: Sequence[int]) -> Batch:
        """The frames at these rows, with what was found on them, renumbered."""
        new_row = np.full(len(self), -1, np.int32)
        new_row[list(rows)] = np.arange(len(rows), dtype=np.int32)
        objects = self.objects.select(new_row[self.objects.frame] >= 0)
        return Batch(
            frames=tuple(self.frames[row] for row in rows),
            objects=objects.with_columns(frame=new_row[objects.frame]),
            events=tuple(
                dataclasses.replace(event, frame=int(new_row[event.frame]))
                for event in self.events
                if new_row[event.frame] >= 0
            ),
            overlays=tuple(self.overlays[row] for row in rows) if self.overlays else (),
            detected=tuple(self.detected[row] for row in rows) if self.detected else (),
            tensors=tuple(
                dataclasses.replace(tensor, frame=int(new_row[tensor.frame]))
                for tensor in self.tensors
                if new_row[tensor.frame] >= 0
            ),
            searched_by=tuple(self.searched_by[row] for row in rows) if self.searched_by else (),
        )


@dataclass(frozen=True, slots=True)
class FrameView:
    """One frame of a batch with what was found on it, for people."""

    batch: Batch
    row: int

    @property
    def frame(self) -> Frame:
        """The frame itself."""
        return self.batch.frames[self.row]

    @property
    def stream(self) -> Stream:
        """The stream the frame belongs to."""
        return self.frame.stream

    @property
    def index(self) -> int:
        """The number of the frame in its stream, from 0."""
        return self.frame.index

    @property
    def pts_ns(self) -> int:
        """The presentation time in nanoseconds."""
        return self.frame.pts_ns

    @property
    def pts_seconds(self) -> float:
        """The presentation time in seconds."""
        return self.frame.pts_seconds

    @property
    def capture_ns(self) -> int | None:
        """The time of day of the image in nanoseconds since the epoch, when it is known."""
        return self.frame.capture_ns

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height of the image in pixels."""
        return self.frame.size_wh

    @property
    def surface(self) -> Surface:
        """The pixels; read-only."""
        return self.frame.surface

    @property
    def objects(self) -> Objects:
        """The objects found on this frame."""
        return self.batch.objects.of_frame(self.row)

    @property
    def events(self) -> tuple[Event, ...]:
        """What rules say happened on this frame."""
        return tuple(event for event in self.batch.events if event.frame == self.row)

    @property
    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Raw outputs of models kept for this frame, by step and output: `tensors-1.output`."""
        return {
            f"{tensor.element}.{tensor.name}": tensor.values
            for tensor in self.batch.tensors
            if tensor.frame == self.row
        }

    def rgb(self) -> npt.NDArray[np.uint8]:
        """The image converted to RGB, (height, width, 3), a new array."""
        from sightline.media.convert import rgb_from_surface

        return rgb_from_surface(self.surface)
