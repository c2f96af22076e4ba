from __future__ import annotations

import numpy as np
import pytest

from sightline.media import PixelFormat, Surface
from sightline_plugins.decode.orientation import (
    UPRIGHT,
    Orientation,
    orientation_from_degrees,
    orientation_from_matrix,
    turn,
)

ONE = 65536


def gray(pixels: list[list[int]]) -> Surface:
    plane = np.array(pixels, np.uint8)
    return Surface(PixelFormat.GRAY8, (plane.shape[1], plane.shape[0]), (plane,))


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_degrees_turn_clockwise(turns: int) -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    turned = turn(gray(pixels.tolist()), orientation_from_degrees(90 * turns))
    assert np.array_equal(turned.planes[0], np.rot90(pixels, -turns))


@pytest.mark.parametrize(
    ("a", "b", "c", "d", "expected"),
    [
        (ONE, 0, 0, ONE, UPRIGHT),
        (0, ONE, -ONE, 0, orientation_from_degrees(90)),
        (-ONE, 0, 0, -ONE, orientation_from_degrees(180)),
        (0, -ONE, ONE, 0, orientation_from_degrees(270)),
        (-ONE, 0, 0, ONE, Orientation(flip_x=True)),
        (ONE, 0, 0, -ONE, Orientation(flip_y=True)),
        (0, ONE, ONE, 0, Orientation(transposed=True)),
        (0, 0, 0, 0, UPRIGHT),
        (46341, 46341, -46341, 46341, UPRIGHT),
    ],
)
def test_a_display_matrix_is_one_of_eight_orientations_or_none(
    a: int, b: int, c: int, d: int, expected: Orientation
) -> None:
    assert orientation_from_matrix((a, b, 0, c, d, 0, 0, 0, 1 << 30)) == expected


def test_chroma_turns_with_luma() -> None:
    surface = Surface.allocate(PixelFormat.NV12, size_wh=(4, 6))
    surface.planes[0][:] = np.arange(24).reshape(6, 4)
    surface.planes[1][:] = np.arange(12).reshape(3, 2, 2)
    turned = turn(surface, orientation_from_degrees(90))
    assert turned.size_wh == (6, 4)
    assert np.array_equal(turned.planes[1], np.rot90(np.arange(12).reshape(3, 2, 2), -1))


def test_a_turned_image_belongs_to_its_holder() -> None:
    assert turn(gray([[1, 2]]), orientation_from_degrees(180)).exclusive
