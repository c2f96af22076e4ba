"""Pre-processing against its definition, computed plainly in double precision."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.color import rgb_from_yuv
from sightline.media.convert import surface_from_rgb, yuv444_from_surface
from sightline_plugins.preprocess.colors import PlaneResizer
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import Convert, Preprocessing, Resize
from sightline_plugins.preprocess.placement import Align, Fit

Floats = npt.NDArray[np.float64]


def smooth_rgb(size_wh: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """An image of slow waves in all colours."""
    width, height = size_wh
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    waves = [0.5 + 0.4 * np.sin(2 * x + shift) * np.cos(2 * y - shift) for shift in (0.0, 1.1, 2.3)]
    return (np.stack(waves, axis=-1) * 255).astype(np.uint8)


def weights(source: int, target: int, method: Resize) -> Floats:
    """The matrix (target, source) that resizes one axis, from the definition of the filter."""
    matrix = np.zeros((target, source))
    ratio = source / target
    for row in range(target):
        centre = (row + 0.5) * ratio - 0.5
        if method == "bilinear":
            for column in (int(np.floor(centre)), int(np.floor(centre)) + 1):
                matrix[row, min(max(column, 0), source - 1)] += max(0.0, 1 - abs(centre - column))
        elif method == "nearest":
            matrix[row, min(int((row + 0.5) * ratio), source - 1)] = 1
        else:
            edges = np.clip(np.arange(source + 1), row * ratio, (row + 1) * ratio)
            matrix[row] = np.diff(edges) / ratio
    return matrix


def plain_input(surface: Surface, definition: Preprocessing, inner_xywh: tuple[int, int, int, int]) -> Floats:
    """The network's input (h, w, 3) before mean and scale, whole image to RGB first, nothing rounded."""
    if surface.format.is_yuv:
        affine = rgb_from_yuv(surface.matrix, surface.range)
        rgb = np.clip(yuv444_from_surface(surface) @ affine[:, :3].T + affine[:, 3], 0, 255)
    else:
        rgb = surface.planes[0][..., :: 1 if surface.format is PixelFormat.RGB24 else -1].astype(np.float64)
    left, top, width, height = inner_xywh
    down = weights(rgb.shape[0], height, definition.resize)
    across = weights(rgb.shape[1], width, definition.resize)
    resized = np.einsum("yh,hwc,xw->yxc", down, rgb, across, optimize=True)
    assert definition.size_wh is not None
    canvas = np.empty((*definition.size_wh[::-1], 3))
    canvas[:] = definition.pad
    canvas[top : top + height, left : left + width] = resized if definition.color == "rgb" else resized[..., ::-1]
    return canvas


def difference(surface: Surface, definition: Preprocessing) -> Floats:
    prepared = HostPreprocessor(definition).prepare(surface)
    error: Floats = prepared.image[0] - plain_input(surface, definition, prepared.placement.inner_xywh)
    return error


def assert_rounded_only(error: Floats) -> None:
    """Nothing but the rounding of luma and chroma to 8 bits, which the colour matrix doubles, and half a chroma sample
    at the edge of odd sizes.
    """
    assert np.abs(error).mean() < 0.7
    assert np.abs(error).max() <= 5
    assert abs(error.mean()) < 0.3


@pytest.mark.parametrize("pixel_format", list(PixelFormat))
@pytest.mark.parametrize("size_wh", [(768, 432), (321, 241), (161, 121)])
@pytest.mark.parametrize("resize", ["bilinear", "area", "nearest"])
def test_every_format_and_odd_size_follows_the_definition(
    pixel_format: PixelFormat, size_wh: tuple[int, int], resize: Resize
) -> None:
    surface = surface_from_rgb(smooth_rgb(size_wh), pixel_format=pixel_format, matrix=ColorMatrix.BT709)

    error = difference(surface, Preprocessing((160, 128), resize=resize))

    assert_rounded_only(error)


@pytest.mark.parametrize("matrix", list(ColorMatrix))
@pytest.mark.parametrize("color_range", list(ColorRange))
@pytest.mark.parametrize(("fit", "align"), [("letterbox", "center"), ("letterbox", "top_left"), ("stretch", "center")])
def test_every_matrix_range_and_fit_follows_the_definition(
    matrix: ColorMatrix, color_range: ColorRange, fit: Fit, align: Align
) -> None:
    rgb = smooth_rgb((320, 180))
    surface = surface_from_rgb(rgb, matrix=matrix, color_range=color_range)

    error = difference(surface, Preprocessing((160, 160), fit=fit, align=align, color="bgr", pad=(1, 2, 3)))

    assert_rounded_only(error)


@pytest.mark.parametrize("pixel_format", [PixelFormat.I420, PixelFormat.NV12, PixelFormat.I422, PixelFormat.I444])
@pytest.mark.parametrize("size_wh", [(768, 432), (321, 241), (328, 240)])
@pytest.mark.parametrize("color_range", list(ColorRange))
def test_converting_the_image_first_keeps_to_the_definition_within_ffmpegs_rounding(
    pixel_format: PixelFormat, size_wh: tuple[int, int], color_range: ColorRange
) -> None:
    rgb = smooth_rgb(size_wh)
    surface = surface_from_rgb(rgb, pixel_format=pixel_format, matrix=ColorMatrix.BT709, color_range=color_range)

    error = difference(surface, Preprocessing((160, 128), resize="area", convert="image"))

    assert np.abs(error).mean() < 1.6
    assert np.abs(error).max() <= 4


@pytest.mark.parametrize("convert", ["network", "image"])
def test_a_region_is_what_the_cut_out_image_would_be(convert: Convert) -> None:
    surface = surface_from_rgb(smooth_rgb((320, 240)))
    planes = (surface.planes[0][60:180, 160:320], *(plane[30:90, 80:160] for plane in surface.planes[1:]))
    part = Surface(surface.format, (160, 120), tuple(plane.copy() for plane in planes))
    preprocessor = HostPreprocessor(Preprocessing((96, 96), convert=convert))

    of_region = preprocessor.prepare(surface, preprocessor.definition.place_fractions((0.5, 0.25, 1.0, 0.75), surface))

    assert np.array_equal(of_region.image, preprocessor.prepare(part).image)


def test_averages_agree_with_opencv_to_the_level_almost_everywhere() -> None:
    noise = np.random.default_rng(3).integers(0, 256, (432, 768), np.uint8)
    plane = cv2.GaussianBlur(noise, (9, 9), 3)

    ours = PlaneResizer("area").resize(plane, size_wh=(352, 352))

    error = ours.astype(int) - cv2.resize(plane, (352, 352), interpolation=cv2.INTER_AREA)
    assert np.abs(error).max() <= 1
    assert np.count_nonzero(error) < 0.02 * error.size
