"""Records that kernels read: surfaces, colours, packed tables.

`rounded`  is what OpenCV's `transform` does with 8-bit samples: factors in 1/1024, half a level added, bits cut off.
`stepwise` is what FFmpeg's swscale does for 4:2:0 and 4:2:2 (libswscale, `yuv2rgb.c` and `x86/yuv_2_rgb.asm`): factors
           in 1/8192, and every product is cut down to a whole level, so green comes out a level darker than it is.
`summed`   is what it does for 4:4:4 (`yuv2gbrp_full_X` in `output.c`): the same factors, and the sum is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.color import rgb_from_yuv

Bytes = npt.NDArray[np.uint8]
_ALIGNED = 16


class Packing:
    """Arrays one behind the other, each at a multiple of 16 bytes; one that comes twice is there once."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._places: dict[int, int] = {}
        self._arrays: list[tuple[int, npt.NDArray[Any]]] = []

    def place(self, array: npt.NDArray[Any]) -> int:
        """Where the bytes of an array are; nobody writes to it any more."""
        found = self._places.get(id(array))
        if found is None:
            found = self._places[id(array)] = self.reserve(array.nbytes)
            self._arrays.append((found, array))
        return found

    def reserve(self, size_bytes: int) -> int:
        """Where room is for so many bytes, which are 0."""
        place = self.size_bytes
        self.size_bytes += -(-size_bytes // _ALIGNED) * _ALIGNED
        return place

    def nest(self, other: Packing) -> int:
        """Where all that is in another one begins; it is not added to any more."""
        start = self.reserve(other.size_bytes)
        self._arrays += [(start + place, array) for place, array in other._arrays]
        return start

    def joined(self) -> Bytes:
        """All of it in one array."""
        content = np.zeros(self.size_bytes, np.uint8)
        for place, array in self._arrays:
            content[place : place + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return content


class DeviceData(Protocol):
    """An array in the device's memory: a `DeviceArray`, and in tests of the host build an array of the host."""

    @property
    def address(self) -> int:
        """Where its first byte lies."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """How many elements it has along each axis."""
        ...

    @property
    def strides(self) -> tuple[int, ...]:
        """How many bytes its elements are apart along each axis."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """What its elements are."""
        ...


def check_array(array: DeviceData, *, what: str, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> None:
    """Raises ValueError when an array has other elements, another shape (None: any size) or gaps between its rows."""
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, found) for found, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        wanted = " x ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{what} is {dtype} of {wanted}, not {array.dtype} of {' x '.join(map(str, array.shape))}")
    step = dtype.itemsize
    for size, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if size > 1 and stride != step:
            raise ValueError(f"{what} must be dense: strides {array.strides} of shape {array.shape} leave gaps")
        step *= size


COLORS = np.dtype(
    [
        ("rounded", "<i4", (3, 4)),
        ("shift", "<i4"),
        ("luma", "<i4"),
        ("black", "<i4"),
        ("red_v", "<i4"),
        ("green_u", "<i4"),
        ("green_v", "<i4"),
        ("blue_u", "<i4"),
        ("gray_factor", "<f4"),
        ("gray_offset", "<f4"),
    ]
)
_BITS = 10
_SWSCALE = {
    ColorMatrix.BT601: (104597, 132201, 25675, 53279),
    ColorMatrix.BT709: (117489, 138438, 13975, 34925),
    ColorMatrix.BT2020: (110013, 140363, 12277, 42626),
}
"""What `sws_getCoefficients` gives: of v for red, u for blue, u and v for green, in 1/65536, for limited range."""


@lru_cache(maxsize=64)
def colors_record(matrix: ColorMatrix, color_range: ColorRange) -> npt.NDArray[Any]:
    """One COLORS, shape (), read-only, for surfaces of that matrix and range."""
    affine = rgb_from_yuv(matrix, color_range)
    record = np.zeros((), COLORS)
    record["rounded"][:, :3] = np.rint(affine[:, :3] * (1 << _BITS))
    record["rounded"][:, 3] = np.rint((affine[:, 3] + 0.5) * (1 << _BITS))
    record["shift"] = _BITS
    record["gray_factor"] = affine[0, 0]
    record["gray_offset"] = affine[0] @ (0, 128, 128, 1)
    red_v, blue_u, green_u, green_v = _SWSCALE[matrix]
    luma, black = (1 << 16) * 255 // 219, 16
    if color_range is ColorRange.FULL:
        luma, black = 1 << 16, 0
        red_v, blue_u, green_u, green_v = (factor * 224 // 255 for factor in (red_v, blue_u, green_u, green_v))
    for name, factor in (("luma", luma), ("red_v", red_v), ("blue_u", blue_u)):
        record[name] = _in_8192ths(factor)
    record["green_u"], record["green_v"] = _in_8192ths(-green_u), _in_8192ths(-green_v)
    record["black"] = 8 * black
    record.setflags(write=False)
    return record


def _in_8192ths(factor: int) -> int:
    """From 1/65536, rounded up from the half on, to the 16 bits that it is kept in."""
    return max(min(((factor << 13) + (1 << 15)) >> 16, 32767), -32768)


_PLANE = np.dtype([("start", "<u8"), ("pitch_bytes", "<i8")], align=True)
SURFACE = np.dtype(
    [
        ("planes", _PLANE, (3,)),
        ("size_wh", "<i4", (2,)),
        ("format", "<i4"),
        ("chroma_shift", "<i4", (2,)),
        ("unused", "<i4"),
    ],
    align=True,
)
_NV12, _P016, _PLANAR_YUV, _GRAY, _RGB, _BGR = range(6)
_FORMATS = {
    PixelFormat.NV12: _NV12,
    PixelFormat.GRAY8: _GRAY,
    PixelFormat.RGB24: _RGB,
    PixelFormat.BGR24: _BGR,
}


@dataclass(frozen=True, slots=True)
class SurfaceView:
    """The pixels of one image in the device's memory; it does not keep them.

    `planes` have the shapes of the format, rows may be padded. NV12 with samples of 16 bits is what NVIDIA calls P016:
    the value of 10, 12 or 16 bits lies in the upper ones. Kernels read it as levels of 8 bits, rounded to the nearest.
    """

    format: PixelFormat
    size_wh: tuple[int, int]
    planes: tuple[DeviceData, ...]
    matrix: ColorMatrix = ColorMatrix.BT601
    range: ColorRange = ColorRange.LIMITED

    def __post_init__(self) -> None:
        expected = self.format.plane_shapes(self.size_wh)
        shapes = tuple(tuple(plane.shape) for plane in self.planes)
        if shapes != expected:
            raise ValueError(f"{self.format} of {self.size_wh} needs planes of {expected}, not {shapes}")
        sample = self.planes[0].dtype
        wide = sample == np.uint16 and self.format is PixelFormat.NV12
        if not (sample == np.uint8 or wide) or any(plane.dtype != sample for plane in self.planes):
            raise ValueError(f"{self.format} has samples of uint8 (nv12 also of uint16) in all planes, not {sample}")
        if any(plane.strides[1:] != _dense_row(plane) for plane in self.planes):
            raise ValueError("the samples of a row must lie one behind the other")
        if self.format is PixelFormat.NV12:
            _check_pairs(self.planes[1])

    @classmethod
    def of(cls, surface: Surface, planes: tuple[DeviceData, ...] | None = None) -> SurfaceView:
        """The view of a surface in the device's memory; `planes` where the caller has them already for a stream."""
        return cls(surface.format, surface.size_wh, planes or surface.arrays, surface.matrix, surface.range)

    @property
    def is_wide(self) -> bool:
        """Whether samples have 16 bits."""
        return self.planes[0].dtype.itemsize == 2

    @property
    def record(self) -> np.void:
        """What kernels are given: one SURFACE."""
        record = surface_record(self.format, self.size_wh, is_wide=self.is_wide)
        fill_planes(record["planes"][None], [self])
        return cast("np.void", record[()])


def fill_planes(planes: npt.NDArray[Any], views: Sequence[SurfaceView]) -> None:
    """Write the addresses of each view into its row of `planes` (N, 3); planes that it does not have become 0."""
    rows = [[(plane.address, plane.strides[0]) for plane in view.planes] for view in views]
    none = (0, 0)
    table = np.array([[*row, *(none,) * (3 - len(row))] for row in rows], np.int64).reshape(-1, 3, 2)
    planes["start"], planes["pitch_bytes"] = table[..., 0], table[..., 1]


def _check_pairs(chroma: DeviceData) -> None:
    """Raises ValueError where u and v cannot be read together: a GPU reads only at multiples of what is read."""
    pair_bytes = 2 * chroma.dtype.itemsize
    if chroma.address % pair_bytes or chroma.strides[0] % pair_bytes:
        raise ValueError(f"rows of nv12's chroma must begin at multiples of {pair_bytes} bytes")


def surface_record(pixel_format: PixelFormat, size_wh: tuple[int, int], *, is_wide: bool) -> npt.NDArray[Any]:
    """One SURFACE, shape (), without addresses."""
    record = np.zeros((), SURFACE)
    record["size_wh"] = size_wh
    record["format"] = _P016 if is_wide else _FORMATS.get(pixel_format, _PLANAR_YUV)
    record["chroma_shift"] = pixel_format.chroma_shift
    return record


def _dense_row(plane: DeviceData) -> tuple[int, ...]:
    item = plane.dtype.itemsize
    return (item,) if len(plane.shape) == 2 else (plane.shape[2] * item, item)
