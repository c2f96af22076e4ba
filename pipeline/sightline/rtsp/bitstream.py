"""NAL units of H.264 and H.265: found in Annex B and in length-prefixed packets, and told apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_START_CODE = re.compile(rb"\x00\x00\x01")
_LONG_START_CODE = b"\x00\x00\x00\x01"
_H264_PARAMETER_SETS = frozenset({7, 8})
_H265_PARAMETER_SETS = frozenset({32, 33, 34})
_AVCC_SETS_AT, _HVCC_SETS_AT = 5, 22


def nal_units(annex_b: bytes) -> Iterator[bytes]:
    """The NAL units of a byte stream, without start codes and trailing zeros (H.264 Annex B)."""
    marks = [mark.span() for mark in _START_CODE.finditer(annex_b)]
    ends = [begin for begin, _ in marks[1:]] + [len(annex_b)]
    for (_, begin), end in zip(marks, ends, strict=False):  # without a mark there is an end all the same
        if unit := annex_b[begin:end].rstrip(b"\x00"):
            yield unit


def annex_b(units: Iterable[bytes]) -> bytes:
    """A byte stream of NAL units."""
    return b"".join(_LONG_START_CODE + unit for unit in units)


def is_annex_b(configuration: bytes) -> bool:
    """Whether a codec's configuration is a byte stream with start codes; the boxes of MP4 and Matroska begin with 1."""
    return configuration.startswith((b"\x00\x00\x01", _LONG_START_CODE))


def length_prefixed_units(data: bytes, *, length_size: int) -> Iterator[bytes]:
    """The NAL units of a packet as MP4 and Matroska hold it. Raises ValueError when a length passes the end."""
    at = 0
    while at + length_size <= len(data):
        length = int.from_bytes(data[at : at + length_size], "big")
        at += length_size
        if at + length > len(data):
            raise ValueError(f"a NAL unit of {length} bytes begins {len(data) - at} bytes before the end of its packet")
        if length:
            yield data[at : at + length]
        at += length


def avcc_parts(configuration: bytes) -> tuple[int, tuple[bytes, ...]]:
    """The size of length fields, and the parameter sets, of an `avcC` box (ISO/IEC 14496-15, H.264).

    Raises ValueError when it is cut off.
    """
    at, sets = _AVCC_SETS_AT, list[bytes]()
    for mask in (0x1F, 0xFF):
        count, at = _byte(configuration, at) & mask, at + 1
        for _ in range(count):
            unit, at = _sized(configuration, at)
            sets.append(unit)
    return (_byte(configuration, 4) & 3) + 1, tuple(sets)


def hvcc_parts(configuration: bytes) -> tuple[int, tuple[bytes, ...]]:
    """The size of length fields, and the parameter sets, of an `hvcC` box (ISO/IEC 14496-15, H.265).

    Raises ValueError when it is cut off.
    """
    at, sets = _HVCC_SETS_AT, list[bytes]()
    arrays, at = _byte(configuration, at), at + 1
    for _ in range(arrays):
        kind, count = _byte(configuration, at) & 0x3F, int.from_bytes(configuration[at + 1 : at + 3], "big")
        at += 3
        for _ in range(count):
            unit, at = _sized(configuration, at)
            if kind in _H265_PARAMETER_SETS:
                sets.append(unit)
    return (_byte(configuration, 21) & 3) + 1, tuple(sets)


def is_h264_parameter_set(unit: bytes) -> bool:
    """SPS or PPS."""
    return unit[0] & 0x1F in _H264_PARAMETER_SETS


def is_h265_parameter_set(unit: bytes) -> bool:
    """VPS, SPS or PPS."""
    return unit[0] >> 1 & 0x3F in _H265_PARAMETER_SETS


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise ValueError(f"the codec's configuration is cut off after {len(data)} bytes")
    return data[at]


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    length = int.from_bytes(data[at : at + 2], "big")
    return data[at + 2 : at + 2 + length], at + 2 + length
