"""Events, overlays and tensors: what steps attach to frames beside objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media.arrays import read_only

Scalar = str | int | float | bool


class Part(Enum):
    """What an event is of what happened: all of it, or the beginning or the end of something that lasts."""

    MOMENT = "moment"
    BEGIN = "begin"
    END = "end"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a rule says happened on one frame.

    `frame` is the row of the frame in its batch, like `Objects.frame`. `data` holds what the kind of event adds
    (`direction`, `track_id`, `dwell_seconds`, ...), in the order in which it is written. `step` is the id of the step
    whose rule it is, where that says so. `part` marks the two events of something that lasts, and `subject` tells
    several that last at once apart (a track, for instance).
    """

    kind: str
    rule: str
    frame: int
    data: Mapping[str, Scalar] = field(default_factory=dict)
    step: str = ""
    part: Part = Part.MOMENT
    subject: int = -1

    def to_json(self) -> dict[str, Scalar]:
        """The event as plain data, as JSON lines hold it."""
        return {"kind": self.kind, "rule": self.rule, **self.data}


@dataclass(frozen=True, slots=True)
class Alarm:
    """An event that waits to be verified: it is not among the events of its batch until a step has put it there.

    `event.frame` means nothing. `now_ns` is the time of its frame by the clock of its rule. `options` are the
    `RuleOptions` of its rule, which say how it is verified.
    """

    event: Event
    now_ns: int
    options: object


@dataclass(frozen=True, slots=True)
class Overlay:
    """A rule's shape and its running counts, for drawing: `points` are (x, y) in pixels of the image."""

    kind: Literal["line", "zone"]
    name: str
    points: tuple[tuple[float, float], ...]
    counts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Arrows:
    """Arrows over a frame, for drawing: `ends` float32 (N, 4) are x, y of the tail and of the tip, in pixels of it.
    Those that show a forbidden way have another colour.
    """

    ends: npt.NDArray[np.float32]
    is_forbidden: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class HeatLayer:
    """A grid of levels over the whole frame, for drawing: `levels` uint8 (rows, columns). What has the level 0 is left
    as it is; the hottest, 255, is covered by its colour to the share `opacity`. Nobody writes to the array.
    """

    levels: npt.NDArray[np.uint8]
    opacity: float


Graphic: TypeAlias = Arrows | HeatLayer
"""What is drawn over a frame that is no rule's shape and counts nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One output of a model for one frame.

    `frame` is the row of the frame in its batch, `element` the step that kept it, `name` the output's name in the
    model. `values` are as the model gave them, without the batch dimension; nobody writes to them.
    """

    frame: int
    element: str
    name: str
    values: npt.NDArray[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", read_only(self.values))
