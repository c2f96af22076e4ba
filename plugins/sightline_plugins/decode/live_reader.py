"""Reading a live stream: one session, from the first key frame to the moment it is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from av.logging import Capture
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.graph import Site, SourceReader
from sightline.media import Frame, Stream
from sightline_plugins.decode import ffmpeg_log
from sightline_plugins.decode.capture_times import CaptureTimes
from sightline_plugins.decode.damage import Damage
from sightline_plugins.decode.decoding import DecoderChoice, Image
from sightline_plugins.decode.failures import lost
from sightline_plugins.decode.live_input import LiveInput
from sightline_plugins.decode.live_timestamps import LiveTimestamps
from sightline_plugins.decode.orientation import Orientation
from sightline_plugins.decode.timestamps import RateLimit


@dataclass(frozen=True, slots=True)
class LiveReading:
    """Which live input is read, and how; `orientation` None follows the stream's metadata.

    `demuxer` holds options of FFmpeg's demuxer, `container_format` names it where it cannot be found out, `resumable`
    says that its reads can go on after a time limit, `sender` is who is at the other end, in messages.
    """

    uri: str
    stall_ns: int
    max_pixels: int
    max_fps: float | None = None
    threads: int = 1
    stream_number: int = 0
    orientation: Orientation | None = None
    demuxer: Mapping[str, str] = field(default_factory=dict)
    container_format: str | None = None
    resumable: bool = False
    sender: str = "the sender"


class LiveReader(SourceReader):
    """One session with a camera or a sender. Its end is always a loss: cameras do not end."""

    def __init__(self, reading: LiveReading, *, stream: Stream, site: Site) -> None:
        self._reading = reading
        self._stream = stream
        self._site = site
        self._input: LiveInput | None = None
        self._limit = RateLimit(reading.max_fps) if reading.max_fps else None
        self._damage = Damage()

    def frames(self) -> Iterator[Frame]:
        """Frames from the first key frame on. Raises StreamLost when the stream ends, StreamStalled when it falls
        silent.
        """
        opened = self._input = LiveInput(self._reading, reader=self, stream=self._stream, site=self._site)
        facts, self.codec = opened.decoder.facts, opened.decoder.codec
        timestamps = LiveTimestamps(time_base=facts.time_base, interval_ns=facts.interval_ns)
        captured = CaptureTimes(self._site.clock, facts.time_base)
        index = 0
        for packet in opened.packets_from_key_frame():
            captured.note(packet)
            self._damage.packet(packet, missed=opened.has_missed)
            for image, damaged in self._decode(opened, packet):
                pts_ns = self._time(image, timestamps, captured)
                if self._limit is not None and not self._limit.takes(pts_ns):
                    self.skipped_frames += 1
                    continue
                capture_ns, whose = captured.of(image.pts)
                yield Frame(
                    self._stream,
                    index,
                    pts_ns,
                    image.surface(),
                    capture_ns,
                    damaged,
                    whose,
                    packet=image.packet,
                    altered=image.is_turned,
                )
                index += 1
        if not self.is_stopping:
            raise lost(f"{self._reading.sender} ended the stream", stream=self._stream.name, uri=self._reading.uri)

    def close(self) -> None:
        """End the session."""
        if self._input is not None:
            self._input.decoder.close()
            self._input = None

    def limit_ns(self) -> int:
        """How long nothing may come."""
        return self._reading.stall_ns if self.silence_limit_ns is None else self.silence_limit_ns

    def warn(self, text: str) -> None:
        """Say what is wrong with the stream."""
        self._site.warn(text, stream=self._stream.name)

    def count_damage(self) -> None:
        """A packet did not decode."""
        self.damaged_packets += 1
        self._damage.hurt()

    def note_choice(self, choice: DecoderChoice) -> None:
        """What decodes is known, or became another."""
        self.decoder, self.decoder_reason = choice.name, choice.reason

    def _decode(self, opened: LiveInput, packet: Packet[VideoStream]) -> Iterator[tuple[Image, bool]]:
        """The images that come out with this packet, and whether each is damaged."""
        with Capture(local=True) as lines:
            images = opened.decoder.decode(packet)
        troubled = bool(lines) and ffmpeg_log.tells_of_damage(lines)
        for image in images:
            yield image, self._damage.marks(image, troubled=troubled)

    def _time(self, image: Image, timestamps: LiveTimestamps, captured: CaptureTimes) -> int:
        """The time of an image; what the camera has said about its clock is forgotten when that was set anew."""
        jumps = timestamps.jumps
        pts_ns = timestamps.next_ns(image.pts, image.dts, arrival_ns=self._site.clock.monotonic_ns())
        self.repaired_timestamps = timestamps.repairs
        if timestamps.jumps > jumps:
            captured.forget()
        return pts_ns
