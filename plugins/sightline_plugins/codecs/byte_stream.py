"""Packets of containers as the byte streams that hardware decoders take.

VP9 and AV1 may change their size at other images, too; such a change is seen at the next key frame only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.stream import VideoStream

from sightline_plugins.codecs.bitstream import annex_b, avcc_parts, hvcc_parts, in_band_configuration, is_annex_b

_AV1_SEQUENCE_HEADER = 1
_AV1_RECORD_BYTES = 4
"""An `av1C` box holds so many bytes before its OBUs."""


def configuration_of(codec: str, data: bytes) -> bytes:
    """What an encoded key frame, as a byte stream, brings along; empty when it brings nothing."""
    find = _FINDERS.get(codec)
    return in_band_configuration(codec, data) if find is None else find(data)


def configuration_outside(codec: str, extradata: bytes) -> bytes:
    """What a container holds in the place of that, as a byte stream. Raises ValueError when it is cut off."""
    if not extradata or codec in ("vp8", "vp9"):
        return b""
    if codec == "av1":
        return extradata[_AV1_RECORD_BYTES:]
    if codec in _BOXES and not is_annex_b(extradata):
        return annex_b(_BOXES[codec](extradata)[1])
    return extradata


def length_bytes_of(codec: str, extradata: bytes) -> int:
    """How many bytes the length before each unit of a packet has, in MP4 and Matroska; 0 where there are start codes.

    Raises ValueError when the extradata is cut off.
    """
    if codec not in _BOXES or not extradata or is_annex_b(extradata):
        return 0
    return _BOXES[codec](extradata)[0]


def _vp8_frame_header(data: bytes) -> bytes:
    """Start code, width and height of a key frame (RFC 6386, 9.1)."""
    return data[3:10]


def _vp9_frame_header(data: bytes) -> bytes:
    """The beginning of the uncompressed header, up to the size of a key frame (VP9 bitstream specification, 6.2)."""
    return data[:10]


def _av1_sequence_header(data: bytes) -> bytes:
    """The sequence header among the first OBUs of a temporal unit (AV1 bitstream specification, 5.3)."""
    at = 0
    while at < len(data) and data[at] & 0x02:
        header = 2 if data[at] & 0x04 else 1
        size, length_bytes = _leb128(data, at + header)
        end = at + header + length_bytes + size
        if data[at] >> 3 & 0xF == _AV1_SEQUENCE_HEADER:
            return data[at:end]
        at = end
    return b""


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    """A number, and how many bytes it takes."""
    value = 0
    for place, byte in enumerate(data[at : at + 8]):
        value |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return value, place + 1
    return value, 8


_BOXES = {"h264": avcc_parts, "hevc": hvcc_parts}
_FINDERS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {
        "vp8": _vp8_frame_header,
        "vp9": _vp9_frame_header,
        "av1": _av1_sequence_header,
    }
)


_FILTERS = {"h264": "h264_mp4toannexb", "hevc": "hevc_mp4toannexb"}
_SHORTEST_REST = 4
"""Fewer bytes at the end of a packet are not looked at."""


class DamagedPacket(Exception):
    """A packet that FFmpeg's decoder refuses."""


class ByteStream:
    """Turns the packets of one stream into a byte stream, by FFmpeg's bitstream filters.

    Raises ValueError when what the container says of the codec is cut off.
    """

    def __init__(self, video: VideoStream) -> None:
        context = video.codec_context
        self.codec = context.codec.canonical_name
        """FFmpeg's name of the codec."""
        extradata = bytes(context.extradata or b"")
        self._length_bytes = length_bytes_of(self.codec, extradata)
        self.is_filtered = self._length_bytes > 0
        """Whether packets are changed."""
        self.configuration = configuration_outside(self.codec, extradata)
        """What the container, and perhaps no packet, says of the codec."""
        self._filter = BitStreamFilterContext(_FILTERS[self.codec], video) if self.is_filtered else None

    def of(self, packet: Packet[VideoStream]) -> Packet[VideoStream] | None:
        """The packet as a byte stream; what is given is empty then. None when nothing is left of it.

        Raises FFmpegError, or DamagedPacket, when it is damaged.
        """
        if self._filter is None:
            return packet
        self._check(packet)
        turned = self._filter.filter(packet)
        return cast("Packet[VideoStream]", turned[0]) if turned else None

    def of_copy(self, data: bytes) -> Packet[VideoStream] | None:
        """The same for a packet with that content."""
        return self.of(cast("Packet[VideoStream]", Packet(data)))

    def restart(self) -> None:
        """The next packet is from elsewhere in the stream."""
        if self._filter is not None:
            self._filter.flush()

    def _check(self, packet: Packet[VideoStream]) -> None:
        """Look for units that are empty or end behind the packet, which FFmpeg's filter cuts off."""
        data, at, size = memoryview(packet), 0, self._length_bytes
        while at + _SHORTEST_REST <= len(data):
            length = int.from_bytes(data[at : at + size], "big")
            at += size + length
            if not length or at > len(data):
                raise DamagedPacket(f"a unit of {length} bytes does not lie in its packet")
