"""How frames are put into the image."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.convert import rgb_from_surface, surface_from_rgb
from sightline_plugins.draw.cpu import Kind
from sightline_plugins.tile.canvas import BLACK, FrameResizer, TileCanvas

I420 = Kind(PixelFormat.I420, ColorMatrix.BT601, ColorRange.LIMITED)
KINDS = [
    I420,
    Kind(PixelFormat.NV12, ColorMatrix.BT601, ColorRange.LIMITED),
    Kind(PixelFormat.NV12, ColorMatrix.BT709, ColorRange.FULL),
]
RECT = (32, 16, 128, 70)


def waves(size_wh: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """A smooth RGB image."""
    y, x = np.mgrid[0 : size_wh[1], 0 : size_wh[0]] / np.array(size_wh[::-1]).reshape(2, 1, 1)
    channels = [np.sin(3 * x + 2 * y), np.cos(4 * y), np.sin(5 * x) * np.cos(2 * y)]
    return (np.stack(channels, axis=-1) * 90 + 128).astype(np.uint8)


def canvas_of(kind: Kind) -> TileCanvas:
    return TileCanvas((160, 90), kind, resizer=FrameResizer())


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("size_wh", [(192, 108), (97, 55), (640, 361), (96, 54), (40, 24)])
@pytest.mark.parametrize("pixel_format", list(PixelFormat))
def test_frames_of_every_kind_look_as_they_did(pixel_format: PixelFormat, size_wh: tuple[int, int], kind: Kind) -> None:
    rgb = waves(size_wh)
    canvas = canvas_of(kind)

    canvas.put(surface_from_rgb(rgb, pixel_format=pixel_format), RECT)

    left, top, right, bottom = RECT
    shown = rgb_from_surface(canvas.surface).astype(int)
    if pixel_format is PixelFormat.GRAY8:
        rgb = rgb_from_surface(surface_from_rgb(rgb, pixel_format=pixel_format))
    wanted = cv2.resize(rgb, (right - left, bottom - top), interpolation=cv2.INTER_AREA)
    inside = (slice(top, bottom), slice(left, right))
    assert np.abs(shown[inside] - wanted).mean() < 3
    shown[inside] = 0
    assert not shown.any(), "pixels beside the tile were changed"


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("pixel_format", list(PixelFormat))
def test_a_frame_that_was_shrunk_before_gives_the_same_pixels(pixel_format: PixelFormat, kind: Kind) -> None:
    surface = surface_from_rgb(waves((203, 117)), pixel_format=pixel_format)
    direct, shrunk = canvas_of(kind), canvas_of(kind)

    direct.put(surface, RECT)
    shrunk.put(FrameResizer().shrunk(surface, (96, 54)), RECT)

    for plane, wanted in zip(shrunk.surface.planes, direct.surface.planes, strict=True):
        assert np.array_equal(plane, wanted)


def test_planes_of_the_same_size_are_taken_as_they_are() -> None:
    surface = Surface.allocate(PixelFormat.I420, size_wh=(96, 54))
    for plane in surface.planes:
        plane[:] = np.random.default_rng(1).integers(0, 256, plane.shape)
    canvas = canvas_of(I420)

    canvas.put(surface, RECT)

    assert np.array_equal(canvas.surface.planes[0][16:70, 32:128], surface.planes[0])
    assert np.array_equal(canvas.surface.planes[2][8:35, 16:64], surface.planes[2])


def test_a_label_stays_in_its_cell() -> None:
    canvas = canvas_of(I420)

    canvas.label("a name that is longer than its cell is wide", (32, 16, 64, 34), background=(200, 0, 0))

    written = rgb_from_surface(canvas.surface).max(axis=2)
    assert written[16:34, 32:64].any()
    written[16:34, 32:64] = 0
    assert not written.any()
    canvas.clear((0, 0, 160, 90))
    assert (rgb_from_surface(canvas.surface) == BLACK).all()
