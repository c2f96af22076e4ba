"""How fast predicted boxes get worse, measured on the frames that the detector sees."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

_USUAL_SLOPE = 0.5
"""Overlap that predictions are expected to lose a second until it is measured: walking people lose about as much."""
_USUAL_SECONDS = 2.0
"""It counts as much as one object over so many seconds without a run, and again when measurements are forgotten."""
_LEAST_SLOPE = 0.01
_MEMORY_SECONDS = 20.0


@dataclass(slots=True)
class _Sums:
    """Sums of measurements, which are forgotten exponentially."""

    count: float = 0.0
    seconds: float = 0.0
    disagreement: float = 0.0

    def add(self, seconds: float, disagreement: float, *, weight: float) -> None:
        self.count += weight
        self.seconds += seconds * weight
        self.disagreement += disagreement * weight

    def fade(self, kept: float) -> None:
        self.count *= kept
        self.seconds *= kept
        self.disagreement *= kept


class PredictionLoss:
    """The overlap that predicted boxes lose a second, from the last 20 seconds of a stream.

    Each run of the detector measures how much the boxes that were predicted differ from those that are found. After one
    frame that is the detector's own trembling; what is more after a longer gap without a run is what predicting costs.
    Without measurements, a usual value counts.

    >>> loss = PredictionLoss()
    >>> for number in range(400):
    ...     gap = 0.04 * (1 + number % 5)
    ...     loss.add(gap, 0.1 + 0.2 * gap, frame_seconds=0.04)
    >>> round(loss.slope, 1)
    0.2
    """

    def __init__(self) -> None:
        self._next_frame = _Sums()
        self._after_gap = _Sums()

    def add(self, gap_seconds: float, disagreement: float, *, frame_seconds: float, objects: float = 1.0) -> None:
        """Take a measurement of so many objects: one minus their mean overlap, so long after the run before."""
        kept = exp(-max(0.0, gap_seconds) / _MEMORY_SECONDS)
        self._next_frame.fade(kept)
        self._after_gap.fade(kept)
        if gap_seconds < 1.5 * frame_seconds:
            self._next_frame.add(0.0, disagreement, weight=objects)
        else:
            self._after_gap.add(gap_seconds - frame_seconds, disagreement, weight=objects)

    @property
    def neighbours(self) -> float:
        """How many objects were measured after one frame; they are forgotten as time passes."""
        return self._next_frame.count

    @property
    def slope(self) -> float:
        """Overlap lost a second."""
        near, far = self._next_frame, self._after_gap
        if not near.count or not far.count:
            return _USUAL_SLOPE
        lost = far.disagreement - far.count * near.disagreement / near.count
        return max(_LEAST_SLOPE, (lost + _USUAL_SECONDS * _USUAL_SLOPE) / (far.seconds + _USUAL_SECONDS))

    def interval_seconds(self, max_loss: float, *, frame_seconds: float) -> float:
        """Return the interval of runs at which the mean frame loses `max_loss`.

        A frame that is `t` after a run loses `slope * t`, so frames at 0, 1, ... n - 1 lose half of what the last one
        does.
        """
        return frame_seconds + 2 * max_loss / self.slope
