"""Read confidences relative to those that a detector gives to objects that it finds steadily.

One detector gives 0.98 to every object that is in full view, another one 0.5, and thresholds that fit the one make the
other useless. What a detector usually gives is learned from the detections of confirmed tracks: it is the running
median of their confidences. A detection as sure as that has a certainty of 0.95, others in proportion.
"""

from __future__ import annotations

import math

import numpy as np

from sightline_plugins.track.tracks import Floats

USUAL = 0.95
"""Certainty of a detection of the usual confidence."""
_LEAST = 0.2
"""Usual confidences below count as this, so that noise is not made sure."""
_MEMORY_SECONDS = 2.0


class CertaintyScale:
    """Knows the confidence that is usual in one stream; before anything was tracked, it is the highest seen."""

    def __init__(self) -> None:
        self._usual: float | None = None

    def __call__(self, confidence: Floats) -> Floats:
        """Return the certainty of detections (N,), 0 to 1."""
        if self._usual is None and len(confidence) and (highest := float(confidence.max())) > 0:
            self._usual = highest
        if self._usual is None or self._usual >= USUAL:
            return confidence
        certainty: Floats = np.minimum(confidence * np.float32(USUAL / max(self._usual, _LEAST)), np.float32(1))
        return certainty

    def learn(self, confidence: Floats, *, elapsed_seconds: float) -> None:
        """Take account of the confidences (N,) of detections that belong to confirmed tracks."""
        if self._usual is None or not len(confidence):
            return
        median = float(np.sort(confidence)[len(confidence) // 2])
        self._usual += (1 - math.exp(-elapsed_seconds / _MEMORY_SECONDS)) * (median - self._usual)
