"""Reading a network camera: one session, from the first key frame to the moment it is lost."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.graph import Site, SourceReader
from sightline.graph.site import Clock
from sightline.media import Frame, Stream
from sightline_plugins.decode.failures import lost
from sightline_plugins.decode.open_media import OpenOptions
from sightline_plugins.decode.orientation import Orientation
from sightline_plugins.decode.surfaces import FrameSurfaces
from sightline_plugins.decode.timestamps import RateLimit, nanoseconds
from sightline_plugins.decode.video import VideoDecoder

_TRANSPORTS = {
    "tcp": {"rtsp_transport": "tcp"},
    "udp": {"rtsp_transport": "udp"},
    "auto": {"rtsp_flags": "prefer_tcp"},
}
_FARTHEST_CLOCK_NS = 300_000_000_000


@dataclass(frozen=True, slots=True)
class CameraReading:
    """Which camera is read, and how; `orientation` None follows the stream's metadata."""

    uri: str
    transport: str
    stall_ns: int
    max_fps: float | None
    threads: int
    orientation: Orientation | None
    max_pixels: int

    def open_options(self) -> OpenOptions:
        """How the session is opened: video only, and probed briefly."""
        demuxer = {"allowed_media_types": "video", **_TRANSPORTS[self.transport]}
        return OpenOptions(max_pixels=self.max_pixels, stall_ns=self.stall_ns, live=True, demuxer=demuxer)


class RtspReader(SourceReader):
    """One session with a camera. Its end is always a loss: cameras do not end."""

    def __init__(self, reading: CameraReading, *, stream: Stream, site: Site) -> None:
        self._reading = reading
        self._stream = stream
        self._site = site
        self._decoder: VideoDecoder | None = None
        self._limit = RateLimit(reading.max_fps) if reading.max_fps else None

    def frames(self) -> Iterator[Frame]:
        """Frames from the first key frame on. Raises StreamLost when the camera ends the stream or falls silent."""
        decoder = self._open()
        surfaces = FrameSurfaces(orientation=self._reading.orientation)
        timestamps = decoder.timestamps()
        times = _CaptureTimes(self._site.clock, decoder.facts.time_base)
        index = 0
        for packet in _from_key_frame(decoder.packets()):
            times.note(packet)
            for picture in decoder.decode(packet):
                pts_ns = timestamps.next_ns(picture.pts, picture.dts)
                if self._limit is not None and not self._limit.takes(pts_ns):
                    self.skipped_frames += 1
                    continue
                yield Frame(
                    self._stream,
                    index,
                    pts_ns,
                    surfaces.surface(picture),
                    capture_ns=times.capture_ns(picture.pts),
                    damaged=picture.is_corrupt,
                )
                index += 1
        raise lost("the camera ended the stream", stream=self._stream.name, uri=self._reading.uri)

    def close(self) -> None:
        """End the session."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None

    def _open(self) -> VideoDecoder:
        reading = self._reading
        self._decoder = VideoDecoder(
            reading.uri,
            stream=self._stream.name,
            options=reading.open_options(),
            threads=reading.threads,
            warn=lambda text: self._site.warn(text, stream=self._stream.name),
            on_damage=self._count_damage,
        )
        return self._decoder

    def _count_damage(self) -> None:
        self.damaged_packets += 1


def _from_key_frame(packets: Iterator[Packet[VideoStream]]) -> Iterator[Packet[VideoStream]]:
    return itertools.dropwhile(lambda packet: bool(packet.size) and not packet.is_keyframe, packets)


class _CaptureTimes:
    """When frames were taken: by the camera's clock as its RTCP sender reports give it, else when they arrived.

    A camera's clock that is more than five minutes off ours is not believed.
    """

    def __init__(self, clock: Clock, time_base: Fraction) -> None:
        self._clock = clock
        self._time_base = time_base
        self._arrival_ns = 0
        self._epoch_of_zero_ns: int | None = None

    def note(self, packet: Packet[VideoStream]) -> None:
        """Take down what this packet, which has just arrived, says about time."""
        self._arrival_ns = self._clock.epoch_ns()
        if packet.pts is None or not packet.has_sidedata("prft"):
            return
        (microseconds,) = struct.unpack_from("=q", bytes(packet.get_sidedata("prft")))
        if abs(microseconds * 1_000 - self._arrival_ns) <= _FARTHEST_CLOCK_NS:
            self._epoch_of_zero_ns = microseconds * 1_000 - nanoseconds(packet.pts, self._time_base)

    def capture_ns(self, pts: int | None) -> int:
        """The time of day, in nanoseconds since the epoch, of a picture with that timestamp."""
        if pts is None or self._epoch_of_zero_ns is None:
            return self._arrival_ns
        return self._epoch_of_zero_ns + nanoseconds(pts, self._time_base)
