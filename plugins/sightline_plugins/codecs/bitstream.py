"""H.264, H.265 and JPEG bit streams: NAL units and parameter sets. `codec` is FFmpeg's name of a codec."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import av.error
from av.codec import CodecContext
from av.codec.context import Flags
from av.video.codeccontext import VideoCodecContext

from sightline_plugins.codecs.packet import packet_of

_START_CODE = re.compile(rb"\x00\x00\x01")
_LONG_START_CODE = b"\x00\x00\x00\x01"
_SEARCHED_BYTES = 65536
"""Parameter sets stand before the image; later ones are not searched for."""
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_FRAME_HEADER_BYTES = 9


@dataclass(frozen=True, slots=True)
class _NalTypes:
    shift: int
    mask: int
    parameter_sets: range
    images: range

    def of(self, unit: bytes) -> int:
        return unit[0] >> self.shift & self.mask


_NAL_TYPES = {
    "h264": _NalTypes(0, 0x1F, parameter_sets=range(7, 9), images=range(1, 6)),
    "hevc": _NalTypes(1, 0x3F, parameter_sets=range(32, 35), images=range(32)),
}


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


def is_byte_stream(configuration: bytes) -> bool:
    """Whether packets of a stream with this configuration are byte streams with start codes (Annex B), in which
    parameter sets may stand; else they are length-prefixed, as MP4 and Matroska hold them.
    """
    return not configuration or is_annex_b(configuration)


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


def packet_units(data: bytes, *, length_size: int) -> Iterator[bytes]:
    """The NAL units of a packet; `length_size` 0 means a byte stream. Raises ValueError for a damaged packet."""
    return length_prefixed_units(data, length_size=length_size) if length_size else nal_units(data)


def is_parameter_set(unit: bytes, *, codec: str) -> bool:
    """Whether a NAL unit of H.264 or H.265 is a VPS, SPS or PPS; False for other codecs."""
    types = _NAL_TYPES.get(codec)
    return types is not None and types.of(unit) in types.parameter_sets


def container_parts(codec: str, configuration: bytes) -> tuple[int, tuple[bytes, ...]]:
    """Read the configuration that a container holds (FFmpeg's extradata).

    Returns the size of the length fields in packets, 0 when they are byte streams, and the parameter sets. Raises
    ValueError when the configuration is cut off.
    """
    if codec not in _NAL_TYPES or not configuration:
        return 0, ()
    if is_annex_b(configuration):
        return 0, tuple(unit for unit in nal_units(configuration) if is_parameter_set(unit, codec=codec))
    return avcc_parts(configuration) if codec == "h264" else hvcc_parts(configuration)


def avcc_parts(configuration: bytes) -> tuple[int, tuple[bytes, ...]]:
    """The size of length fields, and the parameter sets, of an `avcC` box (ISO/IEC 14496-15, H.264).

    Raises ValueError when it is cut off.
    """
    at, sets = 5, list[bytes]()
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
    at, sets = 22, list[bytes]()
    arrays, at = _byte(configuration, at), at + 1
    for _ in range(arrays):
        kind, count = _byte(configuration, at) & 0x3F, int.from_bytes(configuration[at + 1 : at + 3], "big")
        at += 3
        for _ in range(count):
            unit, at = _sized(configuration, at)
            if kind in _NAL_TYPES["hevc"].parameter_sets:
                sets.append(unit)
    return (_byte(configuration, 21) & 3) + 1, tuple(sets)


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise ValueError(f"the codec's configuration is cut off after {len(data)} bytes")
    return data[at]


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    length = int.from_bytes(data[at : at + 2], "big")
    return data[at + 2 : at + 2 + length], at + 2 + length


def in_band_configuration(codec: str, data: bytes) -> bytes:
    """The part of an encoded key frame that later frames need for decoding, empty when there is none: parameter sets
    with start codes, or the frame header of a JPEG.
    """
    data = data[:_SEARCHED_BYTES]
    if codec == "mjpeg":
        return _jpeg_frame_header(data)
    types = _NAL_TYPES.get(codec)
    if types is None:
        return b""
    found = []
    for unit in nal_units(data):
        kind = types.of(unit)
        if kind in types.images:
            break
        if kind in types.parameter_sets:
            found.append(unit)
    return annex_b(found)


def _jpeg_frame_header(data: bytes) -> bytes:
    """Marker, length, precision, height and width (ITU T.81, B.2.2)."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _JPEG_FRAMES:
            return data[at : at + _JPEG_FRAME_HEADER_BYTES]
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return b""


def size_of_image(codec: str, data: bytes, *, configuration: bytes, max_pixels: int) -> tuple[int, int] | None:
    """Width and height of an encoded key frame, by decoding it; None when that fails."""
    context = CodecContext.create(codec, "r")
    if not isinstance(context, VideoCodecContext):
        return None
    context.options = {"max_pixels": str(max_pixels)}
    context.flags |= Flags.unaligned  # cut off at the left what the stream says, however rows lie then
    if codec != "mjpeg":
        context.extradata = configuration
    try:
        images = [*context.decode(packet_of(data)), *context.decode(None)]
    except (av.error.FFmpegError, OSError):
        return None
    return (images[0].width, images[0].height) if images else None
