"""Sequence parameter sets (SPS) of H.264 and H.265: which part of the coded image is shown.

The coded size is a multiple of the block size, and the SPS crops it to the size of the video: usually at right and
bottom only (1088 rows become 1080), but it may crop left and top as well. H.264 calls it the frame cropping rectangle
(7.3.2.1.1), H.265 the conformance window (7.3.2.2). `codec` is FFmpeg's name; other codecs crop nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from sightline_plugins.codecs.bitstream import nal_units

_ESCAPED = re.compile(rb"\x00\x00\x03")
_TO_ESCAPE = re.compile(rb"\x00\x00(?=[\x00-\x03])")
_START_CODE = b"\x00\x00\x01"
_LONGEST_CODE_BITS = 32
_WITH_CHROMA_FORMAT = frozenset((44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244))
"""Profiles of H.264 whose SPS gives chroma format, depth and scaling lists."""


@dataclass(frozen=True, slots=True, order=True)
class Crop:
    """How many luma samples of a coded image are cut off at each side."""

    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0

    @property
    def moves_origin(self) -> bool:
        """Whether the video does not begin in the upper left corner of the coded image."""
        return bool(self.left or self.top)


def crops_of(codec: str, configuration: bytes) -> tuple[Crop, ...]:
    """The different crops of the SPSs in a byte stream; usually one, none when it holds no SPS.

    SPSs that are damaged are left out.
    """
    found = set[Crop]()
    for unit in _sps_units(codec, configuration):
        window = _window_of(codec, unit)
        if window is not None:
            found.add(window.crop)
    return tuple(sorted(found))


def with_origin_uncropped(codec: str, data: bytes) -> bytes:
    """A packet (a byte stream) whose SPSs crop nothing at left and top, and right and bottom as before.

    A decoder then gives the video with what was cropped there, so that it begins `left` columns and `top` rows later.
    Packets without an SPS are returned as they are.
    """
    for unit in set(_sps_units(codec, data)):
        window = _window_of(codec, unit)
        if window is not None and window.crop.moves_origin:
            data = data.replace(_START_CODE + unit, _START_CODE + window.uncropped(unit))
    return data


def _sps_units(codec: str, data: bytes) -> Iterator[bytes]:
    """The SPSs before the first image, those of other layers (of scalable and of stereo video) left out."""
    for unit in nal_units(data):
        if codec == "h264":
            kind, images, sps, is_base = unit[0] & 0x1F, range(1, 6), 7, True
        elif codec == "hevc":
            kind, images, sps = unit[0] >> 1 & 0x3F, range(32), 33
            is_base = not unit[0] & 1 and len(unit) > 1 and not unit[1] >> 3
        else:
            return
        if kind in images:
            return
        if kind == sps and is_base:
            yield unit


class _Bits:
    """Reads the bits of a NAL unit; raises ValueError when it is cut off."""

    def __init__(self, unit: bytes) -> None:
        payload = _ESCAPED.sub(b"\x00\x00", unit)
        self._value = int.from_bytes(payload, "big")
        self.count = 8 * len(payload)
        self.at = 0

    def take(self, count: int) -> int:
        """The next bits as an unsigned number."""
        self.at += count
        if self.at > self.count:
            raise ValueError(f"the SPS is cut off after {self.count // 8} bytes")
        return self._value >> (self.count - self.at) & ((1 << count) - 1)

    def unsigned(self) -> int:
        """An Exp-Golomb code, `ue(v)`."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > _LONGEST_CODE_BITS:
                raise ValueError("the SPS holds a number of more than 32 bits")
        return (1 << zeros) - 1 + self.take(zeros)

    def signed(self) -> int:
        """A signed Exp-Golomb code, `se(v)`."""
        code = self.unsigned()
        return (code + 1) // 2 if code % 2 else -(code // 2)

    def between(self, begin: int, end: int) -> str:
        """These bits as digits."""
        return f"{self._value:0{self.count}b}"[begin:end]


@dataclass(frozen=True, slots=True)
class _Window:
    """Where the four codes of the crop stand in an SPS, and what they are, in order: left, right, top, bottom."""

    begin: int
    end: int
    codes: tuple[int, int, int, int]
    unit_wh: tuple[int, int]

    @classmethod
    def read(cls, bits: _Bits, unit_wh: tuple[int, int]) -> Self:
        """Read it, from the flag on that says whether there is one."""
        if not bits.take(1):
            return cls(bits.at, bits.at, (0, 0, 0, 0), unit_wh)
        begin = bits.at
        codes = (bits.unsigned(), bits.unsigned(), bits.unsigned(), bits.unsigned())
        return cls(begin, bits.at, codes, unit_wh)

    @property
    def crop(self) -> Crop:
        """In luma samples."""
        (left, right, top, bottom), (across, down) = self.codes, self.unit_wh
        return Crop(left * across, top * down, right * across, bottom * down)

    def uncropped(self, unit: bytes) -> bytes:
        """That SPS with zeros for left and top."""
        bits, (_, right, _, bottom) = _Bits(unit), self.codes
        rest = bits.between(self.end, bits.count).rstrip("0")  # ends with the stop bit
        digits = bits.between(0, self.begin) + "".join(map(_exp_golomb, (0, right, 0, bottom))) + rest
        digits += "0" * (-len(digits) % 8)
        return _TO_ESCAPE.sub(b"\x00\x00\x03", int(digits, 2).to_bytes(len(digits) // 8, "big"))


def _exp_golomb(value: int) -> str:
    digits = f"{value + 1:b}"
    return "0" * (len(digits) - 1) + digits


def _window_of(codec: str, unit: bytes) -> _Window | None:
    try:
        return (_h264_window if codec == "h264" else _hevc_window)(_Bits(unit))
    except ValueError:
        return None


def _h264_window(bits: _Bits) -> _Window:
    bits.take(8)
    profile = bits.take(8)
    bits.take(16)
    bits.unsigned()
    chroma = _h264_chroma(bits) if profile in _WITH_CHROMA_FORMAT else 1
    bits.unsigned()
    order = bits.unsigned()
    if order == 0:
        bits.unsigned()
    elif order == 1:
        bits.take(1)
        bits.signed()
        bits.signed()
        for _ in range(bits.unsigned()):
            bits.signed()
    bits.unsigned()
    bits.take(1)
    bits.unsigned()
    bits.unsigned()
    is_frames_only = bits.take(1)
    if not is_frames_only:
        bits.take(1)
    bits.take(1)
    across, down = _chroma_steps(chroma)
    return _Window.read(bits, (across, down * (2 - is_frames_only)))


def _h264_chroma(bits: _Bits) -> int:
    """The chroma format of the samples, 0 for planes that are coded apart; goes on to the end of the scaling lists."""
    chroma = bits.unsigned()
    is_apart = chroma == 3 and bits.take(1)
    bits.unsigned()
    bits.unsigned()
    bits.take(1)
    if bits.take(1):
        for number in range(12 if chroma == 3 else 8):
            if bits.take(1):
                _skip_scaling_list(bits, 16 if number < 6 else 64)
    return 0 if is_apart else chroma


def _skip_scaling_list(bits: _Bits, count: int) -> None:
    following = 8
    last = 8
    for _ in range(count):
        if following:
            following = (last + bits.signed()) % 256
        last = following or last


def _hevc_window(bits: _Bits) -> _Window:
    bits.take(16 + 4)
    sub_layers = bits.take(3)
    bits.take(1)
    _skip_profile_and_levels(bits, sub_layers)
    bits.unsigned()
    chroma = bits.unsigned()
    if chroma == 3:
        bits.take(1)
    bits.unsigned()
    bits.unsigned()
    return _Window.read(bits, _chroma_steps(chroma))


def _skip_profile_and_levels(bits: _Bits, sub_layers: int) -> None:
    """`profile_tier_level` (H.265, 7.3.3)."""
    bits.take(88 + 8)
    given = [(bits.take(1), bits.take(1)) for _ in range(sub_layers)]
    if sub_layers:
        bits.take(2 * (8 - sub_layers))
    for has_profile, has_level in given:
        bits.take(88 * has_profile + 8 * has_level)


def _chroma_steps(chroma: int) -> tuple[int, int]:
    """How many luma samples one of chroma covers: formats 0 to 3 are 4:0:0, 4:2:0, 4:2:2 and 4:4:4."""
    return (2 if chroma in (1, 2) else 1), (2 if chroma == 1 else 1)
