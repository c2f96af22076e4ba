"""Surfaces, colour and conversion."""

from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.color import rgb_from_yuv, yuv_from_rgb
from sightline.media.convert import rgb_from_surface, surface_from_rgb

EVERY_MATRIX = [(matrix, color_range) for matrix in ColorMatrix for color_range in ColorRange]


@pytest.mark.parametrize(
    ("pixel_format", "shapes"),
    [
        (PixelFormat.I420, ((5, 7), (3, 4), (3, 4))),
        (PixelFormat.NV12, ((5, 7), (3, 4, 2))),
        (PixelFormat.I422, ((5, 7), (5, 4), (5, 4))),
        (PixelFormat.I444, ((5, 7), (5, 7), (5, 7))),
        (PixelFormat.GRAY8, ((5, 7),)),
        (PixelFormat.RGB24, ((5, 7, 3),)),
    ],
)
def test_odd_sizes_round_chroma_up(pixel_format: PixelFormat, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert pixel_format.plane_shapes((7, 5)) == shapes


def test_planes_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="needs planes of"):
        Surface(PixelFormat.GRAY8, (4, 4), (np.zeros((4, 5), np.uint8),))


def test_an_exclusive_surface_is_its_own_writable_copy() -> None:
    surface = Surface.allocate(PixelFormat.I420, size_wh=(4, 4))

    assert surface.writable() is surface


def test_a_shared_surface_is_copied_before_it_is_written_to() -> None:
    surface = Surface(PixelFormat.GRAY8, (4, 4), (np.full((4, 4), 7, np.uint8),))

    copy = surface.writable()
    copy.planes[0][:] = 9

    assert (surface.planes[0] == 7).all()


def test_nobody_writes_to_a_shared_surface_and_its_maker_still_can() -> None:
    pixels = np.zeros((4, 4), np.uint8)
    exclusive = Surface(PixelFormat.GRAY8, (4, 4), (pixels,), exclusive=True)

    for surface in (Surface(PixelFormat.GRAY8, (4, 4), (pixels,)), exclusive.shared(), exclusive.writable().shared()):
        with pytest.raises(ValueError, match="read-only"):
            surface.planes[0][:] = 7
    pixels[:] = 9

    assert (exclusive.shared().planes[0] == 9).all()


@pytest.mark.parametrize(("matrix", "color_range"), EVERY_MATRIX)
def test_white_black_and_grey_have_no_colour(matrix: ColorMatrix, color_range: ColorRange) -> None:
    affine = rgb_from_yuv(matrix, color_range)
    black, white = (0, 255) if color_range is ColorRange.FULL else (16, 235)

    for luma, level in ((black, 0), (white, 255), ((black + white) / 2, 127.5)):
        rgb = affine[:, :3] @ [luma, 128, 128] + affine[:, 3]
        np.testing.assert_allclose(rgb, level, atol=1e-9)


def test_red_of_bt601_limited_has_the_standards_code_values() -> None:
    affine = yuv_from_rgb(ColorMatrix.BT601, ColorRange.LIMITED)

    yuv = affine[:, :3] @ [255, 0, 0] + affine[:, 3]

    np.testing.assert_allclose(yuv, [81.481, 90.203, 240.0], atol=1e-3)


@pytest.mark.parametrize(("matrix", "color_range"), EVERY_MATRIX)
@pytest.mark.parametrize("pixel_format", list(PixelFormat))
def test_a_plain_colour_survives_the_way_there_and_back(
    pixel_format: PixelFormat, matrix: ColorMatrix, color_range: ColorRange
) -> None:
    color = (90, 90, 90) if pixel_format is PixelFormat.GRAY8 else (200, 60, 30)
    rgb = np.full((5, 7, 3), color, np.uint8)

    surface = surface_from_rgb(rgb, pixel_format=pixel_format, matrix=matrix, color_range=color_range)

    assert np.abs(rgb_from_surface(surface).astype(int) - rgb).max() <= 2


def test_a_surface_is_pickled_with_its_pixels_and_without_what_keeps_them_alive() -> None:
    original = Surface.allocate(PixelFormat.NV12, size_wh=(5, 3), color_range=ColorRange.FULL)
    for plane in original.planes:
        plane[:] = np.arange(plane.size).reshape(plane.shape)
    decoded = replace(original.shared(), owner=threading.Lock())  # as the frame of a decoder, which cannot be pickled

    for other in (pickle.loads(pickle.dumps(decoded)), copy.deepcopy(decoded)):
        assert [plane.tolist() for plane in other.planes] == [plane.tolist() for plane in original.planes]
        assert (other.format, other.size_wh, other.range, other.exclusive) == (
            PixelFormat.NV12, (5, 3), ColorRange.FULL, False,
        )  # fmt: skip
