"""What a key frame says of itself: parameter sets of H.264 and H.265 in a byte stream, the frame header of a JPEG."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import av.error
from av.codec import CodecContext
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext

_START_CODE = re.compile(rb"\x00\x00\x01")
_LONG_START_CODE = b"\x00\x00\x00\x01"
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
