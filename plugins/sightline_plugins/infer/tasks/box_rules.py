"""Which boxes become objects, and what a GPU leaves of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline_plugins.infer.heads.findings import Candidates
from sightline_plugins.nms import NmsOptions


@dataclass(frozen=True, slots=True, eq=False)
class BoxRules:
    """Which candidates become objects.

    `limits` (classes + 1,) holds the least confidence for each class, the last one for classes beyond; `confidence` is
    the least of them. `wanted` (classes + 1,) says which classes become objects, None for all.
    """

    nms: NmsOptions
    confidence: float
    limits: npt.NDArray[np.float32]
    wanted: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True, eq=False)
class Suppressed:
    """What is left of one picture's boxes where a GPU has decoded and suppressed them.

    `candidates` are above their limits, in pixels of the network's input; `found` is how many there were before
    suppression, `invalid` how many others were no finite numbers.
    """

    candidates: Candidates
    found: int
    invalid: int
