"""Colours as the samples of a surface's planes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.color import yuv_from_rgb

Samples = npt.NDArray[np.uint8]
Rgb: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Ink:
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


def ink_from_rgb(rgb: Rgb, kind: Kind) -> Ink:
    """The colour by the kind's matrix and range."""
    if kind.format is PixelFormat.RGB24:
        return Ink((np.array(rgb, np.uint8),))
    if kind.format is PixelFormat.BGR24:
        return Ink((np.array(rgb[::-1], np.uint8),))
    affine = yuv_from_rgb(kind.matrix, kind.range)
    samples = np.clip(np.rint(affine[:, :3] @ np.array(rgb) + affine[:, 3]), 0, 255).astype(np.uint8)
    y, u, v = samples.tolist()
    if kind.format is PixelFormat.GRAY8:
        return Ink((y,))
    return Ink((y, samples[1:]) if kind.format is PixelFormat.NV12 else (y, u, v))


def blend_tables(back: Ink, front: Ink) -> tuple[Samples, ...]:
    """For each plane, the samples from `back` (row 0) to `front` (row 255), shape (256,) or (256, samples)."""
    return tuple(
        _ramp(np.asarray(first), np.asarray(last)) for first, last in zip(back.planes, front.planes, strict=True)
    )


def _ramp(first: Samples, last: Samples) -> Samples:
    weight = np.linspace(0, 1, 256).reshape(-1, *(1,) * first.ndim)
    mixed: Samples = np.rint(first * (1 - weight) + last * weight).astype(np.uint8)
    return mixed


class Inks:
    """The colours of one kind of surface, each worked out once."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._inks: dict[Rgb, Ink] = {}
        self._tables: dict[tuple[Rgb, Rgb], tuple[Samples, ...]] = {}

    def ink(self, rgb: Rgb) -> Ink:
        """The colour as samples."""
        found = self._inks.get(rgb)
        if found is None:
            found = self._inks[rgb] = ink_from_rgb(rgb, self._kind)
        return found

    def tables(self, back: Rgb, front: Rgb) -> tuple[Samples, ...]:
        """The tables that blend from one colour to another; see `blend_tables`."""
        found = self._tables.get((back, front))
        if found is None:
            found = self._tables[back, front] = blend_tables(self.ink(back), self.ink(front))
        return found
