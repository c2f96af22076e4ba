"""Constant-velocity Kalman filter for boxes, in closed form over all tracks at once.

The state of a track is its box (centre, width and height) and the velocity of each of the four. They do not influence
each other; the two of the centre share their noise, and so do width and height. So two 2 x 2 covariances (position,
velocity) stand for all: six numbers a track.

Noise is that of a continuous model (position diffuses, velocity diffuses; Bar-Shalom et al., "Estimation with
Applications to Tracking and Navigation", 6.2), so that one step of 100 ms is exactly three of 33.3 ms, and the filter
behaves the same at any frame rate. All noise is in units of a box's size, the square root of its area.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Pair = tuple[float, float]
"""A value for the centre, and one for width and height."""


@dataclass(frozen=True, slots=True)
class MotionModel:
    """Noise of the filter; lengths in box sizes (square root of the area), times in seconds."""

    measurement: Pair = (0.07, 0.025)
    """Standard deviation of a detection of confidence 1."""
    doubt: float = 5.0
    """A detection of confidence c has its variance multiplied by 1 + doubt * (1 - c): low-confidence boxes are often
    cut by what hides the object (the idea of StrongSORT's NSA Kalman filter, Du et al. 2022)."""
    position_diffusion: Pair = (0.002, 0.005)
    """Variance that position gains per second without any motion."""
    velocity_diffusion: Pair = (0.12, 0.005)
    """Variance that velocity gains per second."""
    initial_velocity: Pair = (1.75, 0.3)
    """Standard deviation of the unknown velocity of a new track, box sizes per second."""

    def __post_init__(self) -> None:
        values = (self.doubt, *self.position_diffusion, *self.velocity_diffusion, *self.initial_velocity)
        if min(self.measurement) <= 0 or min(values) < 0:
            raise ValueError(f"motion model: measurement must be above 0 and nothing below 0, got {self}")


class Propagator:
    """Moves means and covariances ahead in time; keeps the matrices of the last step, as frame rates rarely change."""

    def __init__(self, model: MotionModel) -> None:
        self._model = model
        self._dt_seconds: float | None = None
        self._transition = np.eye(3, dtype=np.float32)
        self._diffusion = np.zeros((3, 2, 1), np.float32)

    def predict(self, mean: Floats, covariance: Floats, *, area: Floats, dt_seconds: float) -> Floats:
        """Moves `mean` (2, N, 4) in place and returns the new covariance (3, 2, N): position, both, velocity."""
        if dt_seconds != self._dt_seconds:
            self._prepare(dt_seconds)
        mean[0] += mean[1] * dt_seconds
        moved: Floats = (self._transition @ covariance.reshape(3, -1)).reshape(covariance.shape)
        moved += self._diffusion * area
        return moved

    def _prepare(self, dt: float) -> None:
        q_position, q_velocity = np.array([self._model.position_diffusion, self._model.velocity_diffusion])
        self._transition = np.array([[1, 2 * dt, dt * dt], [0, 1, dt], [0, 0, 1]], np.float32)
        diffusion = [q_position * dt + q_velocity * dt**3 / 3, q_velocity * dt**2 / 2, q_velocity * dt]
        self._diffusion = np.array(diffusion, np.float32)[:, :, None]
        self._dt_seconds = dt


def initiate(box: Floats, *, area: Floats, model: MotionModel) -> tuple[Floats, Floats]:
    """Return mean (2, N, 4) and covariance (3, 2, N) of tracks that start at these boxes (N, 4: centre, width, height),
    with velocity unknown.
    """
    mean = np.stack([box, np.zeros_like(box)])
    variances = np.array([model.measurement, (0, 0), model.initial_velocity], np.float32) ** 2
    return mean, variances[:, :, None] * area


def correct(
    mean: Floats, covariance: Floats, *, box: Floats, confidence: Floats, area: Floats, model: MotionModel
) -> tuple[Floats, Floats]:
    """Return mean (2, N, 4) and covariance (3, 2, N) after seeing the boxes (N, 4) of these areas and confidences."""
    variance = np.array(model.measurement, np.float32)[:, None] ** 2
    noise = variance * ((1 + model.doubt - model.doubt * confidence) * area).astype(np.float32, copy=False)
    gain = covariance[:2] / (covariance[0] + noise)
    moved = mean + gain.repeat(2, axis=1).transpose(0, 2, 1) * (box - mean[0])
    narrowed = covariance.copy()
    narrowed[0] -= gain[0] * covariance[0]
    narrowed[1:] -= gain * covariance[1]
    return moved, narrowed


def expected_overlap(box: Floats, covariance: Floats) -> Floats:
    """Return the intersection over union (N,) of boxes (N, 4: centre, width and height) with themselves, moved by one
    standard deviation of their centre; `covariance` is (3, 2, N).
    """
    size = np.maximum(box[:, 2:], 0)
    shared = np.maximum(size - np.sqrt(covariance[0, 0])[:, None], 0).prod(axis=1)
    overlap: Floats = shared / np.maximum(2 * size.prod(axis=1) - shared, np.float32(1e-6))
    return overlap
