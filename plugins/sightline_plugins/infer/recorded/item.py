"""One object of a recording, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media.shapes import Mask
from sightline_plugins.sinks.records import Attribute

LARGEST_CLASS = 65_535


@dataclass(slots=True, eq=False)
class RecordedObject:
    """One line of a recording, `frame` counted from 0 and `xyxy` in pixels; checked when it is made.

    `parent` is the object it was found on. `keypoints` (K, 3), `corners` (4, 2), `mask` and `embedding` (D,) are as
    `Objects` has them. Raises ValueError that says what is wrong and what is allowed.
    """

    frame: int
    xyxy: tuple[float, float, float, float]
    label: str
    confidence: float = 1.0
    class_id: int | None = None
    track_id: int = -1
    attributes: dict[str, Attribute] | None = None
    parent: RecordedObject | None = None
    keypoints: npt.NDArray[np.float32] | None = None
    corners: npt.NDArray[np.float32] | None = None
    mask: Mask | None = None
    embedding: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        left, top, right, bottom = self.xyxy
        if self.frame < 0:
            raise ValueError(f"there is no frame {self.frame}: the first is 0 (1 in MOT text)")
        if not np.isfinite((*self.xyxy, self.confidence)).all():
            raise ValueError("a number is infinite or not a number")
        if right < left or bottom < top:
            raise ValueError(f"the box [{left:g}, {top:g}, {right:g}, {bottom:g}] has a negative width or height")
        if self.class_id is not None and not 0 <= self.class_id <= LARGEST_CLASS:
            raise ValueError(f"class_id is {self.class_id}: it must be from 0 to {LARGEST_CLASS}")
