"""The image that tiles are put into, in host memory: planes are resized straight to their place, as they are.

No frame becomes RGB on the way. One whose matrix or range is another than the image's, and one that is RGB, is
converted at the size of its tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import PixelFormat, Surface
from sightline.media.color import rgb_from_yuv, yuv_from_rgb
from sightline.media.surface import Plane
from sightline_plugins.draw.cpu import Colors, Kind, Layer, Rgb, Typesetter, fill, layers_of, text
from sightline_plugins.opencv import cv2
from sightline_plugins.preprocess.colors import PlaneResizer
from sightline_plugins.tile.grid import Rect

BLACK, WHITE, RED = (0, 0, 0), (255, 255, 255), (176, 32, 32)
_NEUTRAL = 128
_TEXT_SIZE = 1 / 18
"""Of labels, in heights of their cell."""
_TEXT_SIZES = (10, 40)
_AVERAGED_FROM = 2
"""From this factor on samples are averaged: bilinear filters would leave some of them out."""

_Affine: TypeAlias = npt.NDArray[np.float64]


class FrameResizer:
    """Resizes frames in host memory to 4:2:0 planes with even sides; used by one thread."""

    def __init__(self) -> None:
        self._averages = PlaneResizer("area")

    def write(self, surface: Surface, into: Sequence[Plane], *, kind: Kind) -> None:
        """Write a frame into planes of that kind, at their size. Releases the GIL.

        It makes no difference whether the frame was `shrunk` to that size before.
        """
        own = kind_for(surface)
        if (own.matrix, own.range) == (kind.matrix, kind.range):
            self._write(surface, into)
        else:
            height, width = into[0].shape
            samples = self._all_samples(self.shrunk(surface, (width, height)))
            self._convert(samples, into, _between(own, kind))

    def shrunk(self, surface: Surface, size_wh: tuple[int, int]) -> Surface:
        """A frame at another size, in its own kind: a new surface."""
        kind = kind_for(surface)
        made = Surface.allocate(kind.format, size_wh=size_wh, matrix=kind.matrix, color_range=kind.range)
        self._write(surface, made.planes)
        return made.shared()

    def _write(self, surface: Surface, into: Sequence[Plane]) -> None:
        first = surface.planes[0]
        if surface.format.is_yuv:
            self._resize(first, into[0])
            self._resize_chroma(surface.planes[1:], into[1:])
        else:
            samples = first if surface.format is PixelFormat.RGB24 else first[..., ::-1]
            self._convert(np.ascontiguousarray(samples), into, yuv_from_rgb(surface.matrix, surface.range))

    def _resize_chroma(self, chroma: Sequence[Plane], into: Sequence[Plane]) -> None:
        if not chroma:
            for plane in into:
                plane[...] = _NEUTRAL
        elif len(chroma) == len(into):
            for plane, target in zip(chroma, into, strict=True):
                self._resize(plane, target)
        elif len(into) == 1:
            for number, plane in enumerate(chroma):
                into[0][..., number] = self._resized(plane, into[0].shape[:2])
        else:
            for plane, target in zip(cv2.split(chroma[0]), into, strict=True):
                self._resize(plane, target)

    def _all_samples(self, surface: Surface) -> Plane:
        """Luma and chroma of a 4:2:0 surface at its size: (height, width, 3)."""
        luma, *chroma = surface.planes
        if len(chroma) == 1:
            chroma = list(cv2.split(chroma[0]))
        merged: Plane = cv2.merge([luma, *(self._resized(plane, luma.shape) for plane in chroma)])
        return merged

    def _convert(self, samples: Plane, into: Sequence[Plane], affine: _Affine) -> None:
        """Write samples (height, width, 3) of which `affine` makes luma and chroma."""
        resized = np.empty((*into[0].shape, 3), np.uint8)
        self._resize(samples, resized)
        converted = cv2.transform(resized, affine)
        into[0][...] = converted[..., 0]
        height, width = into[1].shape[:2]
        halved = cv2.resize(converted, (width, height), interpolation=cv2.INTER_AREA)
        if into[1].ndim == 3:
            into[1][...] = halved[..., 1:]
        else:
            into[1][...], into[2][...] = halved[..., 1], halved[..., 2]

    def _resized(self, plane: Plane, shape: tuple[int, ...]) -> Plane:
        resized = np.empty(shape, np.uint8)
        self._resize(plane, resized)
        return resized

    def _resize(self, plane: Plane, target: Plane) -> None:
        """Resize a plane (height, width) or (height, width, samples) into another one in place."""
        (height, width), (new_height, new_width) = plane.shape[:2], target.shape[:2]
        if (height, width) == (new_height, new_width):
            target[...] = plane
        elif not is_averaged((width, height), target_wh=(new_width, new_height)):
            cv2.resize(plane, (new_width, new_height), dst=target, interpolation=cv2.INTER_LINEAR)
        elif plane.ndim == 2:
            target[...] = self._averages.resize(plane, size_wh=(new_width, new_height))
        else:
            for number, samples in enumerate(cv2.split(plane)):
                target[..., number] = self._averages.resize(samples, size_wh=(new_width, new_height))


class TileCanvas:
    """An image (4:2:0, `kind`) that is put together from frames; used by one thread, and the same for all images.

    `surface` is the image as it is now, and is written to again: who takes it is done with it before the next `put`.
    """

    def __init__(self, size_wh: tuple[int, int], kind: Kind, *, resizer: FrameResizer) -> None:
        made = Surface.allocate(kind.format, size_wh=size_wh, matrix=kind.matrix, color_range=kind.range)
        self.surface = made.shared()
        self._layers = layers_of(made)
        self._colors = Colors(kind)
        self._typesetter = Typesetter()
        self._kind = kind
        self._resizer = resizer
        self.clear((0, 0, *size_wh))

    def clear(self, rect: Rect) -> None:
        """Make a rectangle black."""
        fill(self._layers, rect, self._colors.ink(BLACK))

    def put(self, surface: Surface, rect: Rect) -> None:
        """Resize a frame in host memory into a rectangle with even edges. Releases the GIL."""
        self._resizer.write(surface, [layer.window(rect) for layer in self._layers], kind=self._kind)

    def label(self, line: str, cell: Rect, *, background: Rgb) -> None:
        """Write a line into the lower left corner of a cell, cut where the cell ends: the clock of `draw` is above."""
        height = cell[3] - cell[1]
        size = min(max(round(height * _TEXT_SIZE), _TEXT_SIZES[0]), _TEXT_SIZES[1])
        mask = self._typesetter.mask(line, size=size)
        layers = [Layer(layer.window(cell), layer.right, layer.down) for layer in self._layers]
        tables = self._colors.tables(background, WHITE)
        text(layers, mask, left=0, top=height - mask.height, tables=tables)


def kind_for(surface: Surface) -> Kind:
    """The 4:2:0 kind that a frame is of, or is turned into with the least change."""
    pixel_format = PixelFormat.NV12 if surface.format is PixelFormat.NV12 else PixelFormat.I420
    return Kind(pixel_format, surface.matrix, surface.range)


def is_averaged(size_wh: tuple[int, int], *, target_wh: tuple[int, int]) -> bool:
    """Whether samples of a plane are averaged when it is made so small; else the two nearest each way are mixed."""
    return any(size >= _AVERAGED_FROM * target for size, target in zip(size_wh, target_wh, strict=True))


def _between(source: Kind, target: Kind) -> _Affine:
    """The affine map (3, 4) from luma and chroma of one kind to those of another."""
    rgb, yuv = rgb_from_yuv(source.matrix, source.range), yuv_from_rgb(target.matrix, target.range)
    return np.column_stack([yuv[:, :3] @ rgb[:, :3], yuv[:, :3] @ rgb[:, 3] + yuv[:, 3]])
