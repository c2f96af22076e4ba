"""How overlapping boxes are suppressed: the options that all implementations share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Method = Literal["hard", "soft", "fusion", "none"]
Decay = Literal["gaussian", "linear"]

MAX_CANDIDATES = 10_000


@dataclass(frozen=True, slots=True)
class NmsOptions:
    """How overlapping boxes are suppressed, class by class, or among all classes when `class_agnostic`.

    `hard`    of two boxes that overlap by more than `iou` the less confident is dropped (1: none is)
    `soft`    it loses confidence instead: by `exp(-overlap ** 2 / sigma)` with the decay `gaussian`, by
              `1 - overlap` with `linear`, there only above `iou`
    `fusion`  boxes that overlap by more than `iou` become one, their mean weighted by confidence
    `none`    all stay

    At most `max_detections` stay, the most confident ones.
    """

    iou: float = 0.45
    class_agnostic: bool = False
    max_detections: int = 300
    method: Method = "hard"
    decay: Decay = "gaussian"
    sigma: float = 0.5
