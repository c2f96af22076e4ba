"""The speed of tracks on the ground, with its uncertainty: positions in, a straight line through them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline_plugins.native import DOUBLE, POINTER, SIZE, function, pointer
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.ground import GroundPlane
from sightline_plugins.rules.track_table import Ids, Indices

SAMPLES = 32
"""Positions of a track that are kept for the window: of more frames, as many are used that are about evenly apart.
`SAMPLES` of speed_fit.c."""
LEAST_SAMPLES = 4
_LEAST_NOISE = 12**-0.5
"""The deviation of a box's edges in pixels is at least that of rounding to whole ones."""
_PRIOR_DEGREES = 4
"""As many degrees of freedom the measured noise of the box counts beside those of the residuals."""
_SLOW = 4.0
"""A speed below the square root of so many variances has no direction that is known."""
_QUANTILE = 2.241403
"""That of 98.75 % of the normal distribution, so that noise that is not quite normal leaves 95 % between both."""
_SHORT = 100
"""So many tracks take about 50 microseconds: for more the GIL is released."""
_fit_speeds = {
    is_long: function("fit_speeds", *[SIZE] * 3, *[POINTER] * 9, *[DOUBLE] * 4, POINTER, POINTER, long=is_long)
    for is_long in (False, True)
}


@dataclass(frozen=True, slots=True, eq=False)
class Grounds:
    """The grounds of Z areas, and how much of the positions on them counts.

    columns     float64 (Z, 11)  `Ground` of speed_fit.c
    window_ns   int64 (Z,)       over how much time a speed is measured
    longest_ns  int64 (Z,)       how long that may become to hold `LEAST_SAMPLES`
    depth       float64 (Z, 4)   the last row of each homography, and the depth above which points are used
    """

    columns: Floats
    window_ns: Ids
    longest_ns: Ids
    depth: Floats

    @classmethod
    def of(cls, planes: Sequence[GroundPlane], *, anchors: Floats, window_ns: Ids, longest_ns: Ids) -> Grounds:
        """Take the planes of areas, and where the anchor lies in a box (Z, 2)."""
        matrices = np.stack([plane.matrix for plane in planes]).reshape(-1, 9)
        spread = (1 - anchors) ** 2 + anchors**2
        least = np.array([[plane.least_depth] for plane in planes])
        depth = np.concatenate([matrices[:, 6:], least], axis=1)
        return cls(np.concatenate([matrices, spread], axis=1), window_ns, longest_ns, depth)

    def hold(self, area: Indices, points: Floats) -> Mask:
        """Return whether points (N, 2) in pixels are on the ground of areas (N,), and not too far away to say where."""
        x, y, one, least = self.depth[area].T
        held: Mask = points[:, 0] * x + points[:, 1] * y + one > least
        return held

    def places(self, area: Indices, points: Floats) -> Floats:
        """Return where points (N, 2) in pixels, on the ground of areas (N,), are in metres (N, 2)."""
        rows = self.columns[area, :9].reshape(-1, 3, 3)
        mapped = rows[:, :, 0] * points[:, :1] + rows[:, :, 1] * points[:, 1:] + rows[:, :, 2]
        places: Floats = mapped[:, :2] / mapped[:, 2:]
        return places


def fit_speeds(
    rows: Indices,
    area: Indices,
    *,
    counts: Ids,
    times_ns: Ids,
    points: Floats,
    grounds: Grounds,
    noise: Floats,
    now_ns: int,
) -> tuple[Floats, Floats]:
    """Return the speeds (N,) of tracks in metres a second, and their uncertainties (N,): the true speed differs by less
    in at least 95 of 100 cases. Both are NaN where there are too few positions, or only in less than half a window.

    The tracks are in rows (N,) of a table, each in an area (N,). Its columns are C-contiguous: `counts` (R,) of the
    positions that there were so far, `times_ns` (R, SAMPLES) and `points` (R, SAMPLES, 2) in pixels of the latest, each
    at its number modulo `SAMPLES`, the newest of them from now. Positions in the window are used, or the last
    `LEAST_SAMPLES` where frames come too slowly for it; all of them are on the ground.

    A uniform motion on the ground is fitted by generalised least squares: a position counts the less, the more metres a
    pixel has there, and in that direction. The deviation of a pixel is that of the residuals, or that of the box
    (`noise` (N,)) where few residuals say less. The uncertainty is the deviation of the speed times a quantile of
    Student's t; it knows nothing of an error in the ground's points.
    """
    speed, uncertainty = np.empty(len(rows)), np.empty(len(rows))
    if len(rows):
        numbers = np.ascontiguousarray(rows, np.int64), np.ascontiguousarray(area, np.int64)
        deviations = np.ascontiguousarray(noise, np.float64)
        _fit_speeds[len(rows) > _SHORT](
            len(rows),
            now_ns,
            LEAST_SAMPLES,
            *map(pointer, numbers),
            pointer(counts),
            pointer(times_ns),
            pointer(points),
            pointer(grounds.columns),
            pointer(grounds.window_ns),
            pointer(grounds.longest_ns),
            pointer(deviations),
            _PRIOR_DEGREES,
            _LEAST_NOISE**2,
            _SLOW,
            _QUANTILE,
            pointer(speed),
            pointer(uncertainty),
        )
    return speed, uncertainty
