"""Lenses show rays where OpenCV and the published models say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sightline.errors import ConfigurationError
from sightline_plugins.opencv import cv2
from sightline_plugins.warp.lens import Floats, Lens

MATRIX = ((410.0, 0.0, 318.5), (0.0, 395.0, 241.25), (0.0, 0.0, 1.0))
SIZE = (640, 480)


def rays(widest_degrees: float, count: int = 400) -> Floats:
    """Rays of any length up to that angle from the optical axis."""
    random = np.random.default_rng(5)
    theta, phi = np.radians(widest_degrees) * random.uniform(0, 1, count), random.uniform(-math.pi, math.pi, count)
    directions = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=1)
    lengths: Floats = directions * random.uniform(0.2, 9, (count, 1))
    return lengths


def test_a_calibrated_fisheye_lens_is_that_of_opencv() -> None:
    k = (-0.02, 0.006, -0.003, 0.0004)
    seen = rays(85)

    expected, _ = cv2.fisheye.projectPoints(seen[None], np.zeros(3), np.zeros(3), np.array(MATRIX), np.array(k))
    shown = Lens(model="kannala_brandt", camera_matrix=MATRIX, distortion=k, size=SIZE).pixels(seen, size_wh=SIZE)

    np.testing.assert_allclose(shown - 0.5, expected[0], atol=1e-6)


@pytest.mark.parametrize("count", [4, 5, 8])
def test_a_calibrated_ordinary_lens_is_that_of_opencv(count: int) -> None:
    k = (-0.11, 0.02, 0.0012, -0.0009, 0.003, 0.01, -0.004, 0.0005)[:count]
    seen = rays(50)

    expected, _ = cv2.projectPoints(seen, np.zeros(3), np.zeros(3), np.array(MATRIX), np.array(k))
    shown = Lens(model="brown_conrady", camera_matrix=MATRIX, distortion=k, size=SIZE).pixels(seen, size_wh=SIZE)

    np.testing.assert_allclose(shown - 0.5, expected[:, 0], atol=1e-6)


@pytest.mark.parametrize("model", ["equidistant", "equisolid"])
def test_a_round_lens_follows_its_formula(model: str) -> None:
    lens = Lens.model_validate({"model": model, "fov": 200, "center": (0.5, 0.4), "radius": 0.45})
    seen = rays(99)

    shown = lens.pixels(seen, size_wh=(800, 600))

    for (x, y, z), place in zip(seen.tolist(), shown.tolist(), strict=True):
        theta, phi = math.acos(z / math.hypot(x, y, z)), math.atan2(y, x)
        angle = (
            theta / math.radians(100) if model == "equidistant" else math.sin(theta / 2) / math.sin(math.radians(50))
        )
        expected = 400 + 270 * angle * math.cos(phi), 240 + 270 * angle * math.sin(phi)
        assert place == pytest.approx(expected, abs=1e-7)


def test_a_lens_is_blind_beyond_its_angle_and_where_it_would_show_things_twice() -> None:
    aside = np.array([[math.sin(angle), 0, math.cos(angle)] for angle in np.radians([0, 79, 81, 179])])
    folding = Lens(model="kannala_brandt", camera_matrix=MATRIX, distortion=(-0.2, 0, 0, 0), size=SIZE)

    assert np.isnan(Lens(fov=160).pixels(aside, size_wh=SIZE)[:, 0]).tolist() == [False, False, True, True]
    assert math.degrees(folding.widest) == pytest.approx(math.degrees(math.sqrt(1 / 0.6)), abs=0.1)
    assert np.isnan(folding.pixels(aside, size_wh=SIZE)[:, 0]).tolist() == [False, True, True, True]


def test_a_stream_of_another_resolution_shows_the_same() -> None:
    lens = Lens(model="kannala_brandt", camera_matrix=MATRIX, distortion=(0.01, 0, 0, 0), size=SIZE)
    seen = rays(80)

    np.testing.assert_allclose(lens.pixels(seen, size_wh=(320, 240)) * 2, lens.pixels(seen, size_wh=SIZE))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fov": 0}, "fov"),
        ({"model": "stereographic"}, "model"),
        ({"center": (1.2, 0.5)}, r"center \[1.2, 0.5\] lies outside the image: give fractions"),
        ({"center": (700, 100), "size": SIZE}, "outside the image of 640x480"),
        ({"radius": 240}, "no fraction of the image's height"),
        ({"radius": 0}, "radius"),
        ({"model": "kannala_brandt", "camera_matrix": MATRIX}, "needs distortion, size"),
        ({"camera_matrix": MATRIX}, "equidistant has no camera_matrix"),
        (
            {"model": "kannala_brandt", "camera_matrix": MATRIX, "distortion": (1, 2), "size": SIZE},
            "has 4 coefficients",
        ),
        (
            {"model": "brown_conrady", "camera_matrix": MATRIX, "distortion": (0,) * 4, "size": (200, 200)},
            r"centre \[318.5, 241.25\] of camera_matrix lies outside",
        ),
        (
            {"model": "brown_conrady", "camera_matrix": ((0, 0, 1),) * 3, "distortion": (0,) * 4, "size": SIZE},
            "fx and fy above 0",
        ),
    ],
)
def test_a_mistake_is_one_clear_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Lens(**options)
