"""The records of the kernel `draw`, and what lines and polygons need to be drawn as OpenCV 5 draws them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from sightline_plugins.kernels.packing import Bytes
from sightline_plugins.raster.planes import SUBPIXEL_BITS

Corners: TypeAlias = npt.NDArray[np.int32]
Corner: TypeAlias = tuple[int, int]

FILL, TEXT, TINT, AREA, STROKE = range(5)
_BITS = 16
_ONE = 1 << _BITS

SHEET = np.dtype(
    [
        ("start", "<u8"),
        ("pitch_bytes", "<i8"),
        ("data", "<i8"),
        ("points", "<i8"),
        ("width", "<i4"),
        ("height", "<i4"),
        ("channels", "<i4"),
        ("first", "<i4"),
        ("count", "<i4"),
        ("unused", "<i4"),
    ]
)
COMMAND_FIELDS = (
    *("kind", "left", "top", "right", "bottom", "ink", "data", "pitch", "table", "count"),
    *("x", "y", "across", "down", "width", "round_start", "is_smooth", "radius", "corner_count", "unused"),
)
"""`struct Command`, all of them int32."""
_EDGE = np.dtype(
    [
        ("line", "<i4", (4,)),
        ("is_drawn", "<i4"),
        ("top", "<i4"),
        ("bottom", "<i4"),
        ("unused", "<i4"),
        ("start", "<i8"),
        ("step", "<i8"),
    ]
)


@lru_cache(maxsize=1)
def smoothness() -> Bytes:
    """How smooth lines fade: `struct Smoothness`, in the numbers that OpenCV's tables come from.

    Coverage by the distance from the line's middle is a Gaussian; the width across rows or columns grows with the
    slope as the diagonal of a square does.
    """
    distance = (np.arange(64) - 15.5) / 24
    slope = (np.arange(32) + 0.46) / 32
    fading = np.floor(255 * np.exp(-np.square(distance)))
    widths = np.floor(181.13 * np.sqrt(1 + np.square(slope)))
    return np.concatenate([fading, widths]).astype(np.uint8)


@lru_cache(maxsize=128)
def round_end(width: int) -> Bytes:
    """The corners of the polygon that stands for the round end of a smooth line, from its middle: double (n, 2)."""
    radius = (width + 1) // 2
    degrees = 90 if radius < 3 else 30 if radius < 10 else 18 if radius < 15 else 5
    angles = np.arange(0, 361, degrees)
    cosines, sines = (np.round(np.sin(np.deg2rad(angle)), 7).astype(np.float32) for angle in (450 - angles, angles))
    corners = np.stack([cosines, sines], axis=1).astype(np.float64) * (width * _ONE / 2)
    return corners.view(np.uint8).ravel()


@lru_cache(maxsize=128)
def half_widths(width: int) -> Bytes:
    """How far the round end of a line with steps reaches to both sides, in its middle row and the rows below."""
    radius = (width + 1) // 2
    disc = cv2.circle(np.zeros((2 * radius + 1, 2 * radius + 1), np.uint8), (radius, radius), radius, 1, cv2.FILLED)
    reach: Bytes = ((disc[radius:].sum(axis=1) - 1) // 2).astype(np.uint8)
    return reach


def edges_of(corners: Corners, *, size_wh: tuple[int, int]) -> Bytes:
    """The edges of a polygon, `struct Edge`; its corners (N, 2) are in 1 / 16 of a sample, in a window of that size."""
    points: list[list[int]] = corners.tolist()
    pairs = zip(points[-1:] + points[:-1], points, strict=True)
    edges = [_edge(_in_row(*a), _in_row(*b), size_wh=size_wh) for a, b in pairs]
    return np.array(edges, _EDGE).view(np.uint8)


def _in_row(x: int, y: int) -> Corner:
    """A corner in the row that it is rounded to, with 16 bits of fraction in x."""
    return x * (_ONE >> SUBPIXEL_BITS), (y + (1 << (SUBPIXEL_BITS - 1))) >> SUBPIXEL_BITS


def _edge(a: Corner, b: Corner, *, size_wh: tuple[int, int]) -> tuple[Any, ...]:
    """One edge. What leaves the window is followed as the line that is left of it, which begins in whole samples."""
    (x1, y1), (x2, y2) = (((x + _ONE // 2) >> _BITS, y) for x, y in (a, b))
    is_drawn, line = True, (x1, y1, x2, y2)
    start, end = a, b
    if not all(0 <= x < size_wh[0] and 0 <= y < size_wh[1] for x, y in ((x1, y1), (x2, y2))):
        is_drawn, (left, top), (right, bottom) = cv2.clipLine((0, 0, *size_wh), (x1, y1), (x2, y2))
        line = (left, top, right, bottom)
        is_cut = top != bottom
        start, end = (left << _BITS, top if is_cut else y1), (right << _BITS, bottom if is_cut else y2)
    if y1 == y2:
        return line, is_drawn, 0, 0, 0, 0, 0
    step = _quotient(end[0] - start[0], end[1] - start[1])
    first = start[0] + (y1 - start[1]) * step if y1 < y2 else end[0] + (y2 - end[1]) * step
    return line, is_drawn, min(y1, y2), max(y1, y2), 0, first, step


def _quotient(a: int, b: int) -> int:
    """Division towards zero."""
    return a // b if (a < 0) == (b < 0) or a % b == 0 else a // b + 1
