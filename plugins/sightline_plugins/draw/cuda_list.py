"""Drawing commands of one frame as tables for a kernel.

The shapes and their meaning are those of `draw/planes.py`, and the pixels are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from sightline.media import PixelFormat
from sightline.media.shapes import Mask
from sightline_plugins.cuda.records import Bytes, DeviceData, Packing
from sightline_plugins.draw import cpu as cpu_draw
from sightline_plugins.draw.cpu import SUBPIXEL_BITS, Color, Points, Rect, Samples, TextMask
from sightline_plugins.draw.heat import Heat, warm_part
from sightline_plugins.opencv import cv2

Corners: TypeAlias = npt.NDArray[np.int32]
Corner: TypeAlias = tuple[int, int]

FILL, TEXT, TINT, AREA, STROKE, HEAT = range(6)
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


Commands = npt.NDArray[np.int32]
_LEFT, _DATA, _COUNT, _WIDTH = (COMMAND_FIELDS.index(name) for name in ("left", "data", "count", "width"))
_PIECES = 16
"""Of a line, in one command: so many have one rectangle around them."""
_MARGIN = 4
_CORNER_BYTES = 16


class PenFields(NamedTuple):
    """What strokes of one width have in common; the names are those of `COMMAND_FIELDS`."""

    table: int
    width: int
    is_smooth: int
    radius: int
    corner_count: int


class PlaneCommands:
    """What is drawn on one plane, in order."""

    def __init__(self, shape: Sequence[int], *, right: int, down: int) -> None:
        self.height, self.width = shape[:2]
        self.channels = shape[2] if len(shape) == 3 else 1
        self.right, self.down = right, down
        self._rows: list[list[int]] = []
        self._strokes: list[int] = []
        self._ways: list[Points] = []
        self._points = 0

    def window(self, rect: Rect) -> Rect:
        """The samples that a rectangle of the image covers, cut to the plane; perhaps none."""
        left, top, right, bottom = rect
        across, along = (1 << self.right) - 1, (1 << self.down) - 1
        return (
            max(left, 0) >> self.right,
            max(top, 0) >> self.down,
            min(max(right + across, 0) >> self.right, self.width),
            min(max(bottom + along, 0) >> self.down, self.height),
        )

    def note(
        self,
        kind: int,
        rect: Rect,
        *,
        ink: int = 0,
        data: int = 0,
        pitch: int = 0,
        table: int = 0,
        count: int = 0,
        origin_xy: tuple[int, int] = (0, 0),
        step_xy: tuple[int, int] = (0, 0),
    ) -> None:
        """Draw something in a rectangle of samples; nothing where it is empty."""
        if rect[0] < rect[2] and rect[1] < rect[3]:
            self._rows.append([kind, *rect, ink, data, pitch, table, count, *origin_xy, *step_xy, 0, 0, 0, 0, 0, 0])

    def note_way(self, points: Points, pen: PenFields, *, ink: int, round_start: bool) -> None:
        """Draw a line through points (N, 2) of the image."""
        last = len(points) - 1
        if last < 1:
            return
        for start in range(0, last, _PIECES):
            count, first, is_round = min(_PIECES, last - start), self._points + start, round_start and start == 0
            self._strokes.append(len(self._rows))
            self._rows.append(
                [STROKE, 0, 0, 0, 0, ink, first, 0, pen.table, count, 0, 0, 0, 0, pen.width, is_round, *pen[2:], 0]
            )
        self._ways.append(points)
        self._points += len(points)

    def commands(self) -> tuple[Commands, Commands]:
        """Everything, as rows of `COMMAND_FIELDS`, and the points of its lines (N, 2) in 1 / 16 of a sample."""
        commands = np.array(self._rows, np.int32).reshape(-1, len(COMMAND_FIELDS))
        if not self._strokes:
            return commands, np.empty((0, 2), np.int32)
        fixed = cpu_draw.fixed_point(cast("Points", np.concatenate(self._ways)))
        points = np.ascontiguousarray(cpu_draw.in_plane(fixed, right=self.right, down=self.down))
        strokes = commands[self._strokes]
        first = strokes[:, _DATA]
        ends = points[first + strokes[:, _COUNT]]
        margin = (strokes[:, _WIDTH, None] + 1) // 2 + _MARGIN
        low = (np.minimum(np.minimum.reduceat(points, first), ends) >> cpu_draw.SUBPIXEL_BITS) - margin
        high = (np.maximum(np.maximum.reduceat(points, first), ends) >> cpu_draw.SUBPIXEL_BITS) + margin
        commands[self._strokes, _LEFT : _LEFT + 2] = np.maximum(low, 0)
        commands[self._strokes, _LEFT + 2 : _LEFT + 4] = np.minimum(high, (self.width, self.height))
        is_seen = (commands[:, _LEFT : _LEFT + 2] < commands[:, _LEFT + 2 : _LEFT + 4]).all(axis=1)
        return commands[is_seen], points


class DrawList:
    """Notes down what is drawn on an image of that format and size. Not for several threads at once."""

    def __init__(self, pixel_format: PixelFormat, *, size_wh: tuple[int, int]) -> None:
        right, down = pixel_format.chroma_shift
        self.shapes = pixel_format.plane_shapes(size_wh)
        self.data = Packing()
        self.data.place(smoothness())
        self.planes = tuple(
            PlaneCommands(shape, right=right if index else 0, down=down if index else 0)
            for index, shape in enumerate(self.shapes)
        )

    def fill(self, rect: Rect, ink: Color) -> None:
        """See `planes.fill`."""
        for index, plane in enumerate(self.planes):
            plane.note(FILL, plane.window(rect), ink=packed(ink.scalar(index)))

    def outline(self, rect: Rect, ink: Color, *, thickness: int) -> None:
        """See `planes.outline`."""
        for part in cpu_draw.frame(rect, thickness=thickness):
            self.fill(part, ink)

    def polyline(self, points: Points, ink: Color, *, thickness: int, closed: bool = False) -> None:
        """See `planes.polyline`."""
        self.polylines(points[None], ink, thickness=thickness, closed=closed)

    def polylines(
        self,
        lines: Points,
        ink: Color,
        *,
        thickness: int,
        closed: bool = False,
        smooth: bool = True,
        luma_only: bool = False,
    ) -> None:
        """See `planes.polylines`; `luma_only` leaves the other planes as they are."""
        ways = lines if not closed else np.concatenate([lines[:, -1:], lines], axis=1)
        for index, plane in enumerate(self.planes[:1] if luma_only else self.planes):
            pen = self._pen(plane, thickness, smooth=smooth)
            color = packed(ink.scalar(index))
            for way in ways:
                plane.note_way(way, pen, ink=color, round_start=not closed)

    def tint(self, mask: Mask, ink: Color, *, opacity: float) -> None:
        """See `planes.tint`."""
        height, width = mask.bits.shape
        bits = np.packbits(mask.bits, axis=1)
        for index, plane in enumerate(self.planes):
            across, down = 1 << plane.right, 1 << plane.down
            left, top = -(-max(mask.left, 0) // across), -(-max(mask.top, 0) // down)
            right, bottom = -(-(mask.left + width) // across), -(-(mask.top + height) // down)
            plane.note(
                TINT,
                (left, top, min(right, plane.width), min(bottom, plane.height)),
                data=self.data.place(bits),
                pitch=bits.shape[1] * 8,
                table=self.data.place(cpu_draw.tint_table(ink.scalar(index), opacity)),
                origin_xy=(-mask.left, -mask.top),
                step_xy=(across, down),
            )

    def polygon(self, points: Points, ink: Color, *, opacity: float) -> None:
        """See `planes.polygon`."""
        fixed = cpu_draw.fixed_point(points)
        for index, plane in enumerate(self.planes):
            corners = cpu_draw.in_plane(fixed, right=plane.right, down=plane.down)
            low, high = cpu_draw.around(corners, size_wh=(plane.width, plane.height))
            width, height = (high - low).tolist()
            if width <= 0 or height <= 0:
                continue
            edges = edges_of(corners - (low << cpu_draw.SUBPIXEL_BITS), size_wh=(width, height))
            plane.note(
                AREA,
                (*low.tolist(), *high.tolist()),
                data=self.data.place(edges),
                count=len(points),
                table=self.data.place(cpu_draw.tint_table(ink.scalar(index), opacity)),
            )

    def text(self, mask: TextMask, *, left: int, top: int, tables: Sequence[Samples]) -> None:
        """See `planes.text`."""
        rect = (left, top, left + mask.width, top + mask.height)
        for plane, table in zip(self.planes, tables, strict=True):
            coverage = mask.at(plane.right, plane.down)
            plane.note(
                TEXT,
                plane.window(rect),
                data=self.data.place(coverage),
                pitch=coverage.shape[1],
                table=self.data.place(table),
                origin_xy=(left >> plane.right, top >> plane.down),
            )

    def heat(self, heat: Heat) -> None:
        """See `Heat.draw`."""
        rows, columns = heat.levels.shape
        data = self.data.place(heat.levels)
        for plane, table in zip(self.planes, heat.tables, strict=True):
            rect = warm_part(heat.levels, size_wh=(plane.width, plane.height))
            plane.note(HEAT, rect, data=data, pitch=columns, count=rows, table=self.data.place(table))

    def _pen(self, plane: PlaneCommands, thickness: int, *, smooth: bool) -> PenFields:
        shrink = max(plane.right, plane.down)
        width, is_smooth = cpu_draw.width_in_plane(thickness, shrink=shrink), smooth and not shrink
        ends = round_end(width) if is_smooth else half_widths(width)
        corners = ends.nbytes // _CORNER_BYTES if is_smooth else 0
        return PenFields(self.data.place(ends), width, int(is_smooth), (width + 1) // 2, corners)


def check_plane(array: DeviceData, shape: tuple[int, ...]) -> None:
    """Raises ValueError when an array is not a plane of 8-bit samples of that shape with dense rows."""
    dense_rows = array.strides[1:] == ((shape[2], 1) if len(shape) == 3 else (1,))
    if array.shape != shape or array.dtype != np.uint8 or not dense_rows:
        raise ValueError(
            f"a list for a plane of {shape} cannot be drawn on {array.dtype} of {array.shape}, strides {array.strides}"
        )


def packed(samples: Iterable[int]) -> int:
    """The samples of a colour in one number, the first in its lowest byte."""
    return sum(sample << (8 * place) for place, sample in enumerate(samples))
