"""The closed-form filter against the textbook one, and against itself at other frame rates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sightline_plugins.track.kalman import MotionModel, Propagator, correct, initiate

MODEL = MotionModel()
BOXES = np.array([[30, 60, 40, 80], [400, 90, 200, 100]], np.float32)
"""Centre, width and height."""
AREA = np.array([3200, 20000], np.float32)


def test_a_long_step_is_the_same_as_three_short_ones() -> None:
    mean, covariance = initiate(BOXES, area=AREA, model=MODEL)
    mean[1] = 25.0
    stepped, spread = mean.copy(), covariance
    for _ in range(3):
        spread = Propagator(MODEL).predict(stepped, spread, area=AREA, dt_seconds=0.1 / 3)

    assert Propagator(MODEL).predict(mean, covariance, area=AREA, dt_seconds=0.1) == pytest.approx(spread, rel=1e-4)
    assert mean == pytest.approx(stepped, rel=1e-5)


def test_a_correction_is_that_of_the_matrix_form() -> None:
    mean, covariance = initiate(BOXES, area=AREA, model=MODEL)
    covariance = Propagator(MODEL).predict(mean, covariance, area=AREA, dt_seconds=0.1)
    seen, confidence = BOXES + 7, np.array([1, 0.4], np.float32)
    moved, narrowed = correct(mean, covariance, box=seen, confidence=confidence, area=AREA, model=MODEL)

    for track, group in itertools.product(range(2), range(2)):
        (pp, pv, vv), noise = covariance[:, group, track], MODEL.measurement[group] ** 2 * AREA[track]
        columns = slice(2 * group, 2 * group + 2)
        spread, look = np.array([[pp, pv], [pv, vv]]), np.array([[1.0, 0.0]])
        gain = spread @ look.T / (look @ spread @ look.T + noise * (1 + MODEL.doubt * (1 - confidence[track])))
        state = mean[:, track, columns]
        expected = (np.eye(2) - gain @ look) @ spread
        innovation = (seen[track] - mean[0, track])[None, columns]
        assert moved[:, track, columns] == pytest.approx(state + gain @ innovation, rel=1e-4)
        assert narrowed[:, group, track] == pytest.approx([expected[0, 0], expected[0, 1], expected[1, 1]], rel=1e-3)


def test_a_doubtful_box_moves_the_track_less() -> None:
    mean, covariance = initiate(BOXES, area=AREA, model=MODEL)
    confidence = np.array([1, 0.2], np.float32)
    moved, _ = correct(mean, covariance, box=BOXES + 10, confidence=confidence, area=AREA, model=MODEL)

    sure, doubtful = (moved[0] - BOXES)[:, 0]
    assert sure > doubtful > 0


@pytest.mark.parametrize("fps", [5, 10, 30])
def test_velocity_is_learned_at_any_frame_rate(fps: int) -> None:
    mean, covariance = initiate(BOXES, area=AREA, model=MODEL)
    propagator, confidence = Propagator(MODEL), np.ones(2, np.float32)
    for frame in range(1, 3 * fps):
        covariance = propagator.predict(mean, covariance, area=AREA, dt_seconds=1 / fps)
        seen = BOXES + np.float32(60 * frame / fps) * np.array([1, 1, 0, 0], np.float32)
        mean, covariance = correct(mean, covariance, box=seen, confidence=confidence, area=AREA, model=MODEL)

    assert mean[1, :, :2] == pytest.approx(np.full((2, 2), 60), rel=0.02)
    assert mean[1, :, 2:] == pytest.approx(np.zeros((2, 2)), abs=0.1)
