"""What holds for all images of one file of video: how they are encoded, what they are alike in, and their clock."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sightline.media import ColorMatrix, ColorRange, Surface

TICKS_PER_SECOND = 90_000
TIME_BASE = Fraction(1, TICKS_PER_SECOND)
_NS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """How images are encoded: `quality` is the constant rate factor, `bitrate` bits a second and goes before it."""

    codec: str
    preset: str
    quality: int
    bitrate: int | None
    gop_ns: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What cannot change within one file."""

    size_wh: tuple[int, int]
    matrix: ColorMatrix
    range: ColorRange

    @classmethod
    def of(cls, surface: Surface) -> Layout:
        """The layout of a surface."""
        return cls(surface.size_wh, surface.matrix, surface.range)


def ticks_from_ns(pts_ns: int) -> int:
    """Nanoseconds in units of 1/90000 s, rounded to the nearest."""
    return (pts_ns * TICKS_PER_SECOND + _NS_PER_SECOND // 2) // _NS_PER_SECOND
