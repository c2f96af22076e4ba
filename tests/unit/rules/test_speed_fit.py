"""Speeds as the compiled part fits them, against the definition in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.ground import GroundPlane
from sightline_plugins.rules.speed_fit import LEAST_SAMPLES, SAMPLES, Grounds, fit_speeds

PLANES = (
    GroundPlane(np.array([[0.02, 0.003, -5], [0.001, 0.05, -9], [0.00001, 0.0012, 0.1]]), least_depth=0.3),
    GroundPlane(np.diag([0.03, 0.03, 1.0])),
)
ANCHORS = np.array([[0.5, 1.0], [0.0, 0.5]])
WINDOW_NS, LONGEST_NS = np.array([1_000_000_000, 400_000_000]), np.array([5_000_000_000, 2_000_000_000])
GROUNDS = Grounds.of(PLANES, anchors=ANCHORS, window_ns=WINDOW_NS, longest_ns=LONGEST_NS)
NOW_NS = 10**15


def plain(
    seconds: Floats, points: Floats, used: Mask, *, plane: GroundPlane, noise: Floats, anchor: Floats
) -> tuple[Floats, Floats]:
    """Speeds and uncertainties of N tracks at points (N, K, 2) at times (N, K), where `used` (N, K)."""
    safe = np.where(used[..., None], points, points[np.arange(len(points)), used.argmax(axis=1)][:, None])
    mapped = safe @ plane.matrix[:, :2].T + plane.matrix[:, 2]
    places = mapped[..., :2] / mapped[..., 2:]
    depth = (safe @ plane.matrix[2, :2] + plane.matrix[2, 2])[..., None, None]
    slopes = (plane.matrix[:2, :2] - places[..., :, None] * plane.matrix[2, :2]) / depth
    inverse_slopes = np.linalg.inv(slopes)
    spread = (1 - anchor) ** 2 + anchor**2
    weights = np.swapaxes(inverse_slopes, -1, -2) @ (inverse_slopes / spread[:, None]) * used[..., None, None]
    places = places - places.mean(axis=1, keepdims=True)
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
    variance = np.maximum(np.maximum(squares / degrees, (4 * noise**2 + squares) / (4 + degrees)), 1 / 12)
    speed = np.hypot(*velocity.T)
    ahead = velocity / np.where(speed == 0, 1, speed)[:, None]
    along = np.einsum("ni,nij,nj->n", ahead, covariance, ahead) * variance
    total = np.trace(covariance, axis1=1, axis2=2) * variance
    deviation = np.sqrt(np.where(speed**2 > 4 * total, along, total))
    z = 2.241403
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return speed, deviation * (z + sum(term / degrees**power for power, term in enumerate(terms, 1)))


def tracks(step_ns: npt.NDArray[np.int64], *, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """Counts (R,), times (R, SAMPLES) and points (R, SAMPLES, 2) of tracks whose frames are `step_ns` (R,) apart."""
    random = np.random.default_rng(seed)
    counts = random.integers(1, 100, len(step_ns))
    counts[::3] = random.integers(1, 8, len(counts[::3]))
    slots = np.arange(SAMPLES)
    number = (counts[:, None] - 1 - slots) % SAMPLES
    times = NOW_NS - number * step_ns[:, None] + random.integers(0, 9_000_000, number.shape) * (number > 0)
    start, velocity = random.uniform([100, 250], [1200, 700], (len(counts), 2)), random.normal(0, 60, (len(counts), 2))
    velocity[::5] = 0
    seconds = (times - NOW_NS) / 1e9
    points = start[:, None] + seconds[..., None] * velocity[:, None] + random.normal(0, 1, (*number.shape, 2))
    is_empty = number >= counts[:, None]
    times[is_empty], points[is_empty] = 0, 0
    return counts, times, points


@pytest.mark.parametrize("area", [0, 1])
def test_speeds_are_those_of_the_definition(area: int) -> None:
    random = np.random.default_rng(7)
    counts, times, points = tracks(random.choice([16, 33, 80, 200, 400, 900], 600) * 1_000_000, seed=area)
    rows = random.permutation(600)[:500]
    noise = random.uniform(0, 2, len(rows))
    age_ns, number = NOW_NS - times[rows], (counts[rows][:, None] - 1 - np.arange(SAMPLES)) % SAMPLES
    is_near = (age_ns <= WINDOW_NS[area]) | ((number < LEAST_SAMPLES) & (age_ns <= LONGEST_NS[area]))
    used = is_near & (number < counts[rows][:, None])
    span = np.where(used, age_ns, 0).max(axis=1)
    can = (used.sum(axis=1) >= LEAST_SAMPLES) & (span >= WINDOW_NS[area] // 2)

    speed, uncertainty = fit_speeds(
        rows,
        np.full(len(rows), area),
        counts=counts,
        times_ns=times,
        points=points,
        grounds=GROUNDS,
        noise=noise,
        now_ns=NOW_NS,
    )

    assert 100 < np.count_nonzero(can) < len(rows) - 50
    assert np.isnan(speed).tolist() == np.isnan(uncertainty).tolist() == (~can).tolist()
    seconds = np.where(used, age_ns, 0)[can] / -1e9
    expected = plain(seconds, points[rows[can]], used[can], plane=PLANES[area], noise=noise[can], anchor=ANCHORS[area])
    assert speed[can] == pytest.approx(expected[0], rel=1e-8)
    assert uncertainty[can] == pytest.approx(expected[1], rel=1e-8)


def test_points_are_on_the_ground_as_far_as_its_depth_says() -> None:
    points = np.array([[0.0, 100.0], [0.0, 200.0], [0.0, -100.0], [0.0, 100.0]])

    assert GROUNDS.hold(np.array([0, 0, 0, 1]), points).tolist() == [False, True, False, True]
