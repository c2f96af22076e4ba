"""Taking the pixels of an image from other places of another, plane by plane, as these were decoded.

`remap_plane` is bilinear, by OpenCV's `remap` with coordinates of 1/32 pixel, without the GIL. What lies outside the
other image is black.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import ColorRange, PixelFormat, Surface
from sightline.media.surface import Plane

Pixels = npt.NDArray[np.float64]
"""(H, W, 2): for each pixel of an image, the place (x, y) in pixels of another that it shows, whose left top corner is
at (0, 0); NaN for none."""
_OUTSIDE = -16.0


@dataclass(frozen=True, slots=True, eq=False)
class PlaneMap:
    """Where the pixels of a plane come from, in fixed point: the whole pixels (H, W, 2) int16, and which of the 32 x 32
    places within one (H, W) uint16.
    """

    whole: npt.NDArray[Any]
    part: npt.NDArray[Any]

    @classmethod
    def of(cls, pixels: Pixels, *, size_wh: tuple[int, int], shift: tuple[int, int]) -> PlaneMap:
        """Make the map of a plane whose chroma is shifted like that: `pixels` (H, W, 2) are in pixels of the first
        plane of the other image, which has this size.

        The outer half of the pixels at the edge repeats them.
        """
        from sightline_plugins.opencv import cv2

        size = np.array(size_wh, np.float64)
        with np.errstate(invalid="ignore"):
            is_inside = ((pixels >= 0) & (pixels <= size)).all(axis=-1)
        scale = np.array([1 << bits for bits in shift], np.float64)
        last = np.ceil(size / scale) - 1
        place = np.clip(pixels / scale - 0.5, 0, last)
        place[~is_inside] = _OUTSIDE
        x, y = (np.ascontiguousarray(place[..., side], np.float32) for side in (0, 1))
        return cls(*cv2.convertMaps(x, y, cv2.CV_16SC2))


def black_of(pixel_format: PixelFormat, color_range: ColorRange) -> tuple[int, int]:
    """Return the values of black: in the first plane, and in the others."""
    is_limited = pixel_format.is_yuv and color_range is ColorRange.LIMITED
    return 16 if is_limited else 0, 128


def remap_plane(plane: Plane, where: PlaneMap, *, black: int, into: Plane) -> None:
    """Write the pixels of a plane (H, W) or (H, W, C) that a map names into another plane."""
    from sightline_plugins.opencv import cv2

    made = cv2.remap(
        plane,
        where.whole,
        where.part,
        cv2.INTER_LINEAR,
        dst=into,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=(black, black, black),
    )
    if made is not into:
        np.copyto(into, made)


def remap(surface: Surface, maps: tuple[PlaneMap, ...], *, size_wh: tuple[int, int]) -> Surface:
    """Return an image of that size in host memory, exclusive, whose pixels come from where the map of each plane says;
    the maps are those of the image's format (`plane_shifts`).
    """
    there = surface.to_host()
    made = Surface.allocate(there.format, size_wh=size_wh, matrix=there.matrix, color_range=there.range)
    first, others = black_of(there.format, there.range)
    for number, (plane, into) in enumerate(zip(there.planes, made.planes, strict=True)):
        where = maps[min(number, len(maps) - 1)]
        remap_plane(plane, where, black=others if number else first, into=into)
    return made


def plane_shifts(pixel_format: PixelFormat) -> tuple[tuple[int, int], ...]:
    """Return by how many bits the planes are narrower and lower than the first: of that, and of the others."""
    has_chroma = pixel_format.is_yuv and pixel_format is not PixelFormat.GRAY8
    return ((0, 0), pixel_format.chroma_shift) if has_chroma else ((0, 0),)
