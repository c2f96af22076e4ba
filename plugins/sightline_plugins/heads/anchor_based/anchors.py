"""Anchors of RetinaNet and its kin: boxes of several scales and shapes over the cells of a pyramid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sightline_plugins.heads.head import SizeWh
from sightline_plugins.heads.outputs import count_cells

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Anchors:
    """What anchors are made from.

    Each cell of a level has a box of `sizes` (pixels of the input, one for each of `strides`) in every one of `scales`
    and `ratios` (height over width), ratio by ratio, or scale by scale when `scale_first`. It lies around the point at
    `offset` in the cell (0 its upper left corner, 0.5 its middle). `rounded` cuts scaled sizes to whole pixels and
    rounds corners, as torchvision does.
    """

    strides: tuple[int, ...]
    sizes: tuple[float, ...]
    scales: tuple[float, ...]
    ratios: tuple[float, ...]
    offset: float = 0.0
    scale_first: bool = False
    rounded: bool = False

    @property
    def each(self) -> int:
        """How many boxes a cell has."""
        return len(self.scales) * len(self.ratios)

    def count(self, size_wh: SizeWh) -> int:
        """How many boxes there are for an input of that size."""
        return count_cells(size_wh, self.strides) * self.each


@lru_cache(maxsize=16)
def anchor_boxes(anchors: Anchors, size_wh: SizeWh) -> Floats:
    """The anchors (N, 4): centre, width and height in pixels of the input, level by level, row by row. Nobody writes to
    them.
    """
    levels = []
    for stride, size in zip(anchors.strides, anchors.sizes, strict=True):
        columns, rows = (-(-side // stride) for side in size_wh)
        places = (np.arange(columns) + anchors.offset) * stride, (np.arange(rows) + anchors.offset) * stride
        x, y = np.meshgrid(*places)
        around = _around_a_point(anchors, size)
        centres = np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), len(around), axis=0)
        shapes = np.tile(around, (columns * rows, 1))
        levels.append(np.concatenate([centres + shapes[:, :2], shapes[:, 2:]], axis=1))
    boxes = np.concatenate(levels).astype(np.float32)
    boxes.flags.writeable = False
    return boxes


def _around_a_point(anchors: Anchors, size: float) -> npt.NDArray[np.float64]:
    """Shift of the centre, width and height of the boxes of a cell (each, 4)."""
    sides = [int(size * scale) if anchors.rounded else size * scale for scale in anchors.scales]
    if anchors.scale_first:
        pairs = [(side, ratio) for side in sides for ratio in anchors.ratios]
    else:
        pairs = [(side, ratio) for ratio in anchors.ratios for side in sides]
    half = np.array([(side / ratio**0.5, side * ratio**0.5) for side, ratio in pairs]) / 2
    if anchors.rounded:
        half = np.round(half)
    return np.concatenate([np.zeros_like(half), 2 * half], axis=1)
