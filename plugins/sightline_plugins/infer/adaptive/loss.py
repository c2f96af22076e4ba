"""How fast predicted boxes get worse, measured on the frames that the detector sees."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

_USUAL_SLOPE = 0.5
"""Overlap that predictions are expected to lose a second until it is measured: walking people lose about as much."""
_USUAL_SECONDS = 0.25
"""It counts as much as measurements over so many seconds without a run."""
_LEAST_SLOPE = 0.01
_MEMORY_SECONDS = 20.0


@dataclass(slots=True)
class _Sums:
    """Sums of measurements, which are forgotten exponentially."""

    count: float = 0.0
    seconds: float = 0.0
    disagreement: float = 0.0

    def add(self, seconds: float, disagreement: float, *, kept: float) -> None:
        self.count = self.count * kept + 1
        self.seconds = self.seconds * kept + seconds
        self.disagreement = self.disagreement * kept + disagreement


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
    >>> round(loss.interval_seconds(0.01, frame_seconds=0.04), 2)
    0.14
    """

    def __init__(self) -> None:
        self._next_frame = _Sums()
        self._after_gap = _Sums()

    def add(self, gap_seconds: float, disagreement: float, *, frame_seconds: float) -> None:
        """Take a measurement: one minus the mean overlap, so long after the run before."""
        kept = exp(-max(0.0, gap_seconds) / _MEMORY_SECONDS)
        if gap_seconds < 1.5 * frame_seconds:
            self._next_frame.add(0.0, disagreement, kept=kept)
        else:
            self._after_gap.add(gap_seconds - frame_seconds, disagreement, kept=kept)

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
