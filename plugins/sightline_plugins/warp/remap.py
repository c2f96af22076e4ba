"""Taking the pixels of an image from other places of another, plane by plane, as these were decoded.

All is bilinear, by OpenCV with coordinates of 1/32 pixel, without the GIL.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import ColorRange, PixelFormat, Surface
from sightline.media.surface import Plane

Pixels = npt.NDArray[np.float64]
"""(H, W, 2): for each pixel of an image, the place (x, y) in pixels of another that it shows, whose left top corner is
at (0, 0); NaN for none."""
Border: TypeAlias = Literal["edge", "black"]
"""What is outside the other image: its outermost pixels repeated, or black."""
_OUTSIDE = -16.0


@dataclass(frozen=True, slots=True)
class Turning:
    """How an image is moved: turned clockwise and scaled around its centre, then shifted by pixels to the right and
    down.
    """

    shift: tuple[float, float]
    radians: float
    scale: float = 1.0


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
    """Write the pixels of a plane (H, W) or (H, W, C) that a map names into another plane; black for none."""
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


def turn_matrices(
    surface_format: PixelFormat, size_wh: tuple[int, int], *, turning: Turning
) -> tuple[npt.NDArray[np.float64], ...]:
    """Return for the first plane, and for the others where there are any, the places (2, 3) of its pixels in the image
    before, in pixels of the plane, whole numbers being the middles of both.
    """
    centre = np.array(size_wh) / 2
    cosine, sine = math.cos(turning.radians) / turning.scale, math.sin(turning.radians) / turning.scale
    back = np.array([[cosine, sine], [-sine, cosine]])
    matrices = []
    for shift in plane_shifts(surface_format):
        per = np.array([1 << bits for bits in shift], np.float64)
        own = back * per / per[:, None]
        middle = centre / per - 0.5
        offset = middle - own @ (middle + np.array(turning.shift) / per)
        matrices.append(np.column_stack([own, offset]))
    return tuple(matrices)


def turn(surface: Surface, turning: Turning, *, border: Border = "edge") -> Surface:
    """Return the image in host memory, exclusive, moved like that; its size stays.

    Chroma that lies in pairs is moved plane by plane, as the other is: OpenCV moves pairs by places of 1/32 pixel.
    """
    from sightline_plugins.opencv import cv2

    there = surface.to_host()
    made = Surface.allocate(there.format, size_wh=there.size_wh, matrix=there.matrix, color_range=there.range)
    first, others = black_of(there.format, there.range)
    matrices = turn_matrices(there.format, there.size_wh, turning=turning)

    def moved(plane: Plane, number: int, into: Plane | None = None) -> Plane:
        black = others if number else first
        result: Plane = cv2.warpAffine(
            plane,
            matrices[min(number, len(matrices) - 1)],
            (plane.shape[1], plane.shape[0]),
            dst=into,
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE if border == "edge" else cv2.BORDER_CONSTANT,
            borderValue=(black, black, black),
        )
        return result

    for number, (plane, into) in enumerate(zip(there.planes, made.planes, strict=True)):
        if plane.ndim == 3 and plane.shape[2] == 2:
            done: Plane = cv2.merge([moved(samples, number) for samples in cv2.split(plane)], dst=into)
        else:
            done = moved(plane, number, into)
        if done is not into:
            np.copyto(into, done)
    return made
