"""Surfaces: the pixels of one picture, shared and read-only until somebody asks for a writable one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from sightline.media.color import ColorMatrix, ColorRange

Plane = npt.NDArray[np.uint8]


class Memory(StrEnum):
    """Where a surface's pixels lie."""

    HOST = "host"
    CUDA = "cuda"


class PixelFormat(StrEnum):
    """How the pixels are laid out; 8 bits a sample. Odd sizes round chroma up."""

    I420 = "i420"
    I422 = "i422"
    I444 = "i444"
    NV12 = "nv12"
    GRAY8 = "gray8"
    RGB24 = "rgb24"
    BGR24 = "bgr24"

    @property
    def is_yuv(self) -> bool:
        """Whether the planes hold luma and chroma (or luma alone)."""
        return self not in (PixelFormat.RGB24, PixelFormat.BGR24)

    @property
    def chroma_shift(self) -> tuple[int, int]:
        """By how many bits chroma is narrower and lower than luma: (horizontal, vertical)."""
        return _CHROMA_SHIFT.get(self, (0, 0))

    def plane_shapes(self, size_wh: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
        """The shape of each plane for a picture of that size."""
        width, height = size_wh
        if not self.is_yuv:
            return ((height, width, 3),)
        if self is PixelFormat.GRAY8:
            return ((height, width),)
        right, down = self.chroma_shift
        chroma = (-(-height >> down), -(-width >> right))
        if self is PixelFormat.NV12:
            return ((height, width), (*chroma, 2))
        return ((height, width), chroma, chroma)


_CHROMA_SHIFT = {PixelFormat.I420: (1, 1), PixelFormat.NV12: (1, 1), PixelFormat.I422: (1, 0)}


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """The pixels of one picture.

    `planes` are views of shape `format.plane_shapes(size_wh)`; rows may be padded (strided), samples of a row are
    contiguous. `owner` is whatever must stay alive while the planes are used: a decoder's frame, a lease of a pool.
    A surface is shared unless `exclusive`; nobody writes to a shared one, because a decoder may still predict
    from it and other branches may still read it.
    """

    format: PixelFormat
    size_wh: tuple[int, int]
    planes: tuple[Plane, ...]
    matrix: ColorMatrix = ColorMatrix.BT601
    range: ColorRange = ColorRange.LIMITED
    memory: Memory = Memory.HOST
    owner: object = None
    exclusive: bool = False

    def __post_init__(self) -> None:
        shapes = tuple(plane.shape for plane in self.planes)
        expected = self.format.plane_shapes(self.size_wh)
        if shapes != expected:
            raise ValueError(f"{self.format} of {self.size_wh} needs planes of {expected}, not {shapes}")

    @classmethod
    def allocate(
        cls,
        pixel_format: PixelFormat,
        *,
        size_wh: tuple[int, int],
        matrix: ColorMatrix = ColorMatrix.BT601,
        color_range: ColorRange = ColorRange.LIMITED,
    ) -> Surface:
        """A new surface in host memory, exclusive, its pixels not initialised."""
        planes = tuple(np.empty(shape, np.uint8) for shape in pixel_format.plane_shapes(size_wh))
        return cls(pixel_format, size_wh, planes, matrix, color_range, exclusive=True)

    def writable(self) -> Surface:
        """This surface if it is exclusive, else an exclusive copy of it in the same memory."""
        if self.exclusive:
            return self
        planes = tuple(plane.copy() for plane in self.planes)
        return dataclasses.replace(self, planes=planes, owner=None, exclusive=True)

    def shared(self) -> Surface:
        """The same pixels, no longer exclusive: what several holders get."""
        return dataclasses.replace(self, exclusive=False) if self.exclusive else self
