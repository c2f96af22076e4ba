"""Encoded images as they are published."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.rtsp.codec import Codec


@dataclass(frozen=True, slots=True)
class Format:
    """What all images of a stream have in common until it changes, which it does at a key frame.

    `parameter_sets` are NAL units without start codes (VPS, SPS, PPS); a JPEG has none.
    """

    codec: Codec
    size_wh: tuple[int, int]
    parameter_sets: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """One encoded image; immutable, shared by all who send it.

    `units` are its NAL units without start codes and without parameter sets, or one whole JPEG. `pts_ns` is when it is
    shown and `dts_ns` when it is decoded, in the stream's own clock; `capture_ns` is the time of day at which it was
    taken, when that is known.
    """

    format: Format
    units: tuple[bytes, ...]
    pts_ns: int
    dts_ns: int
    is_key: bool
    capture_ns: int | None = None

    @property
    def size(self) -> int:
        """Bytes of it, about."""
        return sum(map(len, self.units))

    @property
    def all_units(self) -> tuple[bytes, ...]:
        """Its units, a key frame's with the parameter sets in front."""
        return (*self.format.parameter_sets, *self.units) if self.is_key else self.units
