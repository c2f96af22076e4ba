"""Draw heat maps into the planes of a surface on the CPU. This defines the results.

The grid is stretched over the frame, bilinear between the middles of its cells, in whole numbers: a kernel gets the
same levels. A sample v becomes v * keep / 255, rounded, plus the share of the colour, both by a table of the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import HeatLayer
from sightline_plugins.draw.cpu import Kind, Layer, Rect, Samples, color_from_rgb
from sightline_plugins.opencv import cv2

LEVELS = 256
_FAINT = 64
"""Levels below are the more transparent, the lower they are."""
_BITS = 8
_ONE = 1 << _BITS

Fixed: TypeAlias = npt.NDArray[np.int64]


@cache
def heat_colors() -> Samples:
    """The colours of the levels, (256, 3) RGB: inferno (van der Walt and Smith, 2015), whose steps look equal."""
    ramp = cv2.applyColorMap(np.arange(LEVELS, dtype=np.uint8), cv2.COLORMAP_INFERNO)
    return np.ascontiguousarray(np.asarray(ramp, np.uint8).reshape(LEVELS, 3)[:, ::-1])


def heat_tables(kind: Kind, *, opacity: float) -> tuple[Samples, ...]:
    """For each plane a table (256, 1 + samples): of each level, how much of the image is kept, and what is added."""
    share = opacity * np.minimum(np.arange(LEVELS) / _FAINT, 1)
    keep = np.rint(255 * (1 - share)).astype(np.int64)
    colors = [color_from_rgb((red, green, blue), kind) for red, green, blue in heat_colors().tolist()]
    tables = []
    for plane in range(len(colors[0].planes)):
        samples = np.array([color.scalar(plane) for color in colors], np.float64)
        added = np.minimum(np.rint(samples * share[:, None]).astype(np.int64), 255 - keep[:, None])
        tables.append(np.concatenate([keep[:, None], added], axis=1).astype(np.uint8))
    return tuple(tables)


def warm_part(levels: Samples, *, size_wh: tuple[int, int]) -> Rect:
    """The samples of a plane of that size that a grid of levels (rows, columns) changes; empty where it is all 0."""
    rows, columns = np.flatnonzero(levels.any(axis=1)), np.flatnonzero(levels.any(axis=0))
    if not len(rows):
        return 0, 0, 0, 0
    (width, height), (down, across) = size_wh, levels.shape
    # A cell reaches to the middles of its neighbours.
    left, right = (
        (2 * int(columns[0]) - 1) * width // (2 * across),
        -(-(2 * int(columns[-1]) + 3) * width // (2 * across)),
    )
    top, bottom = (2 * int(rows[0]) - 1) * height // (2 * down), -(-(2 * int(rows[-1]) + 3) * height // (2 * down))
    return max(left, 0), max(top, 0), min(right, width), min(bottom, height)


def stretched(levels: Samples, *, size_wh: tuple[int, int], rect: Rect) -> Samples:
    """The levels of the samples in a rectangle of a plane of that size, (bottom - top, right - left)."""
    left, top, right, bottom = rect
    column, beside = _places(np.arange(left, right), cells=levels.shape[1], size=size_wh[0])
    row, below = _places(np.arange(top, bottom), cells=levels.shape[0], size=size_wh[1])
    wide = levels.astype(np.int32)
    last = np.array(levels.shape) - 1
    across = wide[:, column] * (_ONE - beside) + wide[:, np.minimum(column + 1, last[1])] * beside
    mixed = across[row] * (_ONE - below)[:, None] + across[np.minimum(row + 1, last[0])] * below[:, None]
    rounded: Samples = ((mixed + (1 << (2 * _BITS - 1))) >> (2 * _BITS)).astype(np.uint8)
    return rounded


def _places(samples: npt.NDArray[np.intp], *, cells: int, size: int) -> tuple[Fixed, npt.NDArray[np.int32]]:
    """For each sample, the cell before it, and how many 256ths it is on the way to the next one."""
    places = (2 * samples.astype(np.int64) + 1) * cells * (_ONE // 2) // size - _ONE // 2
    places = np.clip(places, 0, (cells - 1) * _ONE)
    return places >> _BITS, (places & (_ONE - 1)).astype(np.int32)


class Heat:
    """A heat layer as it is drawn on frames of one size and kind. What is stretched is kept, so that drawing it again
    costs two passes over the part that is not empty.
    """

    def __init__(self, layer: HeatLayer, *, kind: Kind) -> None:
        self.levels = layer.levels
        self.tables = heat_tables(kind, opacity=layer.opacity)
        self._kept: dict[int, tuple[Rect, Samples, Samples]] = {}

    def draw(self, layers: Sequence[Layer]) -> None:
        """Draw it on an image."""
        for number, layer in enumerate(layers):
            rect, keep, added = self._weights(number, layer.plane)
            left, top, right, bottom = rect
            window = layer.plane[top:bottom, left:right]
            if window.size:
                window[...] = cv2.add(cv2.multiply(window, keep, scale=1 / 255), added)

    def _weights(self, number: int, plane: Samples) -> tuple[Rect, Samples, Samples]:
        """What is kept and what is added of each sample of a plane, and of which part of it."""
        found = self._kept.get(number)
        if found is None:
            size_wh = (plane.shape[1], plane.shape[0])
            rect = warm_part(self.levels, size_wh=size_wh)
            levels, table = stretched(self.levels, size_wh=size_wh, rect=rect), self.tables[number]
            added = table[:, 1:][levels].reshape(*levels.shape, *plane.shape[2:])
            keep = np.broadcast_to(table[:, 0][levels].reshape(*levels.shape, *(1,) * (plane.ndim - 2)), added.shape)
            found = self._kept[number] = (rect, np.ascontiguousarray(keep), np.ascontiguousarray(added))
        return found
