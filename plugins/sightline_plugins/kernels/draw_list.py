"""What is drawn on one picture on the device: shapes are noted down here and drawn all at once.

The shapes and their meaning are those of `draw/planes.py`, and the pixels are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import PixelFormat
from sightline.media.shapes import Mask
from sightline_plugins.draw import planes
from sightline_plugins.draw.glyphs import TextMask
from sightline_plugins.draw.inks import Ink, Samples
from sightline_plugins.draw.planes import Points, Rect
from sightline_plugins.kernels.device_data import DeviceData
from sightline_plugins.kernels.draw_data import (
    AREA,
    COMMAND_FIELDS,
    FILL,
    STROKE,
    TEXT,
    TINT,
    Bytes,
    edges_of,
    half_widths,
    round_end,
    smoothness,
)

Commands = npt.NDArray[np.int32]
_COLUMNS = {name: column for column, name in enumerate(COMMAND_FIELDS)}
_ALIGNED = 16


class PictureData:
    """The bytes that the commands of one picture refer to; an array that comes twice is there once."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._arrays: list[npt.NDArray[Any]] = []
        self.size_bytes = 0
        self.place(smoothness())

    def place(self, array: npt.NDArray[Any]) -> int:
        """Where the bytes of an array are; nobody writes to it any more."""
        found = self._places.get(id(array))
        if found is None:
            found = self._places[id(array)] = self.size_bytes
            self._arrays.append(array)
            self.size_bytes += -(-array.nbytes // _ALIGNED) * _ALIGNED
        return found

    def write(self, to: Bytes) -> None:
        """Write all of them into `size_bytes` bytes."""
        for array in self._arrays:
            start = self._places[id(array)]
            to[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class PlaneCommands:
    """What is drawn on one plane, in order."""

    def __init__(self, shape: Sequence[int], *, right: int, down: int) -> None:
        self.height, self.width = shape[:2]
        self.channels = shape[2] if len(shape) == 3 else 1
        self.right, self.down = right, down
        self._noted: list[list[int]] = []
        self._finished: list[Commands] = []

    def window(self, rect: Rect) -> Rect:
        """The samples that a rectangle of the picture covers, cut to the plane; perhaps none."""
        left, top, right, bottom = rect
        across, along = (1 << self.right) - 1, (1 << self.down) - 1
        return (
            max(left, 0) >> self.right,
            max(top, 0) >> self.down,
            min(max(right + across, 0) >> self.right, self.width),
            min(max(bottom + along, 0) >> self.down, self.height),
        )

    def note(self, kind: int, rect: Rect, **fields: int) -> None:
        """Draw something in a rectangle of samples; nothing where it is empty."""
        if rect[0] < rect[2] and rect[1] < rect[3]:
            self._noted.append([kind, *rect, *(fields.get(name, 0) for name in COMMAND_FIELDS[5:])])

    def note_all(self, commands: Commands) -> None:
        """Draw commands that are made already."""
        self._finish()
        self._finished.append(commands)

    def commands(self) -> Commands:
        """Everything, as rows of `COMMAND_FIELDS`."""
        self._finish()
        return np.concatenate([np.empty((0, len(COMMAND_FIELDS)), np.int32), *self._finished])

    def _finish(self) -> None:
        if self._noted:
            self._finished.append(np.array(self._noted, np.int32))
            self._noted = []


class DrawList:
    """Notes down what is drawn on a picture of that format and size. Not for several threads at once."""

    def __init__(self, pixel_format: PixelFormat, *, size_wh: tuple[int, int]) -> None:
        right, down = pixel_format.chroma_shift
        self.shapes = pixel_format.plane_shapes(size_wh)
        self.data = PictureData()
        self.planes = tuple(
            PlaneCommands(shape, right=right if index else 0, down=down if index else 0)
            for index, shape in enumerate(self.shapes)
        )

    def fill(self, rect: Rect, ink: Ink) -> None:
        """See `planes.fill`."""
        for index, plane in enumerate(self.planes):
            plane.note(FILL, plane.window(rect), ink=packed(ink.scalar(index)))

    def outline(self, rect: Rect, ink: Ink, *, thickness: int) -> None:
        """See `planes.outline`."""
        for part in planes.frame(rect, thickness=thickness):
            self.fill(part, ink)

    def polyline(self, points: Points, ink: Ink, *, thickness: int, closed: bool = False) -> None:
        """See `planes.polyline`."""
        self.polylines(points[None], ink, thickness=thickness, closed=closed)

    def polylines(
        self,
        lines: Points,
        ink: Ink,
        *,
        thickness: int,
        closed: bool = False,
        smooth: bool = True,
        luma_only: bool = False,
    ) -> None:
        """See `planes.polylines`; `luma_only` leaves the other planes as they are."""
        fixed = planes.fixed_point(lines)
        for index, plane in enumerate(self.planes[:1] if luma_only else self.planes):
            shrink = max(plane.right, plane.down)
            points = planes.in_plane(fixed, right=plane.right, down=plane.down)
            width = planes.width_in_plane(thickness, shrink=shrink)
            is_smooth = smooth and not shrink
            strokes = _strokes(points, closed=closed, width=width, plane=plane)
            ends = round_end(width) if is_smooth else half_widths(width)
            _set(strokes, kind=STROKE, ink=packed(ink.scalar(index)), width=width, is_smooth=is_smooth)
            _set(strokes, radius=(width + 1) // 2, count=ends.nbytes // 16)
            _set(strokes, **{"data" if is_smooth else "table": self.data.place(ends)})
            plane.note_all(strokes)

    def tint(self, mask: Mask, ink: Ink, *, opacity: float) -> None:
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
                table=self.data.place(planes.tint_table(ink.scalar(index), opacity)),
                x=-mask.left,
                y=-mask.top,
                across=across,
                down=down,
            )

    def polygon(self, points: Points, ink: Ink, *, opacity: float) -> None:
        """See `planes.polygon`."""
        fixed = planes.fixed_point(points)
        for index, plane in enumerate(self.planes):
            corners = planes.in_plane(fixed, right=plane.right, down=plane.down)
            low, high = planes.around(corners, size_wh=(plane.width, plane.height))
            width, height = (high - low).tolist()
            if width <= 0 or height <= 0:
                continue
            edges = edges_of(corners - (low << planes.SUBPIXEL_BITS), size_wh=(width, height))
            plane.note(
                AREA,
                (*low.tolist(), *high.tolist()),
                data=self.data.place(edges),
                count=len(points),
                table=self.data.place(planes.tint_table(ink.scalar(index), opacity)),
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
                x=left >> plane.right,
                y=top >> plane.down,
            )


def check_plane(array: DeviceData, shape: tuple[int, ...]) -> None:
    """Raises ValueError when an array is not a plane of 8-bit samples of that shape with dense rows."""
    dense_rows = array.strides[1:] == ((shape[2], 1) if len(shape) == 3 else (1,))
    if array.shape != shape or array.dtype != np.uint8 or not dense_rows:
        raise ValueError(
            f"a list for a plane of {shape} can not be drawn on {array.dtype} of {array.shape}, strides {array.strides}"
        )


def packed(samples: Iterable[int]) -> int:
    """The samples of a colour in one number, the first in its lowest byte."""
    return sum(sample << (8 * place) for place, sample in enumerate(samples))


def _strokes(points: npt.NDArray[np.int32], *, closed: bool, width: int, plane: PlaneCommands) -> Commands:
    """The pieces of lines (L, N, 2), in order, without what is the same for all."""
    starts = np.roll(points, 1, axis=1) if closed else points[:, :-1]
    ends = points if closed else points[:, 1:]
    round_ends = np.full(ends.shape[:2], 2)
    if not closed:
        round_ends[:, :1] = 3
    starts, ends = starts.reshape(-1, 2), ends.reshape(-1, 2)
    margin = (width + 1) // 2 + 4
    low = (np.minimum(starts, ends) >> planes.SUBPIXEL_BITS) - margin
    high = (np.maximum(starts, ends) >> planes.SUBPIXEL_BITS) + margin
    strokes = np.zeros((len(ends), len(COMMAND_FIELDS)), np.int32)
    _set(strokes, left=np.maximum(low[:, 0], 0), right=np.minimum(high[:, 0], plane.width))
    _set(strokes, top=np.maximum(low[:, 1], 0), bottom=np.minimum(high[:, 1], plane.height))
    _set(strokes, x=starts[:, 0], y=starts[:, 1], x_end=ends[:, 0], y_end=ends[:, 1])
    _set(strokes, round_ends=round_ends.ravel())
    return strokes


def _set(commands: Commands, **fields: Any) -> None:
    for name, values in fields.items():
        commands[:, _COLUMNS[name]] = values
