"""Times of packets in the stream's own clock, learnt from the frames that were decoded from them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sightline.graph import EncodedFormat, EncodedPacket
from sightline.media import Frame

_FORMATS = 8


@dataclass(frozen=True, slots=True)
class _Known:
    shift_ns: int
    capture_shift_ns: int | None


@dataclass(slots=True)
class PacketTimes:
    """What must be added to the container's times of a format's packets: frames go on over connections and repairs."""

    _known: dict[EncodedFormat, _Known] = field(default_factory=dict)

    def note(self, packet: EncodedPacket, frame: Frame) -> None:
        """This frame was decoded from that packet."""
        if packet.format not in self._known and len(self._known) >= _FORMATS:
            del self._known[next(iter(self._known))]
        captured = None if frame.capture_ns is None else frame.capture_ns - packet.pts_ns
        self._known[packet.format] = _Known(frame.pts_ns - packet.pts_ns, captured)

    def shown_ns(self, packet: EncodedPacket) -> int | None:
        """When a packet's image is shown; None before a frame of its format was seen."""
        known = self._known.get(packet.format)
        return None if known is None else packet.pts_ns + known.shift_ns

    def decoded_ns(self, packet: EncodedPacket) -> int:
        """When a packet is decoded. The time it is shown must be known."""
        return packet.dts_ns + self._known[packet.format].shift_ns

    def captured_ns(self, packet: EncodedPacket) -> int | None:
        """The time of day at which a packet's image was taken, where it is known."""
        known = self._known.get(packet.format)
        if known is None or known.capture_shift_ns is None:
            return None
        return packet.pts_ns + known.capture_shift_ns
