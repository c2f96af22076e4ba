"""H.264, H.265 and JPEG bit streams: NAL units and parameter sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import av.error
from av.codec import CodecContext
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext

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


_SEARCHED_BYTES = 65536
"""Parameter sets stand before the image; what is said so late is not looked for."""
_H264_SETS, _H264_IMAGES = frozenset({7, 8}), frozenset(range(1, 6))
_H265_SETS, _H265_IMAGES = frozenset({32, 33, 34}), frozenset(range(32))
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_FRAME_HEADER_BYTES = 9


def in_band_configuration(codec: str, data: bytes) -> bytes:
    """What in an encoded key frame decides how it and those after it are decoded: parameter sets with start codes,
    or the frame header of a JPEG. Empty when it brings none.
    """
    find = _FINDERS.get(codec)
    return b"" if find is None else find(data[:_SEARCHED_BYTES])


def is_byte_stream(configuration: bytes) -> bool:
    """Whether packets of a stream with this configuration are byte streams with start codes (Annex B), in which
    parameter sets may stand; else they are length-prefixed, as MP4 and Matroska hold them.
    """
    return not configuration or configuration.startswith((b"\x00\x00\x01", _LONG_START_CODE))


def size_of_image(codec: str, data: bytes, *, configuration: bytes, max_pixels: int) -> tuple[int, int] | None:
    """Width and height of an encoded key frame, by decoding it; None when that fails."""
    context = CodecContext.create(codec, "r")
    if not isinstance(context, VideoCodecContext):
        return None
    context.options = {"max_pixels": str(max_pixels)}
    if codec != "mjpeg":
        context.extradata = configuration
    try:
        images = [*context.decode(Packet(data)), *context.decode(None)]
    except (av.error.FFmpegError, OSError):
        return None
    return (images[0].width, images[0].height) if images else None


def _sets(data: bytes, *, kind_of: Callable[[int], int], sets: frozenset[int], images: frozenset[int]) -> bytes:
    """The units of these kinds that stand before the first image."""
    marks = [mark.end() for mark in _START_CODE.finditer(data)]
    found = []
    for begin, following in zip(marks, [*marks[1:], len(data) + 3], strict=True):
        kind = kind_of(data[begin]) if begin < len(data) else 0
        if kind in images:
            break
        if kind in sets:
            found.append(_LONG_START_CODE + data[begin : following - 3].rstrip(b"\x00"))
    return b"".join(found)


def _h264_sets(data: bytes) -> bytes:
    return _sets(data, kind_of=lambda first: first & 0x1F, sets=_H264_SETS, images=_H264_IMAGES)


def _h265_sets(data: bytes) -> bytes:
    return _sets(data, kind_of=lambda first: first >> 1 & 0x3F, sets=_H265_SETS, images=_H265_IMAGES)


def _jpeg_frame_header(data: bytes) -> bytes:
    """Marker, length, precision, height and width (ITU T.81, B.2.2)."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _JPEG_FRAMES:
            return data[at : at + _JPEG_FRAME_HEADER_BYTES]
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return b""


_FINDERS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {"h264": _h264_sets, "hevc": _h265_sets, "mjpeg": _jpeg_frame_header}
)
