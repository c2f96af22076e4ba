"""Homographies from points, and points that fit none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from benchmarks.multi_camera import SITES, SIZE_WH

from sightline_plugins.track.multi_camera.floor_plan import FloorPlanError, fit_floor

SITE = SITES["two views that overlap"]
SQUARE = [[0.1, 0.9, 0, 0], [0.9, 0.9, 6, 0], [0.7, 0.3, 6, 14], [0.3, 0.3, 0, 14]]


def feet(floor: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Where a camera sees feet at floor points, in fractions, and the points that it sees."""
    places = np.array(floor, np.float64)
    boxes = SITE.cameras["gate"].boxes(places)
    seen = ~np.isnan(boxes[:, 0])
    return np.stack([(boxes[:, 0] + boxes[:, 2]) / 2, boxes[:, 3]], axis=1)[seen] / SIZE_WH, places[seen]


def test_a_camera_maps_image_points_to_the_floor() -> None:
    camera = fit_floor(SITE.plan()["gate"], max_error_m=0.5)
    image, floor = feet([[8, 8], [12, 15], [10, 4]])

    assert np.abs(camera.to_floor(image)[0] - floor).max() < 0.1
    assert camera.error_m < 0.1


def test_pixels_and_fractions_give_the_same_place() -> None:
    camera = fit_floor(SQUARE, max_error_m=0.5)
    points = np.array([[0.5, 0.7], [0.3, 0.4]])

    assert np.allclose(camera.to_floor(points)[0], camera.scaled(SIZE_WH).to_floor(points * SIZE_WH)[0])


def test_the_derivative_is_that_of_the_mapping() -> None:
    camera, point, step = fit_floor(SQUARE, max_error_m=0.5), np.array([[0.5, 0.6]]), 1e-6
    floor, derivative = camera.to_floor(point)
    moved = [(camera.to_floor(point + np.eye(2)[axis] * step)[0] - floor)[0] / step for axis in (0, 1)]

    assert np.allclose(derivative[0], np.stack(moved, axis=1), rtol=1e-3)


def test_points_above_the_horizon_are_not_on_the_floor() -> None:
    floor, _ = fit_floor(SQUARE, max_error_m=0.5).to_floor(np.array([[0.5, 0.05], [0.5, -0.6]]))

    assert np.isnan(floor[1]).all()


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (SQUARE[:3], "has 3 points: at least 4 are needed"),
        ([[0.1 * n, 0.1 * n, n, n * n] for n in range(1, 6)], "all points lie on one line in the image"),
        ([[x, y, 2 * x, 4 * x] for x, y, _, _ in SQUARE], "all points lie on one line on the floor"),
        ([[0, 0, 0, 0], [0.1, 0.1, 1, 1], [0.2, 0.2, 2, 2], [0.9, 0.1, 9, 1]], "several mappings fit"),
        ([SQUARE[0], SQUARE[1], [*SQUARE[2][:2], 0, 14], [*SQUARE[3][:2], 6, 14]], "as if two of them were exchanged"),
    ],
)
def test_points_that_determine_no_homography_are_refused(points: list[list[float]], message: str) -> None:
    with pytest.raises(FloorPlanError, match=message):
        fit_floor(points, max_error_m=0.5)


def test_a_point_that_does_not_fit_is_named_with_its_distance() -> None:
    points = SITE.plan()["gate"]
    points[4] = [*points[4][:3], points[4][3] + 3]

    with pytest.raises(FloorPlanError, match=r"point 5 \(.*\) is [23]\.\d\d m from where the others put it"):
        fit_floor(points, max_error_m=0.5)
    assert fit_floor(points, max_error_m=5).error_m > 0.1


def test_of_five_points_the_farthest_is_named() -> None:
    points = [*SQUARE, [0.5, 0.5, 4.5, 9]]

    with pytest.raises(FloorPlanError, match=r"point \d \(.*\) is \d+\.\d\d m"):
        fit_floor(points, max_error_m=0.5)
