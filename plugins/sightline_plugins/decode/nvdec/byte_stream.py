"""Packets of a container as the byte stream that NVDEC reads: start codes, and the configuration before the first."""

from __future__ import annotations

from typing import cast

from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.stream import VideoStream

from sightline_plugins.decode.nvdec.configurations import configuration_outside, length_bytes_of

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
