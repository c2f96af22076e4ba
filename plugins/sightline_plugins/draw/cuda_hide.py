"""Hiding parts of images in the device's memory, in place, as `draw/hiding.py` does on the host, pixel by pixel.

What is to be hidden is noted in a `HideList` for each image; parts that lie over each other are hidden one after
another, all others of a batch at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline.media import PixelFormat
from sightline_plugins.cuda.records import Bytes, DeviceData, Packing
from sightline_plugins.draw import hiding
from sightline_plugins.draw.cpu import Color, Rect
from sightline_plugins.draw.cuda_list import PlaneCommands, check_plane, packed
from sightline_plugins.draw.hiding import Cover, Method

SOURCE = Path(__file__).with_suffix(".cu")
PART = np.dtype(
    [
        ("start", "<u8"),
        ("pitch_bytes", "<i8"),
        ("down_xy", "<f8", (2,)),
        ("up_xy", "<f8", (2,)),
        ("cover", "<i8"),
        ("means", "<i8"),
        ("size_wh", "<i4", (2,)),
        ("channels", "<i4"),
        ("cells_wh", "<i4", (2,)),
        ("method", "<i4"),
        ("ink", "<u4"),
        ("cover_pitch", "<i4"),
        ("across_down", "<i4", (2,)),
    ],
    align=True,
)
_METHODS: dict[Method, int] = {"blur": 0, "pixelate": 1, "fill": 2}
_MOST_CELLS = hiding.MOST_CELLS**2
_MEANS_BYTES = 3 * _MOST_CELLS
_TILE, _ROWS, _THREADS = 32, 8, 128


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    rect: Rect
    method: Method
    cells: int
    ink: Color
    cover: Cover | None
    wave: int


class HideList:
    """Notes down what is hidden on an image of that format and size. Not for several threads at once."""

    def __init__(self, pixel_format: PixelFormat, *, size_wh: tuple[int, int]) -> None:
        right, down = pixel_format.chroma_shift
        self.shapes = pixel_format.plane_shapes(size_wh)
        self.planes = tuple(
            PlaneCommands(shape, right=right if index else 0, down=down if index else 0)
            for index, shape in enumerate(self.shapes)
        )
        self.regions: list[_Region] = []

    def hide(self, rect: Rect, *, method: Method, cells: int, ink: Color, cover: Cover | None = None) -> None:
        """See `hiding.hide`."""
        if not 1 <= cells <= hiding.MOST_CELLS:
            raise ValueError(
                f"a part that is hidden has 1 to {hiding.MOST_CELLS} cells along its longer side, not {cells}"
            )
        under = [region.wave for region in self.regions if _overlap(region.rect, rect)]
        self.regions.append(_Region(rect, method, cells, ink, cover, max(under, default=-1) + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Hiding:
    """What is hidden on the images of a batch; `content` is to be copied to the device, and is written to there.

    `waves` are hidden one after another: how many parts each has, and how many tiles the largest is wide and high.
    """

    content: Bytes
    waves: tuple[tuple[int, tuple[int, int]], ...]
    data: int


def pack(images: Sequence[tuple[Sequence[DeviceData], HideList]]) -> Hiding | None:
    """What is hidden on images, each given by its planes and the list of what is hidden; None when nothing is.

    The planes are looked up here: they must stay where they are until it is done.
    """
    data = Packing()
    waves: list[list[npt.NDArray[Any]]] = []
    for arrays, noted in images:
        for array, shape in zip(arrays, noted.shapes, strict=True):
            check_plane(array, shape)
        for region in noted.regions:
            waves += [[] for _ in range(len(waves), region.wave + 1)]
            waves[region.wave] += _parts(region, arrays, noted.planes, data)
    if not any(waves):
        return None
    content = Packing()
    content.place(np.array([part for wave in waves for part in wave], PART))
    start = content.nest(data)
    return Hiding(content.joined(), tuple((len(wave), _tiles(wave)) for wave in waves if wave), start)


def hide(kernels: Kernels, hidden: Hiding, *, content: DeviceData, stream: object = None) -> None:
    """Hide it, in place; `content` is the content of `hidden` on the device. Two launches for each wave.

    The caller sees to it that the stream waits for the planes (`arrays_on`), and that nobody else reads them.
    """
    first, data = 0, hidden.data
    for count, tiles in hidden.waves:
        kernels["average"](content, first, data, grid=(_MOST_CELLS, count), block=_THREADS, stream=stream)
        kernels["hide"](content, first, data, grid=(*tiles, count), block=(_TILE, _ROWS), stream=stream)
        first += count * PART.itemsize


def _parts(
    region: _Region, arrays: Sequence[DeviceData], planes: Sequence[PlaneCommands], data: Packing
) -> list[npt.NDArray[Any]]:
    """What is hidden of a region on each plane."""
    parts, cover, pitch = [], -1, 0
    if region.cover is not None:
        bits = np.packbits(region.cover != 0, axis=1)
        cover, pitch = data.place(bits), bits.shape[1] * 8
    for index, (array, plane) in enumerate(zip(arrays, planes, strict=True)):
        window = plane.window(region.rect)
        if window[0] < window[2] and window[1] < window[3]:
            part = _part(region, array, plane, window, index=index)
            part["cover"], part["cover_pitch"], part["means"] = cover, pitch, data.reserve(_MEANS_BYTES)
            parts.append(part)
    return parts


def _part(region: _Region, array: DeviceData, plane: PlaneCommands, window: Rect, *, index: int) -> npt.NDArray[Any]:
    left, top, right, bottom = window
    size_wh = right - left, bottom - top
    block = hiding.block_of(region.rect, cells=region.cells)
    cells_wh = hiding.cells_wh_of(size_wh, right=plane.right, down=plane.down, block=block)
    part = np.zeros((), PART)
    part["start"] = array.address + top * array.strides[0] + left * plane.channels
    part["pitch_bytes"] = array.strides[0]
    part["down_xy"] = [1 / (cells / size) for cells, size in zip(cells_wh, size_wh, strict=True)]
    part["up_xy"] = [1 / (size / cells) for cells, size in zip(cells_wh, size_wh, strict=True)]
    part["size_wh"], part["cells_wh"], part["channels"] = size_wh, cells_wh, plane.channels
    part["method"], part["ink"] = _METHODS[region.method], packed(region.ink.scalar(index))
    part["across_down"] = 1 << plane.right, 1 << plane.down
    return part


def _overlap(one: Rect, other: Rect) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _tiles(parts: Sequence[npt.NDArray[Any]]) -> tuple[int, int]:
    sizes = np.array([part["size_wh"] for part in parts]).max(axis=0)
    return blocks_for(int(sizes[0]), block=_TILE), blocks_for(int(sizes[1]), block=_TILE)
