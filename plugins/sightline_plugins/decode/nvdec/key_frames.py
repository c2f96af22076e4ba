"""Key frames: which of them change what is decoded."""

from __future__ import annotations

from typing import cast

from av.packet import Packet
from av.video.stream import VideoStream

from sightline_plugins.decode.nvdec.byte_stream import ByteStream
from sightline_plugins.decode.nvdec.configurations import configuration_of
from sightline_plugins.decode.nvdec.image_facts import ImageFacts, facts_of
from sightline_plugins.decode.orientation import Orientation


class KeyFrames:
    """Watches the key frames of a stream. One that brings another configuration is decoded on the CPU."""

    def __init__(self, video: VideoStream, *, bytes_: ByteStream, orientation: Orientation | None) -> None:
        self._video, self._bytes, self._orientation = video, bytes_, orientation
        self._configuration = self._found = b""
        self.facts: ImageFacts | None = None
        """What holds from the last key frame on; None before the first."""

    def look(self, packet: Packet[VideoStream]) -> tuple[Packet[VideoStream] | None, bool]:
        """The packet, which is left as it is, as a byte stream, and whether the facts are others from it on.

        None when no image can be decoded from it alone. Raises FFmpegError, or DamagedPacket, when it is damaged.
        """
        data = bytes(packet)
        turned = self._bytes.of_copy(data)
        if turned is None:
            return None, False
        self._found = configuration_of(self._bytes.codec, bytes(turned) if self._bytes.is_filtered else data)
        if self.facts is not None and self._found in (b"", self._configuration):
            return turned, False
        facts = facts_of(data, video=self._video, orientation=self._orientation)
        if facts is None:
            return None, False
        has_changed = facts != self.facts
        self.facts, self._configuration = facts, self._found or self._bytes.configuration
        return turned, has_changed

    def complete(self, turned: Packet[VideoStream]) -> Packet[VideoStream]:
        """What `look` gave last, with a configuration, for a decoder that has none yet."""
        if self._found or not self._configuration:
            return turned
        return cast("Packet[VideoStream]", Packet(self._configuration + bytes(turned)))
