"""Batches: frames of one or more streams that travel together, with everything found on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.media.events import Alarm, Event, Graphic, Overlay, Tensor
from sightline.media.frame import Frame, Stream
from sightline.media.objects import Objects
from sightline.media.surface import Surface

_UNKNOWN: Mapping[str, Any] = {
    "overlays": (),
    "detected": True,
    "searched_by": frozenset[str](),
    "graphics": (),
    "alarms": (),
}
"""The value of a frame in each column of `FrameColumns` that is empty."""


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """Values for each frame of a batch. A column is as long as the batch, or empty when nothing has set it.

    `overlays`: the shapes that rules want drawn. `detected`: whether a detector ran; a tracker predicts on the other
    frames (`every: 3`). `searched_by`: the ids of the steps that searched the frame completely and got finite numbers
    only; `privacy`, which must not miss anything, relies on it. `graphics`: arrows and heat maps that steps want drawn.
    `alarms`: events that wait to be verified.
    """

    overlays: tuple[tuple[Overlay, ...], ...] = ()
    detected: tuple[bool, ...] = ()
    searched_by: tuple[frozenset[str], ...] = ()
    graphics: tuple[tuple[Graphic, ...], ...] = ()
    alarms: tuple[tuple[Alarm, ...], ...] = ()

    def select(self, rows: Sequence[int]) -> FrameColumns:
        """Return the values of the frames at these rows."""
        return FrameColumns(*(tuple(column[row] for row in rows) if column else () for column in self._all()))

    def with_rows(self, rows: Sequence[int], part: FrameColumns, *, frames: int) -> FrameColumns:
        """Return the columns of `frames` frames with those of `part`, in the order of `rows`, in their place."""
        columns = []
        for name, own, new in zip(_UNKNOWN, self._all(), part._all(), strict=True):
            column = list(own) or ([_UNKNOWN[name]] * frames if new else [])
            for index, row in enumerate(rows if new else ()):
                column[row] = new[index]
            columns.append(tuple(column))
        return FrameColumns(*columns)

    def merged(self, branches: Sequence[FrameColumns]) -> FrameColumns:
        """Return these columns with what branches have added to them."""
        detected = [one.detected for one in (self, *branches) if one.detected]
        searched = [one.searched_by for one in (self, *branches) if one.searched_by]
        return FrameColumns(
            overlays=_joined(self.overlays, [one.overlays for one in branches if one.overlays]),
            detected=tuple(any(row) for row in zip(*detected, strict=True)),
            searched_by=tuple(frozenset[str]().union(*row) for row in zip(*searched, strict=True)),
            graphics=_joined(self.graphics, [one.graphics for one in branches if one.graphics]),
            alarms=_joined(self.alarms, [one.alarms for one in branches if one.alarms]),
        )

    def _all(self) -> tuple[tuple[Any, ...], ...]:
        return (self.overlays, self.detected, self.searched_by, self.graphics, self.alarms)


Added = TypeVar("Added")


def _joined(
    before: tuple[tuple[Added, ...], ...], branches: Sequence[tuple[tuple[Added, ...], ...]]
) -> tuple[tuple[Added, ...], ...]:
    """Return what was on each frame before branches, and then what each branch has added."""
    if not branches:
        return before
    return tuple(
        own + tuple(added for branch in branches for added in branch[row][len(own) :])
        for row, own in enumerate(before or ((),) * len(branches[0]))
    )


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Frames by reference, and the objects, events and overlays found on them; immutable.

    Frames of one stream are in their order, within a batch and from batch to batch. `tensors` are raw outputs of models
    that steps kept, in the order of their frames. `columns` hold further values for each frame.
    """

    frames: tuple[Frame, ...]
    objects: Objects = field(default_factory=Objects.empty)
    events: tuple[Event, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    columns: FrameColumns = field(default_factory=FrameColumns)

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[FrameView]:
        return (FrameView(self, row) for row in range(len(self)))

    def with_objects(self, objects: Objects) -> Batch:
        """Return the batch with other objects."""
        return Batch(self.frames, objects, self.events, self.tensors, self.columns)

    def with_events(self, events: Sequence[Event]) -> Batch:
        """Return the batch with more events, in the order of their frames."""
        if not events:
            return self
        ordered = sorted((*self.events, *events), key=lambda event: event.frame)
        return dataclasses.replace(self, events=tuple(ordered))

    def with_tensors(self, tensors: Sequence[Tensor]) -> Batch:
        """Return the batch with more tensors, in the order of their frames."""
        ordered = sorted((*self.tensors, *tensors), key=lambda tensor: tensor.frame)
        return dataclasses.replace(self, tensors=tuple(ordered))

    def with_overlays(self, overlays: Sequence[tuple[Overlay, ...]]) -> Batch:
        """Return the batch with more overlays: one tuple for each frame, added after the present ones."""
        before = self.columns.overlays or ((),) * len(self)
        joined = tuple(old + new for old, new in zip(before, overlays, strict=True))
        return self.with_columns(overlays=joined)

    def with_graphics(self, graphics: Sequence[tuple[Graphic, ...]]) -> Batch:
        """Return the batch with more graphics: one tuple for each frame, drawn after the present ones."""
        if not any(graphics):
            return self
        before = self.columns.graphics or ((),) * len(self)
        return self.with_columns(graphics=tuple(old + new for old, new in zip(before, graphics, strict=True)))

    def with_alarms(self, alarms: Sequence[tuple[Alarm, ...]]) -> Batch:
        """Return the batch with more alarms: one tuple for each frame, after the present ones."""
        if not any(alarms):
            return self
        before = self.columns.alarms or ((),) * len(self)
        return self.with_columns(alarms=tuple(old + new for old, new in zip(before, alarms, strict=True)))

    def with_detection(self, rows: Collection[int]) -> Batch:
        """Return the batch with the frames at `rows` marked as detected, the others (if not marked before) as not."""
        own = self.columns
        before = own.detected or (False,) * len(self.frames)
        detected = tuple([old or row in rows for row, old in enumerate(before)])
        return self._with_frame_columns(FrameColumns(own.overlays, detected, own.searched_by, own.graphics, own.alarms))

    def with_search(self, element: str, rows: Collection[int]) -> Batch:
        """Return the batch with the frames at `rows` marked as searched by a step."""
        if not rows:
            return self
        own, step = self.columns, frozenset((element,))
        before = own.searched_by or (frozenset(),) * len(self.frames)
        searched = tuple([old | step if row in rows else old for row, old in enumerate(before)])
        return self._with_frame_columns(FrameColumns(own.overlays, own.detected, searched, own.graphics, own.alarms))

    def with_columns(self, **columns: Any) -> Batch:
        """Return the batch with other columns, by name: see `FrameColumns`."""
        return self._with_frame_columns(dataclasses.replace(self.columns, **columns))

    def _with_frame_columns(self, columns: FrameColumns) -> Batch:
        return Batch(self.frames, self.objects, self.events, self.tensors, columns)

    def with_surfaces(self, surfaces: Sequence[Surface]) -> Batch:
        """Return the batch with other pixels, one surface for each frame."""
        frames = tuple(
            dataclasses.replace(frame, surface=surface) for frame, surface in zip(self.frames, surfaces, strict=True)
        )
        return dataclasses.replace(self, frames=frames)

    def shared(self) -> Batch:
        """Return the batch for several holders: no surface of it is exclusive any more."""
        if not any(frame.surface.exclusive for frame in self.frames):
            return self
        return self.with_surfaces([frame.surface.shared() for frame in self.frames])

    def select_frames(self, rows: Sequence[int]) -> Batch:
        """Return the frames at these rows, with what was found on them, renumbered."""
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
            tensors=tuple(
                dataclasses.replace(tensor, frame=int(new_row[tensor.frame]))
                for tensor in self.tensors
                if new_row[tensor.frame] >= 0
            ),
            columns=self.columns.select(rows),
        )

    def with_rows(self, rows: Sequence[int], part: Batch) -> Batch:
        """Return the batch with some of its frames, and all that was found on them, as they are in `part`, which holds
        them in the order of `rows`.
        """
        mine = np.zeros(len(self), np.bool_)
        mine[list(rows)] = True
        others = self.objects.select(~mine[self.objects.frame])
        objects = part.objects.with_columns(frame=np.array(rows, np.int32)[part.objects.frame])
        frames = list(self.frames)
        for row, frame in zip(rows, part.frames, strict=True):
            frames[row] = frame
        kept = [event for event in self.events if not mine[event.frame]]
        moved = [dataclasses.replace(event, frame=rows[event.frame]) for event in part.events]
        kept_tensors = [tensor for tensor in self.tensors if not mine[tensor.frame]]
        moved_tensors = [dataclasses.replace(tensor, frame=rows[tensor.frame]) for tensor in part.tensors]
        return Batch(
            frames=tuple(frames),
            objects=Objects.concat([others, objects]),
            events=tuple(sorted([*kept, *moved], key=lambda event: event.frame)),
            tensors=tuple(sorted([*kept_tensors, *moved_tensors], key=lambda tensor: tensor.frame)),
            columns=self.columns.with_rows(rows, part.columns, frames=len(self)),
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
        """The pixels; read-only (`surface.writable()` gives a copy to draw on)."""
        return self.frame.surface.shared()

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

    def _repr_png_(self) -> bytes:
        """The image as PNG, which Jupyter shows."""
        from sightline.media.convert import png_from_rgb

        return png_from_rgb(self.rgb())
