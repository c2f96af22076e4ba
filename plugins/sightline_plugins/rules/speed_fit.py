"""The speed of tracks on the ground, with its uncertainty: positions in, a straight line through them out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.ground import GroundPlane

LEAST_SAMPLES = 4
_LEAST_NOISE = 12**-0.5
"""The deviation of a box's edges in pixels is at least that of rounding to whole ones."""
_PRIOR_DEGREES = 4
"""As many degrees of freedom the measured noise of the box counts beside those of the residuals."""
_SLOW = 4.0
"""A speed below the square root of so many variances has no direction that is known."""
_QUANTILE = 2.241403
"""That of 98.75 % of the normal distribution, so that noise that is not quite normal leaves 95 % between both."""


@dataclass(frozen=True, slots=True, eq=False)
class Speeds:
    """Speeds of N tracks in metres a second; the true one is within `uncertainty` in at least 95 of 100 cases."""

    speed: Floats
    uncertainty: Floats


def fit_speeds(
    seconds: Floats, points: Floats, used: Mask, *, plane: GroundPlane, noise: Floats, anchor: Floats
) -> Speeds:
    """Return the speeds of N tracks that were at points (N, K, 2) in pixels at times (N, K), where `used` (N, K).

    A uniform motion on the ground is fitted by generalised least squares: a position counts the less, the more metres a
    pixel has there, and in that direction. The deviation of a pixel is that of the residuals, or that of the box
    (`noise` (N,)) where few residuals say less. `anchor` (2,) is how the anchor lies in the box. The uncertainty is the
    deviation of the speed times a quantile of Student's t; it knows nothing of an error in the ground's points.

    Every track uses `LEAST_SAMPLES` positions at least, all of them on the ground.
    """
    safe = np.where(used[..., None], points, points[np.arange(len(points)), used.argmax(axis=1)][:, None])
    places = plane.places(safe)
    weights = _weights(plane.slopes(safe, places), anchor) * used[..., None, None]
    origin = places.mean(axis=1, keepdims=True)
    places = places - origin
    pull = (weights @ places[..., None])[..., 0]

    normal = np.empty((len(points), 4, 4))
    moments = [np.einsum("nk,nkij->nij", seconds**power, weights) for power in range(3)]
    normal[:, :2, :2], normal[:, 2:, 2:] = moments[0], moments[2]
    normal[:, :2, 2:] = normal[:, 2:, :2] = moments[1]
    right = np.concatenate([pull.sum(axis=1), (seconds[..., None] * pull).sum(axis=1)], axis=1)
    inverse = np.linalg.inv(normal)
    solved = (inverse @ right[..., None])[..., 0]
    velocity, covariance = solved[:, 2:], inverse[:, 2:, 2:]

    residuals = places - solved[:, None, :2] - seconds[..., None] * velocity[:, None]
    squares = np.einsum("nki,nkij,nkj->n", residuals, weights, residuals)
    degrees = 2.0 * used.sum(axis=1) - 4
    blended = (_PRIOR_DEGREES * noise**2 + squares) / (_PRIOR_DEGREES + degrees)
    variance = np.maximum(np.maximum(squares / degrees, blended), _LEAST_NOISE**2)

    speed = np.hypot(*velocity.T)
    ahead = velocity / np.where(speed == 0, 1, speed)[:, None]
    along = np.einsum("ni,nij,nj->n", ahead, covariance, ahead) * variance
    total = np.trace(covariance, axis1=1, axis2=2) * variance
    deviation = np.sqrt(np.where(speed**2 > _SLOW * total, along, total))
    return Speeds(speed, deviation * _student(degrees))


def _weights(slopes: Floats, anchor: Floats) -> Floats:
    """Return the inverse covariances (N, K, 2, 2) of places, for edges of boxes with deviation 1."""
    spread = (1 - anchor) ** 2 + anchor**2
    (a, b), (c, d) = (slopes[..., 0, 0], slopes[..., 0, 1]), (slopes[..., 1, 0], slopes[..., 1, 1])
    determinant = a * d - b * c
    inverse = np.stack([np.stack([d, -b], axis=-1), np.stack([-c, a], axis=-1)], axis=-2) / determinant[..., None, None]
    weights: Floats = np.swapaxes(inverse, -1, -2) @ (inverse / spread[:, None])
    return weights


def _student(degrees: Floats) -> Floats:
    """Return Student's t of `_QUANTILE` (Abramowitz and Stegun, 26.7.5)."""
    z = _QUANTILE
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    quantile = np.full(len(degrees), z)
    for power, term in enumerate(terms, 1):
        quantile += term / degrees**power
    return quantile
