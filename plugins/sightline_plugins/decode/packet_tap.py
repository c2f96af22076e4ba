"""The tap between demuxer and decoder: what steps record or publish goes into the stream's ring, undecoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline.graph import EncodedFormat, PacketRing, Site
from sightline.graph.site import Clock
from sightline.media import Stream
from sightline_plugins.codecs.bitstream import in_band_configuration, is_byte_stream, size_of_image
from sightline_plugins.decode.matroska_head import head_of
from sightline_plugins.decode.timestamps import nanoseconds

_BACK_NS = 1_000_000_000
_AHEAD_NS = 5_000_000_000
"""Steps of the clock beyond these are no gaps: it was set, or began anew."""


@dataclass(frozen=True, slots=True, eq=False)
class _Mark:
    """The number of a packet, as an object of its own.

    PyAV keeps what is `opaque` by the identity of the object, and forgets it when the first packet or image that
    carries it is freed. An int would not do: Python has those up to 256 once in a process, so freed images of one
    input would take the numbers from packets of another.
    """

    number: int


def mark(packet: Packet[VideoStream], number: int) -> None:
    """Give a packet its number, which the decoder hands on to the image."""
    packet.opaque = _Mark(number)


def packet_number(carrier: Packet[VideoStream] | VideoFrame) -> int | None:
    """The number in the ring of a packet, or of the packet that an image was decoded from; None when it has none."""
    found = carrier.opaque
    return found.number if isinstance(found, _Mark) else None


class PacketTap:
    """Copies the packets of one open input into a ring, while anybody wants them; costs a look when nobody does.

    A change of the parameter sets in the stream itself, a step of the clock and a new input begin a new format. Each
    packet is marked with its number in the ring; the decoder hands the mark on to the image (`packet_number`).
    Used by the thread that reads. `clock` is None where times do not go by the clock: in files.
    """

    def __init__(self, ring: PacketRing, *, clock: Clock | None) -> None:
        self._ring = ring
        self._clock = clock
        self._format: EncodedFormat | None = None
        self._has_head = False
        self._configuration: bytes | None = None
        self._max_pixels = 0
        self._interval = 0
        self._last_pts: int | None = None
        self._last_dts_ns: int | None = None
        self._last_dts = 0
        self._last_at_ns = 0

    def begin(self, video: VideoStream, time_base: Fraction, *, interval: int, max_pixels: int) -> None:
        """The input is open, and this is the stream of it that is read; `interval` is the usual one in ticks."""
        context = video.codec_context
        context.copy_opaque = True
        self._format = EncodedFormat(
            codec=context.codec.canonical_name,
            size_wh=(context.width, context.height),
            time_base=time_base,
            configuration=bytes(context.extradata or b""),
        )
        self._has_head = False
        self._configuration, self._max_pixels = None, max_pixels
        self._interval = interval
        self._last_pts = self._last_dts_ns = None

    def take(self, packet: Packet[VideoStream]) -> None:
        """Put a packet into the ring."""
        known = self._format
        if known is None or not packet.size or not self._ring.is_wanted:
            return
        data = bytes(packet)
        if self._ring.wants_heads and not self._has_head:
            tag = packet.stream.codec_context.codec_tag
            known = self._format = replace(known, head=head_of(packet), tag=tag)
            self._has_head = True
        pts = self._presentation_time(packet)
        dts = self._decoding_time(packet.dts, pts=pts)
        dts_ns = nanoseconds(dts, known.time_base)
        if self._has_jumped(dts_ns):
            known = self._format = replace(known)
        if packet.is_keyframe:
            known = self._format = self._checked(known, packet, data)
        number = self._ring.add(
            data,
            pts=pts,
            dts=dts,
            pts_ns=nanoseconds(pts, known.time_base),
            dts_ns=dts_ns,
            duration=packet.duration or 0,
            is_key=packet.is_keyframe,
            format=known,
        )
        mark(packet, number)

    def _presentation_time(self, packet: Packet[VideoStream]) -> int:
        """The time it is shown, else decoded; where there is neither, as for the first one of some cameras, an interval
        after the last, from 0.
        """
        pts = packet.dts if packet.pts is None else packet.pts
        if pts is None:
            pts = 0 if self._last_pts is None else self._last_pts + self._interval
        self._last_pts = pts
        return pts

    def _decoding_time(self, dts: int | None, *, pts: int) -> int:
        """The decoding time, or where there is none one that fits: after the last, not after the image is shown."""
        if dts is None:
            dts = pts if self._last_dts_ns is None else min(self._last_dts + 1, pts)
        self._last_dts = dts
        return dts

    def _has_jumped(self, dts_ns: int) -> bool:
        at_ns = 0 if self._clock is None else self._clock.monotonic_ns()
        last_ns, self._last_dts_ns = self._last_dts_ns, dts_ns
        waited_ns, self._last_at_ns = at_ns - self._last_at_ns, at_ns
        if last_ns is None:
            return False
        step_ns = dts_ns - last_ns
        return step_ns < -_BACK_NS or (self._clock is not None and step_ns > _AHEAD_NS + max(waited_ns, 0))

    def _checked(self, known: EncodedFormat, packet: Packet[VideoStream], key_frame: bytes) -> EncodedFormat:
        """The format that begins with this key frame: the one known, unless it brings another configuration."""
        if packet.has_sidedata("new_extradata"):
            found = bytes(packet.get_sidedata("new_extradata"))
        elif is_byte_stream(known.configuration):
            found = in_band_configuration(known.codec, key_frame)
        else:
            return known
        if not found or found == self._configuration:
            return known
        size_wh = self._size_wh(known, key_frame, configuration=found)
        self._configuration = found
        return replace(known, configuration=b"" if known.codec == "mjpeg" else found, size_wh=size_wh)

    def _size_wh(self, known: EncodedFormat, key_frame: bytes, *, configuration: bytes) -> tuple[int, int]:
        if self._configuration is None and all(known.size_wh):
            return known.size_wh
        found = size_of_image(known.codec, key_frame, configuration=configuration, max_pixels=self._max_pixels)
        return found or known.size_wh


def tap_for(stream: Stream, *, site: Site) -> PacketTap:
    """The tap of one attempt at reading a stream."""
    return PacketTap(site.packets.of(stream), clock=site.clock if stream.live else None)
