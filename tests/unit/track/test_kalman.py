"""The closed-form filter against the textbook one, and against itself at other frame rates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sightline_plugins.track.kalman import MotionModel, correct, expected_boxes, initiate, predict

MODEL = MotionModel()
BOXES = np.array([[30, 60, 40, 80], [400, 90, 200, 100]], np.float32)
"""Centre, width and height."""
AREA = np.array([3200, 20000], np.float32)


def test_a_long_step_is_the_same_as_three_short_ones() -> None:
    whole = initiate(BOXES, area=AREA, model=MODEL)
    whole["mean"][:, 1] = 25.0
    stepped = whole.copy()
    for _ in range(3):
        predict(stepped, area=AREA, dt_seconds=0.1 / 3, model=MODEL)
    predict(whole, area=AREA, dt_seconds=0.1, model=MODEL)

    assert whole["covariance"] == pytest.approx(stepped["covariance"], rel=1e-4)
    assert whole["mean"] == pytest.approx(stepped["mean"], rel=1e-5)


def test_a_correction_is_that_of_the_matrix_form() -> None:
    filters = initiate(BOXES, area=AREA, model=MODEL)
    predict(filters, area=AREA, dt_seconds=0.1, model=MODEL)
    mean, covariance = filters["mean"].copy(), filters["covariance"].copy()
    seen, confidence = BOXES + 7, np.array([1, 0.4], np.float32)
    correct(filters, box=seen, confidence=confidence, area=AREA, model=MODEL)

    for track, group in itertools.product(range(2), range(2)):
        (pp, pv, vv), noise = covariance[track, :, group], MODEL.measurement[group] ** 2 * AREA[track]
        columns = slice(2 * group, 2 * group + 2)
        spread, look = np.array([[pp, pv], [pv, vv]]), np.array([[1.0, 0.0]])
        gain = spread @ look.T / (look @ spread @ look.T + noise * (1 + MODEL.doubt * (1 - confidence[track])))
        state = mean[track, :, columns]
        expected = (np.eye(2) - gain @ look) @ spread
        innovation = (seen[track] - mean[track, 0])[None, columns]
        narrowed = [expected[0, 0], expected[0, 1], expected[1, 1]]
        assert filters["mean"][track, :, columns] == pytest.approx(state + gain @ innovation, rel=1e-4)
        assert filters["covariance"][track, :, group] == pytest.approx(narrowed, rel=1e-3)


def test_a_doubtful_box_moves_the_track_less() -> None:
    filters = initiate(BOXES, area=AREA, model=MODEL)
    confidence = np.array([1, 0.2], np.float32)
    correct(filters, box=BOXES + 10, confidence=confidence, area=AREA, model=MODEL)

    sure, doubtful = (filters["mean"][:, 0] - BOXES)[:, 0]
    assert sure > doubtful > 0


@pytest.mark.parametrize("fps", [5, 10, 30])
def test_velocity_is_learned_at_any_frame_rate(fps: int) -> None:
    filters, confidence = initiate(BOXES, area=AREA, model=MODEL), np.ones(2, np.float32)
    for frame in range(1, 3 * fps):
        predict(filters, area=AREA, dt_seconds=1 / fps, model=MODEL)
        seen = BOXES + np.float32(60 * frame / fps) * np.array([1, 1, 0, 0], np.float32)
        correct(filters, box=seen, confidence=confidence, area=AREA, model=MODEL)

    assert filters["mean"][:, 1, :2] == pytest.approx(np.full((2, 2), 60), rel=0.02)
    assert filters["mean"][:, 1, 2:] == pytest.approx(np.zeros((2, 2)), abs=0.1)


def test_an_expected_box_is_the_surer_the_less_its_centre_varies() -> None:
    filters = initiate(BOXES, area=AREA, model=MODEL)
    xyxy, overlap = expected_boxes(filters)
    filters["covariance"][0, 0, 0] = 20.0**2
    _, later = expected_boxes(filters)

    assert xyxy.tolist() == [[10, 20, 50, 100], [300, 40, 500, 140]]
    assert later[0] == pytest.approx(20 * 60 / (2 * 40 * 80 - 20 * 60))
    assert later[0] < overlap[0] < 1


def test_values_of_another_number_are_refused() -> None:
    filters = initiate(BOXES, area=AREA, model=MODEL)

    with pytest.raises(ValueError, match=r"expected values of shape \(2,\), not \(1,\)"):
        predict(filters, area=AREA[:1], dt_seconds=0.1, model=MODEL)
    with pytest.raises(ValueError, match="filters must be a contiguous array"):
        predict(filters[::-1], area=AREA, dt_seconds=0.1, model=MODEL)
