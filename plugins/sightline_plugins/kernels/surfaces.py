"""Surfaces as kernels see them: the record of `surface.cuh`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline_plugins.kernels.device_data import DeviceData

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
        self.fill_planes(record["planes"])
        return cast("np.void", record[()])

    def fill_planes(self, planes: npt.NDArray[Any]) -> None:
        """Write the addresses into the three planes of a record."""
        for number, plane in enumerate(self.planes):
            planes[number] = plane.address, plane.strides[0]


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
