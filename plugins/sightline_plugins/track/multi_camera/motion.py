"""Positions and velocities of objects on the floor: a Kalman filter over columns of tracks.

Velocity is an Ornstein-Uhlenbeck process: it persists for some seconds and is then forgotten. So one model covers the
time between two frames and the gap between the views of two cameras (D. T. Gillespie, "Exact numerical simulation of
the Ornstein-Uhlenbeck process and its integral", 1996). A state is (X, Y, velocity X, velocity Y) in metres, seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

PERSISTENCE_SECONDS = 6.0
"""After this time, an object keeps a third of its velocity on average."""
SPEEDS_BELOW_MAX = 2.5
"""The maximum speed in standard deviations of each component of the velocity."""
_MOST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class FloorMotion:
    """How objects move: no faster than `max_speed` metres a second, anywhere on `area_m2` square metres."""

    max_speed: float
    area_m2: float

    @property
    def speed_variance(self) -> float:
        """Variance of each component of the velocity of an object about which nothing is known."""
        return (self.max_speed / SPEEDS_BELOW_MAX) ** 2

    def begin(self, points: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return states (N, 4) and covariances (N, 4, 4) of objects first seen at points (N, 2)."""
        states = np.zeros((len(points), 4))
        states[:, :2] = points
        covariances = np.zeros((len(points), 4, 4))
        covariances[:, :2, :2] = noise
        covariances[:, [2, 3], [2, 3]] = self.speed_variance
        return states, covariances

    def predict(self, states: Floats, covariances: Floats, seconds: Floats) -> tuple[Floats, Floats]:
        """Return states and covariances after `seconds` (N,); a time in the past is as uncertain as one to come."""
        dt = np.minimum(np.abs(seconds), _MOST_SECONDS)
        tau, variance = PERSISTENCE_SECONDS, self.speed_variance
        keep = np.exp(-dt / tau)
        reach = tau * (1 - keep)
        transition = np.zeros((len(states), 4, 4))
        transition[:, [0, 1, 2, 3], [0, 1, 2, 3]] = np.stack([np.ones_like(dt), np.ones_like(dt), keep, keep], axis=1)
        transition[:, [0, 1], [2, 3]] = np.where(seconds < 0, -dt, reach)[:, None]
        after = (transition @ states[:, :, None])[:, :, 0]
        spread = transition @ covariances @ transition.transpose(0, 2, 1)
        diffused = np.maximum(variance * tau**2 * (2 * dt / tau - 3 + 4 * keep - keep**2), 0)
        shared = variance * tau * (1 - keep) ** 2
        spread[:, [0, 1], [0, 1]] += diffused[:, None]
        spread[:, [2, 3], [2, 3]] += (variance * (1 - keep**2))[:, None]
        spread[:, [0, 1, 2, 3], [2, 3, 0, 1]] += shared[:, None]
        return after, spread

    def update(self, states: Floats, covariances: Floats, points: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return states and covariances after measurements at points (N, 2) with covariances (N, 2, 2)."""
        gain = covariances[:, :, :2] @ np.linalg.inv(covariances[:, :2, :2] + noise)
        states = states + (gain @ (points - states[:, :2])[:, :, None])[:, :, 0]
        covariances = covariances - gain @ covariances[:, :2, :]
        return states, (covariances + covariances.transpose(0, 2, 1)) / 2

    def log_ratio(self, states: Floats, covariances: Floats, others: Floats, other_covariances: Floats) -> Floats:
        """Return the log-likelihood ratio (N,) of "the same object" against "an object from anywhere".

        `states` are those of the new tracks, `others` are known objects predicted to the same time.
        """
        difference = states - others
        total = covariances + other_covariances
        distance = np.einsum("ni,ni->n", difference, np.linalg.solve(total, difference[:, :, None])[:, :, 0])
        same = -0.5 * (distance + np.linalg.slogdet(total)[1]) - 2 * np.log(2 * np.pi)
        velocity = covariances[:, 2:, 2:] + self.speed_variance * np.eye(2)
        speed = np.einsum("ni,ni->n", states[:, 2:], np.linalg.solve(velocity, states[:, 2:, None])[:, :, 0])
        anywhere = -0.5 * (speed + np.linalg.slogdet(velocity)[1]) - np.log(2 * np.pi) - np.log(self.area_m2)
        ratio: Floats = same - anywhere
        return ratio
