"""Constant-velocity Kalman filters for boxes, one step for each frame, in closed form; `frame_filters.c` computes.

The trackers of the literature differ in the coordinates of a box that they filter and in the noise that they assume.
In all of them the noise matrices are diagonal, so the coordinates do not influence each other, and the covariance of a
track is a symmetric 2 x 2 matrix (position, velocity) for each coordinate, or one for all where the noise is equal.

Columns over N tracks, float64:

    mean        (N, 2, 4)   the four coordinates, and how much each changes from one frame to the next
    covariance  (N, 3, C)   variance of position, covariance of both, variance of velocity; C is 4, or 1 for all four
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes, xyxy_from_cxcywh
from sightline_plugins.native import DOUBLE, POINTER, SIZE, described, description, function, pointer

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

SMALLEST_SIDE = 1e-3
"""Width and height, in pixels, that a filtered box keeps at least."""
_NO_DIVISION_BY_ZERO = 1e-6
_move_filters = function("move_filters", POINTER, POINTER, POINTER, SIZE, POINTER, SIZE, DOUBLE)
_correct_rows = function("correct_rows", POINTER, POINTER, POINTER, SIZE, POINTER, POINTER, SIZE, DOUBLE)


class Motion(ABC):
    """A filter: its coordinates, and its noise."""

    noise_columns: ClassVar[int] = 4
    """How many columns a covariance has: C."""
    least_side: ClassVar[float] = -np.inf
    """What the last two coordinates keep at least."""

    @abstractmethod
    def measured(self, xyxy: Boxes) -> Floats:
        """Return boxes (N, 4) in the coordinates of the filter (N, 4)."""

    @abstractmethod
    def boxes(self, position: Floats) -> Boxes:
        """Return positions (N, 4), in the coordinates of the filter, as boxes (N, 4)."""

    @abstractmethod
    def initial_covariance(self, position: Floats) -> Floats:
        """Return the covariance (N, 3, C) of tracks that begin at these positions (N, 4)."""

    @abstractmethod
    def process_noise(self, position: Floats) -> Floats:
        """Return the variance that position and velocity gain in a frame, (N, 2, C) or (1, 2, C)."""

    @abstractmethod
    def measurement_noise(self, position: Floats) -> Floats:
        """Return the variance of a detection, (N, C) or (1, C), for tracks expected at these positions."""

    def initiate(self, xyxy: Boxes) -> tuple[Floats, Floats]:
        """Return mean and covariance of tracks that begin at these boxes (N, 4), with velocity 0."""
        position = self.measured(xyxy)
        return np.stack([position, np.zeros_like(position)], axis=1), self.initial_covariance(position)

    def predict(self, mean: Floats, covariance: Floats, rows: Indices | None = None) -> None:
        """Move tracks by one frame, in place: all, or those in `rows`."""
        gained = np.ascontiguousarray(self.process_noise(mean[:, 0] if rows is None else mean[rows, 0]))
        means, covariances = described(mean), described(covariance)
        _move_filters(
            description(means),
            description(covariances),
            None if rows is None else pointer(rows),
            len(mean) if rows is None else len(rows),
            pointer(gained),
            len(gained),
            self.least_side,
        )

    def correct(self, mean: Floats, covariance: Floats, rows: Indices, position: Floats) -> None:
        """Correct the tracks in `rows`, in place, by detections at these positions (K, 4), as the filter has them."""
        noise = np.ascontiguousarray(self.measurement_noise(mean[rows, 0]))
        means, covariances = described(mean), described(covariance)
        _correct_rows(
            description(means),
            description(covariances),
            pointer(rows),
            len(rows),
            pointer(np.ascontiguousarray(position)),
            pointer(noise),
            len(noise),
            self.least_side,
        )


@dataclass(frozen=True)
class CornerMotion(Motion):
    """Filter of the corners `xyxy`, in pixels; the same noise for every coordinate and every box."""

    noise_columns: ClassVar[int] = 1
    initial: tuple[float, float] = (1.0, 1.0)
    """Variance of position and velocity of a new track."""
    process: tuple[float, float] = (0.01, 0.01)
    """Variance that position and velocity gain in a frame."""
    measurement: float = 0.1
    """Variance of a detection."""

    def measured(self, xyxy: Boxes) -> Floats:
        """Return the corners."""
        return xyxy.astype(np.float64)

    def boxes(self, position: Floats) -> Boxes:
        """Return the corners."""
        return position.astype(np.float32)

    def initial_covariance(self, position: Floats) -> Floats:
        """Return the same covariance for every track (N, 3, 1)."""
        return np.tile(np.array([self.initial[0], 0.0, self.initial[1]])[:, None], (len(position), 1, 1))

    def process_noise(self, position: Floats) -> Floats:
        """Return the same noise for all (1, 2, 1)."""
        del position
        return np.array(self.process)[None, :, None]

    def measurement_noise(self, position: Floats) -> Floats:
        """Return the same noise for all (1, 1)."""
        del position
        return np.array([[self.measurement]])


class AreaMotion(Motion):
    """Filter of centre, area and aspect ratio, of which the last does not change.

    As in SORT's and OC-SORT's published code: noise in pixels, the same for every box.
    """

    INITIAL: ClassVar[Floats] = np.array([[10.0, 10.0, 10.0, 10.0], [0, 0, 0, 0], [1e4, 1e4, 1e4, 0]])
    PROCESS: ClassVar[Floats] = np.array([[[1.0, 1.0, 1.0, 1.0], [0.01, 0.01, 1e-4, 0]]])
    MEASUREMENT: ClassVar[Floats] = np.array([[1.0, 1.0, 10.0, 10.0]])

    def measured(self, xyxy: Boxes) -> Floats:
        """Return centre, area, and width by height."""
        corners = xyxy.astype(np.float64)
        sides = np.maximum(corners[:, 2:] - corners[:, :2], 0)
        ratio = sides[:, 0] / (sides[:, 1] + _NO_DIVISION_BY_ZERO)
        return np.column_stack([(corners[:, :2] + corners[:, 2:]) / 2, sides.prod(axis=1), ratio])

    def boxes(self, position: Floats) -> Boxes:
        """Return corners; a box without area is a point."""
        width = np.sqrt(np.maximum(position[:, 2] * position[:, 3], 0))
        height = np.divide(position[:, 2], width, out=np.zeros_like(width), where=width > 0)
        return xyxy_from_cxcywh(np.column_stack([position[:, :2], width, height]).astype(np.float32))

    def initial_covariance(self, position: Floats) -> Floats:
        """Return the same covariance for every track (N, 3, 4)."""
        return np.tile(self.INITIAL, (len(position), 1, 1))

    def process_noise(self, position: Floats) -> Floats:
        """Return the same noise for all (1, 2, 4)."""
        del position
        return self.PROCESS

    def measurement_noise(self, position: Floats) -> Floats:
        """Return the same noise for all (1, 4)."""
        del position
        return self.MEASUREMENT

    def predict(self, mean: Floats, covariance: Floats, rows: Indices | None = None) -> None:
        """Move tracks by one frame, in place; an area that would vanish stays as it is."""
        areas = mean[:, :, 2] if rows is None else mean[rows, :, 2]
        vanishing = (areas.sum(axis=1) <= 0).nonzero()[0]
        mean[vanishing if rows is None else rows[vanishing], 1, 2] = 0
        super().predict(mean, covariance, rows)


class SizeMotion(Motion):
    """Filter of centre, width and height; noise in proportion to the width (x) and the height (y) of the box.

    Aharon et al., "BoT-SORT: Robust Associations Multi-Pedestrian Tracking", 2022, section 3.1.
    """

    least_side: ClassVar[float] = SMALLEST_SIDE
    POSITION: ClassVar[float] = 0.05
    """Standard deviation that position gains in a frame, and that of a detection, as a fraction of the side."""
    VELOCITY: ClassVar[float] = 0.00625
    """Standard deviation that velocity gains in a frame, as a fraction of the side."""

    def measured(self, xyxy: Boxes) -> Floats:
        """Return centre and size."""
        corners = xyxy.astype(np.float64)
        return np.concatenate([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], axis=1)

    def boxes(self, position: Floats) -> Boxes:
        """Return corners."""
        return xyxy_from_cxcywh(position.astype(np.float32))

    def initial_covariance(self, position: Floats) -> Floats:
        """Return covariances (N, 3, 4): position at twice its noise, velocity at ten times."""
        variance = self._side_squared(position)
        position_variance, velocity_variance = (2 * self.POSITION) ** 2, (10 * self.VELOCITY) ** 2
        return np.stack([variance * position_variance, variance * 0, variance * velocity_variance], axis=1)

    def process_noise(self, position: Floats) -> Floats:
        """Return the noise of each track by its size (N, 2, 4)."""
        variance = self._side_squared(position)
        return np.stack([variance * self.POSITION**2, variance * self.VELOCITY**2], axis=1)

    def measurement_noise(self, position: Floats) -> Floats:
        """Return the noise of each track by its size (N, 4)."""
        return self._side_squared(position) * self.POSITION**2

    @staticmethod
    def _side_squared(position: Floats) -> Floats:
        sides = np.maximum(position[:, [2, 3, 2, 3]], SMALLEST_SIDE)
        squared: Floats = sides * sides
        return squared
