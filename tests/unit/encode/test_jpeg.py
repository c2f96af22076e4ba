"""Surfaces as JPEG, for people who look at a pipeline."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline.media.convert import rgb_from_surface, surface_from_rgb
from sightline_plugins.encode.images import encode_jpeg

LARGE = (1920, 1080)
Image = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def ramps() -> Image:
    """Red rises to the right, green downwards, blue falls to the right; both sides odd."""
    down, right = np.mgrid[0:119, 0:201]
    channels = [right * 255 // 200, down * 255 // 118, 255 - right * 255 // 200]
    return np.stack(channels, axis=-1).astype(np.uint8)


def decoded(jpeg: bytes) -> Image:
    bgr = np.asarray(cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR), np.uint8)
    return bgr[..., ::-1]


@pytest.mark.parametrize("pixel_format", PixelFormat)
@pytest.mark.parametrize("matrix", ColorMatrix)
@pytest.mark.parametrize("color_range", ColorRange)
def test_colours_are_kept(
    ramps: Image, pixel_format: PixelFormat, matrix: ColorMatrix, color_range: ColorRange
) -> None:
    surface = surface_from_rgb(ramps, pixel_format=pixel_format, matrix=matrix, color_range=color_range)

    seen = decoded(encode_jpeg(surface, largest_wh=LARGE))[:119, :201]

    assert np.abs(seen.astype(int) - rgb_from_surface(surface)).mean() < 5


@pytest.mark.parametrize(
    ("largest_wh", "size_wh"), [(LARGE, (202, 120)), ((100, 100), (100, 60)), ((400, 30), (50, 30)), ((1, 1), (2, 2))]
)
def test_large_images_are_made_smaller_in_proportion(
    ramps: Image, largest_wh: tuple[int, int], size_wh: tuple[int, int]
) -> None:
    height, width, _ = decoded(encode_jpeg(surface_from_rgb(ramps), largest_wh=largest_wh)).shape

    assert (width, height) == size_wh
