"""One file of images that are encoded already: what a camera sent, in a container, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.graph import EncodedPacket, Outputs
from sightline_plugins.encode.muxer import open_muxer


class PacketFile:
    """A file of packets of one format that begins with a key frame, at time 0; opened at once.

    Times keep their distances, exactly in MP4 and to 1 ms in Matroska. What was written a second ago stays readable
    whatever ends the program, however long the groups of images are. After an OutputError it is closed and readable.
    """

    def __init__(self, path: Path, *, first: EncodedPacket, outputs: Outputs) -> None:
        self.path = path
        self.format = first.format
        self._origin = first.pts
        self._last_dts: int | None = None
        self._muxer = open_muxer(path, outputs=outputs)
        self._stream: VideoStream = self._muxer.add_encoded_stream(first.format)

    @property
    def whole_bytes(self) -> int:
        """How much of the file is complete and stays readable whatever comes."""
        return self._muxer.whole_bytes

    def write(self, packet: EncodedPacket) -> None:
        """Append a packet, in decoding order. Raises OutputError."""
        made = cast("Packet[VideoStream]", Packet(packet.data))
        made.stream = self._stream
        made.time_base = self.format.time_base
        dts = packet.dts - self._origin
        if self._last_dts is not None:
            dts = max(dts, self._last_dts + 1)
        self._last_dts = dts
        made.dts, made.pts = dts, max(packet.pts - self._origin, dts)
        made.duration = packet.duration
        made.is_keyframe = packet.is_key
        self._muxer.mux([made])

    def finish(self) -> None:
        """Write the index and close the file. Raises OutputError."""
        self._muxer.finish()
