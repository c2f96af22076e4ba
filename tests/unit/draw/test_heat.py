"""Heat maps on images: bilinear levels, colours whose steps look equal, and the image shines through."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.media import Batch, ColorMatrix, ColorRange, HeatLayer, PixelFormat
from sightline.media.convert import rgb_from_surface
from sightline.testing import make_frames, run_element
from sightline_plugins import Draw
from sightline_plugins.draw.cpu import Kind
from sightline_plugins.draw.heat import heat_colors, heat_tables, stretched, warm_part
from sightline_plugins.opencv import cv2

RGB = Kind(PixelFormat.RGB24, ColorMatrix.BT601, ColorRange.LIMITED)
LEVELS = np.zeros((9, 16), np.uint8)
LEVELS[3:5, 4:7] = 255
LEVELS[6, 12] = 120


def drawn(layer: HeatLayer, pixel_format: PixelFormat = PixelFormat.RGB24) -> tuple[Batch, Batch]:
    """A frame of 320 x 180 before and after a heat map was drawn."""
    before = Batch(tuple(make_frames(1, size_wh=(320, 180), pixel_format=pixel_format)))
    [after] = run_element(Draw(), [before.with_graphics([(layer,)])])
    return before, after


def test_levels_between_cells_are_those_of_opencv_within_one() -> None:
    levels = np.random.default_rng(3).integers(0, 256, (9, 16), np.uint8)

    ours = stretched(levels, size_wh=(320, 180), rect=(0, 0, 320, 180))

    theirs = cv2.resize(levels, (320, 180), interpolation=cv2.INTER_LINEAR)
    assert np.abs(ours.astype(int) - np.asarray(theirs).astype(int)).max() <= 1


@pytest.mark.parametrize("size_wh", [(320, 180), (321, 181), (97, 55), (5, 3)])
def test_the_part_that_is_drawn_holds_all_that_is_warm(size_wh: tuple[int, int]) -> None:
    whole = stretched(LEVELS, size_wh=size_wh, rect=(0, 0, *size_wh))
    left, top, right, bottom = warm_part(LEVELS, size_wh=size_wh)

    assert whole[top:bottom, left:right].sum() == whole.sum() > 0
    np.testing.assert_array_equal(
        stretched(LEVELS, size_wh=size_wh, rect=(left, top, right, bottom)), whole[top:bottom, left:right]
    )


def test_brightness_grows_evenly_with_the_level() -> None:
    lightness = cv2.cvtColor(heat_colors()[None].astype(np.float32) / 255, cv2.COLOR_RGB2Lab)[0, :, 0]

    steps = np.diff(lightness[16::16])
    assert steps.min() > 0
    assert steps.max() < 1.5 * steps.min()


def test_what_is_cold_stays_and_what_is_hot_has_its_colour_to_the_share_of_the_opacity() -> None:
    before, after = drawn(HeatLayer(LEVELS, 0.6))
    old, new = (rgb_from_surface(batch.frames[0].surface).astype(float) for batch in (before, after))

    np.testing.assert_array_equal(new[:40], old[:40])
    hot = (slice(75, 85), slice(95, 115))
    np.testing.assert_allclose(new[hot], 0.4 * old[hot] + 0.6 * heat_colors()[255], atol=1.01)


@pytest.mark.parametrize("pixel_format", [PixelFormat.NV12, PixelFormat.I420, PixelFormat.GRAY8])
def test_every_format_gets_the_same_colour_as_rgb(pixel_format: PixelFormat) -> None:
    _, after = drawn(HeatLayer(LEVELS, 1.0), pixel_format)

    rgb = rgb_from_surface(after.frames[0].surface)[80, 105].astype(int)
    wanted = heat_colors()[255].astype(int)
    if pixel_format is PixelFormat.GRAY8:
        wanted = np.full(3, np.rint(wanted @ [0.299, 0.587, 0.114]), int)
    assert np.abs(rgb - wanted).max() <= 3


def test_samples_stay_within_their_range() -> None:
    for opacity in (0.0, 0.37, 1.0):
        (table,) = heat_tables(RGB, opacity=opacity)
        assert (table[:, :1].astype(int) + table[:, 1:]).max() <= 255
        assert table[0].tolist() == [255, 0, 0, 0]


def test_a_map_without_heat_changes_nothing() -> None:
    before, after = drawn(HeatLayer(np.zeros((9, 16), np.uint8), 0.6))

    np.testing.assert_array_equal(after.frames[0].surface.planes[0], before.frames[0].surface.planes[0])
