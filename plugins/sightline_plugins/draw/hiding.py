"""Making parts of an image unrecognisable, on its planes: pure functions that know chroma subsampling and clipping.

What stays of a hidden part is at most one mean value for each of a few cells, however the image is sharpened
afterwards: a blur is made by bringing the part down to these cells and up again, not by a kernel, which could be undone
in part. How few cells that must be was looked up: faces in mosaics of 16 x 16 cells can be told by trained networks
(McPherson, Shokri, Shmatikov, "Defeating image obfuscation with deep learning", 2016), so 8 are the most here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media.shapes import Mask
from sightline_plugins.draw.cpu import Color, Layer, Rect, Samples
from sightline_plugins.opencv import cv2

Method = Literal["blur", "pixelate", "fill"]
Cover: TypeAlias = npt.NDArray[np.uint8]

MOST_CELLS = 8
LEAST_BLOCK = 4


def cells_for(strength: float) -> int:
    """Cells along the longer side of a hidden part: 8 at strength 0, 1 at strength 1."""
    return max(1, MOST_CELLS - round((MOST_CELLS - 1) * strength))


def hide(
    layers: Sequence[Layer], rect: Rect, *, method: Method, cells: int, ink: Color, cover: Cover | None = None
) -> None:
    """Hide a rectangle, by `cells` along its longer side (a cell has 4 pixels at least), or in the colour of `ink`.

    `rect` lies on even pixels and may reach beyond the image. `cover` uint8 (height, width) belongs to the part of
    it that lies in the image (`inside`) and is 0 where pixels stay as they are; chroma that belongs to a covered
    pixel is hidden with it.
    """
    block = block_of(rect, cells=cells)
    for layer, value in zip(layers, ink.planes, strict=True):
        window = layer.window(rect)
        if not window.size:
            continue
        hidden = np.full_like(window, value) if method == "fill" else _coarse(window, layer, block, method=method)
        if cover is None:
            window[...] = hidden
        else:
            cv2.copyTo(hidden, _in_layer(cover, layer, window), window)


def block_of(rect: Rect, *, cells: int) -> int:
    """How many pixels of the image a cell is wide and high, with so many along the longer side of a rectangle."""
    return max(LEAST_BLOCK, math.ceil(max(rect[2] - rect[0], rect[3] - rect[1]) / cells))


def cells_wh_of(size_wh: tuple[int, int], *, right: int, down: int, block: int) -> tuple[int, int]:
    """How many cells a part of a plane has across and down; the plane is smaller than the image by these bits."""
    return max(1, (size_wh[0] << right) // block), max(1, (size_wh[1] << down) // block)


def inside(rect: Rect, *, size_wh: tuple[int, int]) -> Rect:
    """The part of a rectangle that lies in the image, on even pixels as the rectangle; perhaps empty."""
    width, height = size_wh[0] + size_wh[0] % 2, size_wh[1] + size_wh[1] % 2
    left, top = min(max(rect[0], 0), width), min(max(rect[1], 0), height)
    return left, top, max(min(rect[2], width), left), max(min(rect[3], height), top)


def grown(xyxy: Sequence[float], *, margin: float) -> Rect:
    """A box with a margin on each side, as a share of its width and height and 2 pixels at least, on even pixels."""
    left, top, right, bottom = xyxy
    across, along = max(2.0, (right - left) * margin), max(2.0, (bottom - top) * margin)
    return (
        math.floor((left - across) / 2) * 2,
        math.floor((top - along) / 2) * 2,
        math.ceil((right + across) / 2) * 2,
        math.ceil((bottom + along) / 2) * 2,
    )


def ellipse_cover(rect: Rect, *, seen: Rect) -> Cover:
    """The cover of the ellipse that touches a rectangle's sides, for the part of it that is `seen`."""
    x = (2 * np.arange(seen[0], seen[2]) + 1 - rect[0] - rect[2]) / (rect[2] - rect[0])
    y = (2 * np.arange(seen[1], seen[3]) + 1 - rect[1] - rect[3]) / (rect[3] - rect[1])
    cover: Cover = ((x * x)[None] + (y * y)[:, None] <= 1).astype(np.uint8)
    return cover


def mask_cover(mask: Mask, *, margin: int, seen: Rect) -> Cover:
    """The cover of a mask, `margin` pixels wider on all sides, for the rectangle that is `seen`."""
    wide = (seen[0] - margin, seen[1] - margin, seen[2] + margin, seen[3] + margin)
    moved = Mask(mask.left - wide[0], mask.top - wide[1], mask.bits)
    bits = moved.in_image((wide[2] - wide[0], wide[3] - wide[1]))
    distance = cv2.distanceTransform((~bits).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_3)
    cover: Cover = (distance <= margin).view(np.uint8)[margin:-margin, margin:-margin]
    return cover


def bounds_of(mask: Mask) -> tuple[int, int, int, int]:
    """The box that a mask lies in."""
    height, width = mask.bits.shape
    return mask.left, mask.top, mask.left + width, mask.top + height


def _coarse(window: Samples, layer: Layer, block: int, *, method: Method) -> Samples:
    """The samples as means of square blocks, `block` pixels wide; smooth between them in a blur."""
    height, width = window.shape[:2]
    cells_wh = cells_wh_of((width, height), right=layer.right, down=layer.down, block=block)
    small = cv2.resize(window, cells_wh, interpolation=cv2.INTER_AREA)
    upwards = cv2.INTER_LINEAR if method == "blur" else cv2.INTER_NEAREST
    coarse: Samples = cv2.resize(small, (width, height), interpolation=upwards).reshape(window.shape)
    return coarse


def _in_layer(cover: Cover, layer: Layer, window: Samples) -> Cover:
    """The cover of a plane's samples: those with any covered pixel."""
    rows = np.maximum(cover[::2], cover[1::2]) if layer.down else cover
    samples = np.maximum(rows[:, ::2], rows[:, 1::2]) if layer.right else rows
    return np.ascontiguousarray(samples[: window.shape[0], : window.shape[1]])
