"""Packets of containers as the byte streams that hardware decoders take.

VP9 and AV1 may also change their size between key frames; such a change is noticed at the next key frame only.
"""

from __future__ import annotations

from typing import cast

from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.stream import VideoStream

from sightline_plugins.codecs.bitstream import annex_b, container_parts, in_band_configuration
from sightline_plugins.codecs.packet import packet_of

_AV1_SEQUENCE_HEADER = 1
_AV1_RECORD_BYTES = 4
"""Bytes of an `av1C` box before its OBUs."""
_FILTERS = {"h264": "h264_mp4toannexb", "hevc": "hevc_mp4toannexb"}
_SHORTEST_REST = 4
"""Fewer bytes at the end of a packet are not checked."""


def configuration_of(codec: str, data: bytes) -> bytes:
    """The configuration in an encoded key frame (a byte stream): it changes with the size. Empty when there is none."""
    if codec == "vp8":
        return data[3:10]  # start code, width and height (RFC 6386, 9.1)
    if codec == "vp9":
        return data[:10]  # the uncompressed header up to the size (VP9 bitstream specification, 6.2)
    return _av1_sequence_header(data) if codec == "av1" else in_band_configuration(codec, data)


def configuration_outside(codec: str, extradata: bytes) -> bytes:
    """The configuration that a container holds, as a byte stream. Raises ValueError when it is cut off."""
    if codec in ("vp8", "vp9"):
        return b""
    if codec == "av1":
        return extradata[_AV1_RECORD_BYTES:]
    length_bytes, sets = container_parts(codec, extradata)
    return annex_b(sets) if length_bytes else extradata


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


class DamagedPacket(Exception):
    """A packet that FFmpeg's decoder refuses."""


class ByteStream:
    """Turns the packets of one stream into a byte stream, by FFmpeg's bitstream filters.

    Raises ValueError when the container's configuration is cut off.
    """

    def __init__(self, video: VideoStream) -> None:
        context = video.codec_context
        self.codec = context.codec.canonical_name
        """FFmpeg's name of the codec."""
        extradata = bytes(context.extradata or b"")
        self._length_bytes, _ = container_parts(self.codec, extradata)
        self.is_filtered = self._length_bytes > 0
        """Whether packets are changed."""
        self.configuration = configuration_outside(self.codec, extradata)
        """The container's configuration, which packets may lack."""
        self._filter = BitStreamFilterContext(_FILTERS[self.codec], video) if self.is_filtered else None

    def of(self, packet: Packet[VideoStream]) -> Packet[VideoStream] | None:
        """Convert a packet, which is empty afterwards; None when nothing is left of it.

        Raises FFmpegError, or DamagedPacket, when it is damaged.
        """
        if self._filter is None:
            return packet
        self._check(packet)
        turned = self._filter.filter(packet)
        return cast("Packet[VideoStream]", turned[0]) if turned else None

    def of_copy(self, data: bytes) -> Packet[VideoStream] | None:
        """Convert a packet with that content."""
        return self.of(packet_of(data))

    def restart(self) -> None:
        """Prepare for a packet from elsewhere in the stream."""
        if self._filter is not None:
            self._filter.flush()

    def _check(self, packet: Packet[VideoStream]) -> None:
        """Find units that are empty or end behind the packet, which FFmpeg's filter would cut off."""
        data, at, size = memoryview(packet), 0, self._length_bytes
        while at + _SHORTEST_REST <= len(data):
            length = int.from_bytes(data[at : at + size], "big")
            at += size + length
            if not length or at > len(data):
                raise DamagedPacket(f"a unit of {length} bytes does not lie in its packet")
