"""Draw shapes and text into the planes of a surface on the CPU. This defines the results.

OpenCV 5 brings outline fonts that know all of Unicode; before it there are only the Hershey stroke fonts, which know
ASCII and show `?` for the rest. The masks are the only thing that differs.

Coordinates are pixels of the image. Rectangles are half-open integers; where chroma is subsampled, an edge that is
even in luma falls on an edge of chroma, so callers snap to even numbers (`snap`). All shapes may lie partly or wholly
outside the image. `layers_of` gives the planes; the surface must be writable.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.color import yuv_from_rgb
from sightline.media.shapes import Mask
from sightline_plugins.opencv import cv2

Samples = npt.NDArray[np.uint8]
Rgb: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Color:
    """A colour in the samples of each plane: a number, or an array of shape (samples,) where they are interleaved."""

    planes: tuple[int | Samples, ...]

    def scalar(self, plane: int) -> tuple[int, ...]:
        """The samples of one plane as OpenCV takes a colour."""
        value = self.planes[plane]
        return (value,) if isinstance(value, int) else tuple(value.tolist())


@dataclass(frozen=True, slots=True)
class Kind:
    """What decides how a colour is written into planes."""

    format: PixelFormat
    matrix: ColorMatrix
    range: ColorRange

    @classmethod
    def of(cls, surface: Surface) -> Kind:
        """The kind of a surface."""
        return cls(surface.format, surface.matrix, surface.range)


def color_from_rgb(rgb: Rgb, kind: Kind) -> Color:
    """The colour by the kind's matrix and range."""
    if kind.format is PixelFormat.RGB24:
        return Color((np.array(rgb, np.uint8),))
    if kind.format is PixelFormat.BGR24:
        return Color((np.array(rgb[::-1], np.uint8),))
    affine = yuv_from_rgb(kind.matrix, kind.range)
    samples = np.clip(np.rint(affine[:, :3] @ np.array(rgb) + affine[:, 3]), 0, 255).astype(np.uint8)
    y, u, v = samples.tolist()
    if kind.format is PixelFormat.GRAY8:
        return Color((y,))
    return Color((y, samples[1:]) if kind.format is PixelFormat.NV12 else (y, u, v))


def blend_tables(back: Color, front: Color) -> tuple[Samples, ...]:
    """For each plane, the samples from `back` (row 0) to `front` (row 255), shape (256,) or (256, samples)."""
    return tuple(
        _ramp(np.asarray(first), np.asarray(last)) for first, last in zip(back.planes, front.planes, strict=True)
    )


def _ramp(first: Samples, last: Samples) -> Samples:
    weight = np.linspace(0, 1, 256).reshape(-1, *(1,) * first.ndim)
    mixed: Samples = np.rint(first * (1 - weight) + last * weight).astype(np.uint8)
    return mixed


class Colors:
    """The colours of one kind of surface, each worked out once."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._inks: dict[Rgb, Color] = {}
        self._tables: dict[tuple[Rgb, Rgb], tuple[Samples, ...]] = {}

    def ink(self, rgb: Rgb) -> Color:
        """The colour as samples."""
        found = self._inks.get(rgb)
        if found is None:
            found = self._inks[rgb] = color_from_rgb(rgb, self._kind)
        return found

    def tables(self, back: Rgb, front: Rgb) -> tuple[Samples, ...]:
        """The tables that blend from one colour to another; see `blend_tables`."""
        found = self._tables.get((back, front))
        if found is None:
            found = self._tables[back, front] = blend_tables(self.ink(back), self.ink(front))
        return found


GlyphMask = npt.NDArray[np.uint8]

_KEPT = 2048
_WEIGHT = 500
_HERSHEY_UNIT = 30.0
_ENDLESS_WH = (1 << 20, 1 << 10)


class TextMask:
    """How much each pixel of a line of text and its margin is covered, 0..255, at every subsampling.

    `width` and `height` are even.
    """

    def __init__(self, coverage: GlyphMask) -> None:
        self.height, self.width = coverage.shape
        self._by_shift = {(0, 0): coverage}

    def at(self, right: int, down: int) -> GlyphMask:
        """The coverage of samples that are `1 << right` pixels wide and `1 << down` high."""
        found = self._by_shift.get((right, down))
        if found is None:
            full = self._by_shift[0, 0]
            blocks = full.reshape(self.height >> down, 1 << down, self.width >> right, 1 << right)
            found = self._by_shift[right, down] = np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)
        return found


class Typesetter:
    """Renders lines of text and keeps the last ones used."""

    def __init__(self, *, outline_font: bool = hasattr(cv2, "FontFace")) -> None:
        self._font: Any = cv2.FontFace("sans") if outline_font else None
        self._kept: OrderedDict[tuple[str, int], TextMask] = OrderedDict()

    def mask(self, line: str, *, size: int) -> TextMask:
        """The line at a size in pixels, with a margin around it."""
        key = (line, size)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        if len(self._kept) >= _KEPT:
            self._kept.popitem(last=False)
        made = self._kept[key] = TextMask(self._render(line, size))
        return made

    def _render(self, line: str, size: int) -> GlyphMask:
        margin = max(2, round(size * 0.25))
        height = _even(round(size * 1.3))
        baseline = round(height / 2 + size * 0.36)
        if self._font is None:
            return self._render_strokes(line, size, margin=margin, height=height, baseline=baseline)
        left, _, width, _ = cv2.getTextSize(_ENDLESS_WH, line, (margin, baseline), self._font, size, _WEIGHT)
        coverage = np.zeros((height, _even(left + width + margin)), np.uint8)
        cv2.putText(coverage, line, (margin, baseline), 255, self._font, size, _WEIGHT)
        return coverage

    @staticmethod
    def _render_strokes(line: str, size: int, *, margin: int, height: int, baseline: int) -> GlyphMask:
        font, scale, stroke = cv2.FONT_HERSHEY_SIMPLEX, size / _HERSHEY_UNIT, max(1, round(size / 12))
        (width, _), _ = cv2.getTextSize(line, font, scale, stroke)
        coverage = np.zeros((height, _even(width + 2 * margin)), np.uint8)
        cv2.putText(coverage, line, (margin, baseline), font, scale, 255, stroke, cv2.LINE_AA)
        return coverage


def _even(number: int) -> int:
    return number + number % 2


Rect: TypeAlias = tuple[int, int, int, int]
Points: TypeAlias = npt.NDArray[np.floating[Any]] | npt.NDArray[np.int32]

SUBPIXEL_BITS = 4
_FARTHEST = 30_000.0


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One plane, and by how many bits it is narrower and lower than the image."""

    plane: Samples
    right: int
    down: int

    def window(self, rect: Rect) -> Samples:
        """The samples that a rectangle of the image covers, cut to the plane: a view."""
        left, top, right, bottom = rect
        across, along = (1 << self.right) - 1, (1 << self.down) - 1
        return self.plane[
            max(top, 0) >> self.down : max(bottom + along, 0) >> self.down,
            max(left, 0) >> self.right : max(right + across, 0) >> self.right,
        ]


def layers_of(surface: Surface) -> tuple[Layer, ...]:
    """The planes of a surface in host memory, luma first."""
    right, down = surface.format.chroma_shift
    return tuple(
        Layer(plane, right if index else 0, down if index else 0) for index, plane in enumerate(surface.planes)
    )


def snap(xyxy: npt.NDArray[np.float32]) -> list[Rect]:
    """Boxes (N, 4) grown outwards to even integers."""
    even = np.empty(xyxy.shape, np.int32)
    limited = np.clip(np.nan_to_num(xyxy), -_FARTHEST, _FARTHEST)
    even[:, :2] = np.floor(limited[:, :2] / 2) * 2
    even[:, 2:] = np.ceil(limited[:, 2:] / 2) * 2
    edges: Any = even.tolist()
    return [(left, top, right, bottom) for left, top, right, bottom in edges]


def fill(layers: Sequence[Layer], rect: Rect, ink: Color) -> None:
    """Fill a rectangle."""
    for layer, value in zip(layers, ink.planes, strict=True):
        layer.window(rect)[...] = value


def outline(layers: Sequence[Layer], rect: Rect, ink: Color, *, thickness: int) -> None:
    """Draw the frame of a rectangle, `thickness` pixels wide, just inside it."""
    left, top, right, bottom = rect
    height, width = layers[0].plane.shape[:2]
    is_frame = min(right - left, bottom - top) > 2 * thickness
    if is_frame and left >= 0 and top >= 0 and right <= width and bottom <= height:
        _outline_inside(layers, rect, ink, thickness=thickness)
        return
    for part in frame(rect, thickness=thickness):
        fill(layers, part, ink)


def frame(rect: Rect, *, thickness: int) -> tuple[Rect, ...]:
    """The rectangles of which the frame of a rectangle is made; the rectangle itself when it is not wider than that."""
    left, top, right, bottom = rect
    if min(right - left, bottom - top) <= 2 * thickness:
        return (rect,)
    return (
        (left, top, right, top + thickness),
        (left, bottom - thickness, right, bottom),
        (left, top + thickness, left + thickness, bottom - thickness),
        (right - thickness, top + thickness, right, bottom - thickness),
    )


def _outline_inside(layers: Sequence[Layer], rect: Rect, ink: Color, *, thickness: int) -> None:
    for layer, value in zip(layers, ink.planes, strict=True):
        window = layer.window(rect)
        across = (thickness + (1 << layer.right) - 1) >> layer.right
        along = (thickness + (1 << layer.down) - 1) >> layer.down
        window[:along] = value
        window[-along:] = value
        window[:, :across] = value
        window[:, -across:] = value


def polyline(layers: Sequence[Layer], points: Points, ink: Color, *, thickness: int, closed: bool = False) -> None:
    """Draw a line through points (N, 2): anti-aliased in full planes, plain in subsampled ones."""
    polylines(layers, points[None], ink, thickness=thickness, closed=closed)


def polylines(
    layers: Sequence[Layer], lines: Points, ink: Color, *, thickness: int, closed: bool = False, smooth: bool = True
) -> None:
    """Draw lines (L, N, 2), each through its N points; a line from a point to itself is a round dot.

    Lines that are not `smooth` have steps instead of anti-aliased edges, and cost a fraction.
    """
    fixed = fixed_point(lines)
    for index, layer in enumerate(layers):
        shrink = max(layer.right, layer.down)
        cv2.polylines(
            layer.plane,
            list(in_plane(fixed, right=layer.right, down=layer.down)),
            isClosed=closed,
            color=ink.scalar(index),
            thickness=width_in_plane(thickness, shrink=shrink),
            lineType=cv2.LINE_AA if smooth and not shrink else cv2.LINE_8,
            shift=SUBPIXEL_BITS,
        )


def width_in_plane(thickness: int, *, shrink: int) -> int:
    """The width of a line in a plane that is smaller than the image by `shrink` bits."""
    return (thickness >> shrink) + 1 if shrink else thickness


def tint(layers: Sequence[Layer], mask: Mask, ink: Color, *, opacity: float) -> None:
    """Colour the pixels of a mask, letting the image shine through; chroma follows the first pixel of its block."""
    height, width = mask.bits.shape
    for index, layer in enumerate(layers):
        across, down = 1 << layer.right, 1 << layer.down
        left, top = -(-max(mask.left, 0) // across), -(-max(mask.top, 0) // down)
        bits = mask.bits[top * down - mask.top : height : down, left * across - mask.left : width : across]
        window = layer.plane[top : top + bits.shape[0], left : left + bits.shape[1]]
        if window.size:
            shown = np.ascontiguousarray(bits[: window.shape[0], : window.shape[1]]).view(np.uint8)
            cv2.copyTo(cv2.LUT(window, tint_table(ink.scalar(index), opacity)), shown, window)


def polygon(layers: Sequence[Layer], points: Points, ink: Color, *, opacity: float) -> None:
    """Fill a polygon (N, 2), by the even-odd rule, letting the image shine through."""
    fixed = fixed_point(points)
    for index, layer in enumerate(layers):
        corners = in_plane(fixed, right=layer.right, down=layer.down)
        height, width = layer.plane.shape[:2]
        origin, end = around(corners, size_wh=(width, height))
        window = layer.plane[origin[1] : end[1], origin[0] : end[0]]
        if window.size == 0:
            continue
        mask = np.zeros(window.shape[:2], np.uint8)
        cv2.fillPoly(mask, [corners - (origin << SUBPIXEL_BITS)], 255, shift=SUBPIXEL_BITS)
        tinted = cv2.LUT(window, tint_table(ink.scalar(index), opacity))
        cv2.copyTo(tinted, mask, window)


def text(layers: Sequence[Layer], mask: TextMask, *, left: int, top: int, tables: Sequence[Samples]) -> None:
    """Put text on its background: `tables` blend from the background's colour to the text's, see `blend_tables`.

    `left` and `top` are even; the text is cut where it leaves the image.
    """
    rect = (left, top, left + mask.width, top + mask.height)
    for layer, table in zip(layers, tables, strict=True):
        window = layer.window(rect)
        if window.size == 0:
            continue
        across, down = max(-left, 0) >> layer.right, max(-top, 0) >> layer.down
        coverage = mask.at(layer.right, layer.down)[down : down + window.shape[0], across : across + window.shape[1]]
        window[...] = cv2.LUT(coverage, table) if table.ndim == 1 else np.take(table, coverage, axis=0, mode="clip")


def fixed_point(points: Points) -> npt.NDArray[np.int32]:
    """Points of the image in OpenCV's fixed-point coordinates, which count from pixel centres."""
    inside = np.minimum(np.maximum(points, -_FARTHEST), _FARTHEST)
    fixed: npt.NDArray[np.int32] = np.rint(inside * (1 << SUBPIXEL_BITS)).astype(np.int32)
    return fixed


def in_plane(fixed: npt.NDArray[np.int32], *, right: int, down: int) -> npt.NDArray[np.int32]:
    """The same points counted from the centres of the samples of a plane; see `Layer`."""
    if not (right or down):
        return fixed
    half = 1 << (SUBPIXEL_BITS - 1)
    moved: npt.NDArray[np.int32] = ((fixed + half) >> np.array([right, down], np.int32)) - half
    return moved


def around(
    corners: npt.NDArray[np.int32], *, size_wh: tuple[int, int]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Where the part of a plane of that size around fixed-point corners starts and ends (x, y)."""
    low = np.clip(corners.min(axis=0) >> SUBPIXEL_BITS, 0, size_wh).astype(np.int32)
    high = np.clip((corners.max(axis=0) >> SUBPIXEL_BITS) + 2, 0, size_wh).astype(np.int32)
    return low, high


def tint_table(samples: tuple[int, ...], opacity: float) -> Samples:
    """What each level becomes when a colour shines through, (256, 1, samples)."""
    levels = np.arange(256)[:, None] * (1 - opacity) + np.array(samples) * opacity
    table: Samples = np.rint(levels).astype(np.uint8).reshape(256, 1, len(samples))
    return table
