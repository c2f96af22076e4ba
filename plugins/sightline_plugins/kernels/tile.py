"""Many images in one, in the device's memory: for a wall of screens, a preview, or one encoder for many streams.

Planes are resized as `PlaneResizer` does it on the host, each to its rectangle. Where the matrix or the range of a
image are not those of the target, its colours are converted, with chroma of the target's resolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.devices.gpu.launching import Kernels, blocks_for
from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline.media.color import rgb_from_yuv, yuv_from_rgb
from sightline_plugins.kernels.device_data import DeviceData, check_array
from sightline_plugins.kernels.packing import Bytes, Packing
from sightline_plugins.kernels.plane_maps import PLANE_MAP, PlaneMap, plane_map
from sightline_plugins.kernels.surfaces import SURFACE, SurfaceView
from sightline_plugins.pixels.placement import Placement, SizeWh, place
from sightline_plugins.pixels.plane_resize import Resize
from sightline_plugins.pixels.resizing import cut_for

SOURCE = Path(__file__).with_suffix(".cu")
TILE = np.dtype(
    [
        ("surface", SURFACE),
        ("luma", PLANE_MAP),
        ("chroma", PLANE_MAP),
        ("yuv", "<f4", (12,)),
        ("rectangle_xywh", "<i4", (4,)),
        ("is_converted", "<i4"),
        ("unused", "<i4"),
    ],
    align=True,
)
Rectangle: TypeAlias = tuple[int, int, int, int]
"""Left, top, width and height in pixels of the target."""
_BLOCK = (32, 8)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Images and where they go: `content` is to be copied to the device as it is.

    It holds addresses, so the images must stay where they are until the target is filled. `count` is how many there
    are, `largest_wh` the size of the largest rectangle; `data` says where in the content their filters begin.
    """

    content: Bytes
    count: int
    target: SurfaceView
    largest_wh: SizeWh
    data: int


def arrange(
    images: Sequence[tuple[SurfaceView, Rectangle]], *, target: SurfaceView, resize: Resize = "antialias"
) -> Tiles:
    """Say which image fills which rectangle of the target; the rectangles lie apart and on whole chroma samples.

    Raises ValueError for a rectangle that does not, and for images that are not luma and chroma.
    """
    table, data = np.zeros(len(images), TILE), Packing()
    for number, (view, rectangle) in enumerate(images):
        _check(view, rectangle, target)
        tile = table[number]
        tile["surface"] = view.record
        tile["rectangle_xywh"] = rectangle
        maps = _maps(view.format, view.size_wh, rectangle[2:], target.format, resize)
        for name, plane in zip(("luma", "chroma"), maps, strict=True):
            plane.write(table[name], number, data)
        if (view.matrix, view.range) != (target.matrix, target.range):
            tile["yuv"] = _yuv_from_yuv((view.matrix, view.range), (target.matrix, target.range)).ravel()
            tile["is_converted"] = True
    largest = max((image[1][2] for image in images), default=0), max((p[1][3] for p in images), default=0)
    content = Packing()
    content.place(table)
    start = content.nest(data)
    return Tiles(content.joined(), len(images), target, largest, start)


def fill_tiles(kernels: Kernels, tiles: Tiles, *, content: DeviceData, stream: object = None) -> None:
    """Resize all images into their rectangles; `content` is that of `tiles` on the device. What else the target shows
    stays as it is: `fill_surface` before gives it one colour. The caller sees to it that the stream waits for all
    planes (`arrays_on`).
    """
    check_array(content, what="the content of tiles", dtype=np.dtype(np.uint8), shape=tiles.content.shape)
    if tiles.count:
        grid, target = (*_grid(tiles.target.format, tiles.largest_wh), tiles.count), tiles.target.record
        kernels["fill_tiles"](content, tiles.data, target, grid=grid, block=_BLOCK, stream=stream)


def fill_surface(
    kernels: Kernels, target: SurfaceView, *, yuv: tuple[int, int, int] = (16, 128, 128), stream: object = None
) -> None:
    """Give all of a surface one colour."""
    _check_yuv(target)
    grid = _grid(target.format, target.size_wh)
    kernels["fill_surface"](target.record, *yuv, grid=grid, block=_BLOCK, stream=stream)


def cells(count: int, *, size_wh: SizeWh, columns: int | None = None) -> list[Rectangle]:
    """Rectangles for so many images in a grid, row by row, on even pixels; about as many columns as rows."""
    across = columns or max(math.ceil(math.sqrt(count)), 1)
    down = max(math.ceil(count / across), 1)
    width, height = size_wh[0] // across & ~1, size_wh[1] // down & ~1
    if width < 2 or height < 2:
        raise ValueError(f"{count} images do not fit into {size_wh[0]}x{size_wh[1]} with {across} in a row")
    return [(number % across * width, number // across * height, width, height) for number in range(count)]


def fitted(size_wh: SizeWh, cell: Rectangle) -> Rectangle:
    """The largest rectangle in the middle of a cell that has an image's shape, on even pixels."""
    inner = place((0.0, 0.0, *map(float, size_wh)), size_wh=cell[2:]).inner_xywh
    width, height = (max(side & ~1, 2) for side in inner[2:])
    return cell[0] + ((cell[2] - width) // 2 & ~1), cell[1] + ((cell[3] - height) // 2 & ~1), width, height


@lru_cache(maxsize=1024)
def _maps(
    source: PixelFormat, size_wh: SizeWh, tile_wh: SizeWh, target: PixelFormat, resize: Resize
) -> tuple[PlaneMap, PlaneMap]:
    """How luma and chroma planes of that size come into a tile."""
    wide, high = target.chroma_shift
    chroma_wh = -(-tile_wh[0] >> wide), -(-tile_wh[1] >> high)
    shapes = source.plane_shapes(size_wh)
    luma, chroma = shapes[0], shapes[min(1, len(shapes) - 1)]
    return _map((luma[1], luma[0]), tile_wh, resize), _map((chroma[1], chroma[0]), chroma_wh, resize)


def _map(size_wh: SizeWh, tile_wh: SizeWh, resize: Resize) -> PlaneMap:
    whole = Placement((0.0, 0.0, float(size_wh[0]), float(size_wh[1])), (0, 0, *tile_wh), tile_wh)
    cut = cut_for(whole, size_wh=size_wh, chroma_shift=(0, 0), averages=resize in ("area", "antialias"))
    return plane_map(cut, whole, shift=(0, 0), resize=resize)


@lru_cache(maxsize=64)
def _yuv_from_yuv(
    source: tuple[ColorMatrix, ColorRange], target: tuple[ColorMatrix, ColorRange]
) -> npt.NDArray[np.float64]:
    to_rgb, from_rgb = rgb_from_yuv(*source), yuv_from_rgb(*target)
    matrix = from_rgb[:, :3] @ to_rgb
    matrix[:, 3] += from_rgb[:, 3]
    matrix[1:, 0] = 0
    return matrix


def _check(view: SurfaceView, rectangle: Rectangle, target: SurfaceView) -> None:
    _check_yuv(view)
    _check_yuv(target)
    left, top, width, height = rectangle
    across, down = (1 << bits for bits in target.format.chroma_shift)
    right, bottom = left + width, top + height
    lies_inside = left >= 0 and top >= 0 and right <= target.size_wh[0] and bottom <= target.size_wh[1]
    is_whole = not (left % across or top % down)
    is_whole &= (not right % across or right == target.size_wh[0]) and (
        not bottom % down or bottom == target.size_wh[1]
    )
    if not (lies_inside and is_whole and width > 0 and height > 0):
        raise ValueError(
            f"an image goes into a rectangle of {target.size_wh[0]}x{target.size_wh[1]} on whole chroma samples, "
            f"not into {rectangle} (left, top, width, height)"
        )


def _check_yuv(view: SurfaceView) -> None:
    if not view.format.is_yuv:
        raise ValueError(f"images of luma and chroma are put together, not {view.format}")


def _grid(pixel_format: PixelFormat, size_wh: SizeWh) -> tuple[int, int]:
    across, down = (-(-side >> bits) for side, bits in zip(size_wh, pixel_format.chroma_shift, strict=True))
    return blocks_for(across, block=_BLOCK[0]), blocks_for(down, block=_BLOCK[1])
