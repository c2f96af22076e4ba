"""Measure how much the boxes of tracks tremble, so that a shape's edge can be as wide as that."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline_plugins.native import DOUBLE, POINTER, SIZE, function, pointer
from sightline_plugins.rules.track_table import TrackTable

Floats = npt.NDArray[np.float64]

_WEIGHT = 0.2
_LARGEST_STEP, _FIRST_STEP = 3.0, 0.1
"""What a turn adds is bounded: by so many times the present mean, and so many pixels."""
_PER_DEVIATION = 1.954
"""Mean size of the second difference of positions with noise of deviation 1: sqrt(6) * sqrt(2 / pi)."""
_UNEVEN = 1.2
_COLUMNS = 11
"""Of a track: its last box, its last step, the duration of that, the mean second difference, and when it was seen."""
_measure_noise = function("measure_noise", SIZE, *[POINTER] * 4, *[DOUBLE] * 5, POINTER, POINTER)


class BoxNoise:
    """Keeps the noise of each track of one stream: the standard deviation of its box's edges, in pixels.

    It is measured by the second difference of the edges, which steady motion does not change; turns count little.
    """

    def __init__(self) -> None:
        self._tracks = TrackTable({"motion": np.zeros(_COLUMNS)})

    def update(self, tracks: TrackedObjects) -> Floats:
        """Take the boxes of the next frames; return the noise of each of them (N,)."""
        count = len(tracks)
        noise = np.zeros(count)
        if count:
            times = tracks.pts_ns[tracks.frame]
            rows, fresh = self._tracks.see(tracks.track_id, times)
            xyxy = np.ascontiguousarray(tracks.xyxy, np.float32)
            _measure_noise(
                count,
                pointer(xyxy),
                pointer(rows),
                pointer(fresh),
                pointer(times),
                _WEIGHT,
                _LARGEST_STEP,
                _FIRST_STEP,
                _UNEVEN,
                _PER_DEVIATION,
                pointer(self._tracks["motion"]),
                pointer(noise),
            )
        return noise

    def save(self) -> Saved:
        """Return what is known of each track."""
        return self._tracks.save()

    def restore(self, saved: Saved) -> None:
        """Go on with what was known in another process."""
        self._tracks.restore(saved)

    def clear(self) -> None:
        """Forget all tracks."""
        self._tracks.clear()
