from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices.gpu.kernel_source import KernelSource
from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.color import rgb_from_yuv, yuv_from_rgb
from sightline.testing.gpu import ORDERS, HostKernels, Order
from sightline_plugins.kernels import tile
from sightline_plugins.kernels.tile import Rectangle, cells, fitted
from sightline_plugins.pixels.plane_resize import PlaneResizer, Resize
from tests.parity.kernels.images import noise, view, wide_view
from tests.unit.kernels.host_arrays import dense

Levels = npt.NDArray[np.uint8]
YUV = [kind for kind in PixelFormat if kind.is_yuv]
BACKGROUND = (60, 100, 200)


def mosaic(
    images: Sequence[tuple[Any, Rectangle]],
    *,
    target: Surface,
    resize: Resize = "bilinear",
    source: KernelSource | Path = tile.SOURCE,
    order: Order = "forward",
) -> Surface:
    kernels = HostKernels(source, order=order)
    views = [(view(one) if isinstance(one, Surface) else one, place) for one, place in images]
    tiles = tile.arrange(views, target=view(target), resize=resize)
    tile.fill_surface(kernels, view(target), yuv=BACKGROUND)
    tile.fill_tiles(kernels, tiles, content=dense(tiles.content))
    return target


def channels(surface: Surface) -> list[Levels]:
    """Luma, and the two chroma planes where there are any."""
    planes = surface.planes
    return [planes[0], planes[1][..., 0], planes[1][..., 1]] if surface.format is PixelFormat.NV12 else list(planes)


def plain_mosaic(
    images: Sequence[tuple[Surface, Rectangle]], *, target: Surface, resize: Resize = "bilinear"
) -> list[Levels]:
    """What each channel of the target becomes, plane by plane on the host."""
    shapes = [channel.shape for channel in channels(target)]
    made = [np.full(shape, level, np.uint8) for shape, level in zip(shapes, BACKGROUND, strict=False)]
    resizer = PlaneResizer(resize)
    for image, (left, top, width, height) in images:
        shift = target.format.chroma_shift
        for index, channel in enumerate(made):
            across, down = shift if index else (0, 0)
            size_wh = -(-width >> across), -(-height >> down)
            known = channels(image)
            levels = np.full(size_wh[::-1], 128, np.uint8)
            if index < len(known):
                levels = resizer.resize(np.ascontiguousarray(known[index]), size_wh=size_wh)
            channel[top >> down :, left >> across :][: size_wh[1], : size_wh[0]] = levels
    return made


def assert_alike(found: Surface, expected: Sequence[Levels], *, most: int = 0, share: float = 0) -> None:
    for one, other in zip(channels(found), expected, strict=True):
        error = np.abs(one.astype(int) - other)
        assert error.max() <= most
        assert np.mean(error > 0) <= share


@pytest.mark.parametrize("kind", YUV)
def test_images_of_any_size_fill_their_rectangles(kind: PixelFormat) -> None:
    sizes = [(64, 48), (33, 21), (200, 100), (40, 34)]
    images = [noise(PixelFormat.I420 if row == 2 else kind, size, seed=row) for row, size in enumerate(sizes)]
    places = [(0, 0, 40, 34), (44, 2, 50, 30), (0, 40, 120, 60), (96, 0, 24, 36)]
    target = noise(PixelFormat.NV12, (121, 101), seed=9)
    expected = plain_mosaic(list(zip(images, places, strict=True)), target=target)

    found = mosaic(list(zip(images, places, strict=True)), target=target)

    assert_alike(found, expected)


@pytest.mark.parametrize("kind", YUV)
def test_the_target_may_have_any_format(kind: PixelFormat) -> None:
    images = [
        (noise(PixelFormat.NV12, (90, 60)), (0, 0, 48, 32)),
        (noise(PixelFormat.I444, (31, 25)), (48, 0, 32, 32)),
    ]
    target = noise(kind, (80, 48))

    found = mosaic(images, target=target)

    assert_alike(found, plain_mosaic(images, target=target))


@pytest.mark.parametrize("resize", ["area", "antialias", "nearest"])
def test_filters_are_those_of_the_host(resize: Resize) -> None:
    images = [
        (noise(PixelFormat.NV12, (320, 180)), (0, 0, 80, 46)),
        (noise(PixelFormat.NV12, (96, 64)), (80, 0, 48, 32)),
    ]
    target = noise(PixelFormat.NV12, (128, 64))

    found = mosaic(images, target=target, resize=resize)

    assert_alike(found, plain_mosaic(images, target=target, resize=resize))


def test_images_of_16_bits_are_read_as_levels() -> None:
    image = noise(PixelFormat.NV12, (64, 48))
    target = noise(PixelFormat.NV12, (64, 48))

    found = mosaic([(wide_view(image, bits=10), (0, 0, 64, 48))], target=target)

    assert_alike(found, channels(image))


@pytest.mark.parametrize("matrix", list(ColorMatrix))
@pytest.mark.parametrize("color_range", list(ColorRange))
def test_colours_are_those_of_the_image_whatever_the_target_calls_them(
    matrix: ColorMatrix, color_range: ColorRange
) -> None:
    image = noise(PixelFormat.I444, (24, 16), matrix=matrix, color_range=color_range)
    target = noise(PixelFormat.I444, (24, 16), matrix=ColorMatrix.BT709)

    found = mosaic([(image, (0, 0, 24, 16))], target=target)

    to_rgb, to_yuv = rgb_from_yuv(matrix, color_range), yuv_from_rgb(ColorMatrix.BT709, ColorRange.LIMITED)
    rgb = np.stack(channels(image), axis=-1) @ to_rgb[:, :3].T + to_rgb[:, 3]
    yuv = np.clip(rgb @ to_yuv[:, :3].T + to_yuv[:, 3], 0, 255)
    assert np.abs(np.stack(channels(found), axis=-1) - yuv).max() < 0.51


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_threads_does_not_matter(order: Order) -> None:
    images = [(noise(PixelFormat.NV12, (70, 50)), place) for place in cells(5, size_wh=(120, 80))]
    target = noise(PixelFormat.NV12, (120, 80))

    found = mosaic(images, target=target, order=order)

    assert_alike(found, plain_mosaic(images, target=target))


def test_cells_lie_in_rows_on_even_pixels() -> None:
    assert cells(3, size_wh=(101, 67)) == [(0, 0, 50, 32), (50, 0, 50, 32), (0, 32, 50, 32)]
    assert cells(2, size_wh=(64, 32), columns=1) == [(0, 0, 64, 16), (0, 16, 64, 16)]


def test_an_image_keeps_its_shape_in_its_cell() -> None:
    assert fitted((1920, 1080), (100, 50, 320, 320)) == (100, 120, 320, 180)


def test_too_many_images_are_refused() -> None:
    with pytest.raises(ValueError, match="100 images do not fit into 16x16 with 10 in a row"):
        cells(100, size_wh=(16, 16))


@pytest.mark.parametrize("place", [(1, 0, 8, 8), (0, 0, 7, 8), (60, 0, 8, 8), (0, 0, 0, 8)])
def test_a_rectangle_that_does_not_fit_is_refused(place: Rectangle) -> None:
    target = noise(PixelFormat.NV12, (64, 48))

    with pytest.raises(ValueError, match="a rectangle of 64x48 on whole chroma samples"):
        mosaic([(noise(PixelFormat.NV12, (8, 8)), place)], target=target)


def test_colours_without_luma_are_refused() -> None:
    with pytest.raises(ValueError, match="images of luma and chroma are put together, not rgb24"):
        mosaic([(noise(PixelFormat.RGB24, (8, 8)), (0, 0, 8, 8))], target=noise(PixelFormat.NV12, (8, 8)))


def test_a_shifted_index_is_caught() -> None:
    images = [(noise(PixelFormat.NV12, (70, 50)), place) for place in cells(4, size_wh=(64, 48))]
    target = noise(PixelFormat.NV12, (64, 48))
    broken = KernelSource.read(tile.SOURCE).replaced("tile.left / across + column", "tile.left / across + column / 2")

    found = mosaic(images, target=target, source=broken)

    with pytest.raises(AssertionError):
        assert_alike(found, plain_mosaic(images, target=target))
