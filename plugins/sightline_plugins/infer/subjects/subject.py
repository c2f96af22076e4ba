"""A subject: one thing that a model is run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sightline.media import Batch, Stream
from sightline.media.boxes import Boxes
from sightline_plugins.infer.subjects.memory import Slot
from sightline_plugins.pixels.placement import Placement
from sightline_plugins.pixels.stacks import Stack


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A part of a frame that a model sees.

    `row` is the frame's in the batch, `placement` says which part of its picture, `object` is the row of the object
    that it shows (-1: none), and `slot` keeps what is known of that object's track (None: nothing is kept). `due` says
    whether the model is run, or what the slot knows is used again. `stack` takes the picture, and is what the model is
    run on (None: on the picture alone).
    """

    row: int
    placement: Placement
    object: int = -1
    slot: Slot[Any] | None = None
    due: bool = True
    stack: Stack | None = None

    @property
    def is_seen(self) -> bool:
        """Whether its picture is needed: by the model now, or by the stack."""
        return self.due or self.stack is not None


class Subjects(Protocol):
    """Chooses what a model is run on. Kept by one operator; state per stream is dropped by `end_stream`."""

    def of(self, batch: Batch) -> list[Subject]:
        """The subjects of a batch, in order of frames."""
        ...

    def end_stream(self, stream: Stream) -> None:
        """The stream has ended."""
        ...


def region_of(subject: Subject, size_wh: tuple[int, int]) -> Boxes:
    """The upright box (4,) of what a subject shows, in pixels of the picture, cut to it."""
    width, height = size_wh
    left, top, right, bottom = subject.placement.region_xyxy
    return np.clip(np.array([left, top, right, bottom], np.float32), 0, [width, height, width, height]).astype(
        np.float32
    )
