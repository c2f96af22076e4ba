from __future__ import annotations

import numpy as np
import pytest

from sightline.media import PixelFormat
from sightline.media.convert import surface_from_rgb
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import ChannelOrder, Preprocessing


def test_padding_has_its_level_in_each_channel() -> None:
    surface = surface_from_rgb(np.full((20, 40, 3), 200, np.uint8))

    image = HostPreprocessor(Preprocessing((40, 40), pad=(1, 2, 3))).prepare(surface).image

    assert (image[0, :10] == (1, 2, 3)).all()
    assert (image[0, 10:30] > 190).all()
    assert (image[0, 30:] == (1, 2, 3)).all()


@pytest.mark.parametrize(("order", "red"), [("rgb", 0), ("bgr", 2)])
@pytest.mark.parametrize("pixel_format", [PixelFormat.I420, PixelFormat.NV12, PixelFormat.RGB24, PixelFormat.BGR24])
def test_channels_come_in_the_order_asked_for(order: ChannelOrder, red: int, pixel_format: PixelFormat) -> None:
    rgb = np.zeros((32, 32, 3), np.uint8)
    rgb[..., 0] = 255
    surface = surface_from_rgb(rgb, pixel_format=pixel_format)

    image = HostPreprocessor(Preprocessing((16, 16), color=order)).prepare(surface).image[0]

    assert (image[..., red] > 250).all()
    assert (image[..., 2 - red] < 5).all()


def test_an_image_given_back_is_used_again_with_its_padding() -> None:
    surface = surface_from_rgb(np.full((20, 40, 3), 200, np.uint8))
    preprocessor = HostPreprocessor(Preprocessing((40, 40)))
    first = preprocessor.prepare(surface)
    before = first.image.copy()

    preprocessor.recycle(first)
    second = preprocessor.prepare(surface)

    assert second.image is first.image
    assert np.array_equal(second.image, before)


def test_an_image_not_given_back_is_left_alone() -> None:
    preprocessor = HostPreprocessor(Preprocessing((16, 16)))
    first = preprocessor.prepare(surface_from_rgb(np.zeros((32, 32, 3), np.uint8)))

    second = preprocessor.prepare(surface_from_rgb(np.full((32, 32, 3), 255, np.uint8)))

    assert second.image is not first.image
    assert (first.image < 5).all()


def test_the_surface_is_not_changed() -> None:
    surface = surface_from_rgb(np.random.default_rng(1).integers(0, 256, (33, 47, 3), np.uint8))
    before = [plane.copy() for plane in surface.planes]

    for convert in ("network", "image"):
        HostPreprocessor(Preprocessing((16, 16), convert=convert, resize="area")).prepare(surface)

    assert all(np.array_equal(a, b) for a, b in zip(surface.planes, before, strict=True))


def test_the_engine_gets_scale_as_a_factor() -> None:
    form = Preprocessing((16, 8), mean=(1.0, 2.0, 3.0), scale=(2.0, 4.0, 8.0)).image_form()

    assert (form.mean, form.scale, form.size_wh) == ((1.0, 2.0, 3.0), (0.5, 0.25, 0.125), (16, 8))
