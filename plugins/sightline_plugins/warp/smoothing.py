"""A smooth path along one that shakes, from what has come so far.

Each coordinate is followed by a fading-memory filter of the first degree (Morrison, "Introduction to Sequential
Smoothing and Prediction", 1969), which is the critically damped alpha-beta filter: it knows a position and a velocity,
so that a steady pan is followed without lag, and forgets with a time constant, whatever the frame rate. The time
constant shrinks as the paths part, so that the beginning of a pan is followed before the limit is reached, where all
shaking would be seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_SHORTEST = 0.1
"""The smallest share of the time constant."""


class SmoothPath:
    """The smooth path of K coordinates. `seconds` is the time constant; no coordinate is farther from the path that
    shakes than its entry of `limits` (K,). It begins at 0, at rest.
    """

    def __init__(self, *, seconds: float, limits: npt.ArrayLike) -> None:
        self._seconds = seconds
        self.limits: Floats = np.asarray(limits, np.float64)
        self.position: Floats = np.zeros(len(self.limits))
        self._velocity: Floats = np.zeros(len(self.limits))

    def follow(self, measured: npt.NDArray[np.floating[Any]], *, seconds: float) -> Floats:
        """Return the smooth position (K,) that belongs to the measured one, so long after the last."""
        expected = self.position + self._velocity * seconds
        wrong = measured - expected
        parted = np.minimum(np.abs(wrong) / self.limits, 1)
        kept = np.exp(-seconds / (self._seconds * np.maximum(1 - parted * parted, _SHORTEST)))
        self._velocity = self._velocity + (1 - kept) ** 2 / seconds * wrong
        smooth = expected + (1 - kept * kept) * wrong
        self.position = measured + np.clip(smooth - measured, -self.limits, self.limits)
        return self.position
