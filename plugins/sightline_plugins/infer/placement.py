"""Where a picture lies in the network's input, and the way back: the one place that computes letterboxes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from sightline.media.boxes import Boxes

Fit = Literal["letterbox", "stretch"]
Align = Literal["center", "top_left"]
PixelRegion = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Placement:
    """A region of the picture and the rectangle of the network's input that it fills.

    `region_xyxy` is in whole pixels of the picture, half-open; `inner_xywh` in whole pixels of the network's input.
    """

    region_xyxy: PixelRegion
    inner_xywh: tuple[int, int, int, int]

    @property
    def scale_xy(self) -> tuple[float, float]:
        """Pixels of the picture in one pixel of the network, across and down."""
        left, top, right, bottom = self.region_xyxy
        return (right - left) / self.inner_xywh[2], (bottom - top) / self.inner_xywh[3]

    def picture_from_network(self, xyxy: Boxes) -> Boxes:
        """Boxes (N, 4) in pixels of the network's input -> in pixels of the picture, not clipped."""
        scale = np.array(self.scale_xy * 2, np.float32)
        origin = np.array(self.region_xyxy[:2] * 2, np.float32)
        inner = np.array(self.inner_xywh[:2] * 2, np.float32)
        return (xyxy - inner) * scale + origin


@lru_cache(maxsize=1024)
def place(region_xyxy: PixelRegion, *, size_wh: tuple[int, int], fit: Fit, align: Align) -> Placement:
    """Put a region into a network input of `size_wh`: stretched over all of it, or as large as fits in its own shape.

    A letterbox is rounded to whole pixels; when centred, an odd rest goes to the right and the bottom, as the
    training code of the YOLO family does.
    """
    if fit == "stretch":
        return Placement(region_xyxy, (0, 0, *size_wh))
    left, top, right, bottom = region_xyxy
    factor = min(size_wh[0] / (right - left), size_wh[1] / (bottom - top))
    width = min(max(round((right - left) * factor), 1), size_wh[0])
    height = min(max(round((bottom - top) * factor), 1), size_wh[1])
    if align == "top_left":
        return Placement(region_xyxy, (0, 0, width, height))
    return Placement(region_xyxy, ((size_wh[0] - width) // 2, (size_wh[1] - height) // 2, width, height))


@lru_cache(maxsize=1024)
def region_in_pixels(
    fractions: tuple[float, float, float, float], *, size_wh: tuple[int, int], chroma_shift: tuple[int, int]
) -> PixelRegion:
    """A region given in fractions of the picture, grown outwards to whole chroma samples and cut to the picture."""
    edges = []
    for axis in (0, 1):
        block = 1 << chroma_shift[axis]
        low = int(fractions[axis] * size_wh[axis]) // block * block
        high = -(-int(np.ceil(fractions[axis + 2] * size_wh[axis])) // block) * block
        low = min(low, (size_wh[axis] - 1) // block * block)
        edges.append((low, max(min(high, size_wh[axis]), low + 1)))
    return edges[0][0], edges[1][0], edges[0][1], edges[1][1]
