"""Read a live stream: one session with a camera or sender."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import av.error
from av.logging import Capture
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.graph import Site, SourceReader
from sightline.media import Altered, Frame, Stream
from sightline_plugins.decode import failures
from sightline_plugins.decode.decoder import DecoderChoice, DecodeSettings, Image
from sightline_plugins.decode.failures import TIME_LIMITS, failure, lost, stalled
from sightline_plugins.decode.open_media import OpenOptions, Waits
from sightline_plugins.decode.packet_tap import tap_for
from sightline_plugins.decode.timestamps import RateLimit
from sightline_plugins.decode.video import VideoDecoder
from sightline_plugins.sources.live.timing import CaptureTimes, DamageTracker, LiveTimestamps
from sightline_plugins.sources.options import LiveOptions, NetworkOptions

_LONG_WITHOUT_KEY_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class LiveReaderOptions:
    """Options of an element, and of its protocol.

    `demuxer` holds options of FFmpeg's demuxer, `transports` those to try in turn when the server refuses the
    transport, `container_format` the demuxer's name if it cannot be detected; `resumable` says that its reads can
    continue after a time limit; `sender` names the other end in messages.
    """

    element: LiveOptions
    threads: int = 1
    stream_number: int = 0
    demuxer: Mapping[str, str] = field(default_factory=dict)
    transports: tuple[Mapping[str, str], ...] = ()
    container_format: str | None = None
    resumable: bool = False
    sender: str = "the sender"


class LiveReader(SourceReader):
    """One session with a camera or a sender. Its end is always a loss: cameras do not end."""

    def __init__(self, options: LiveReaderOptions, *, stream: Stream, site: Site) -> None:
        self._options, self._element = options, options.element
        self._stream, self._site = stream, site
        self._input: LiveInput | None = None
        self._limit = RateLimit(self._element.max_fps) if self._element.max_fps else None
        self._damage = DamageTracker()

    def frames(self) -> Iterator[Frame]:
        """Yield frames from the first key frame on.

        Raises StreamLost when the stream ends, StreamStalled when it falls silent.
        """
        opened = self._input = LiveInput(self._options, reader=self, stream=self._stream, site=self._site)
        facts, self.codec, self.audio = opened.decoder.facts, opened.decoder.codec, opened.decoder.audio_codec
        timestamps = LiveTimestamps(time_base=facts.time_base, interval_ns=facts.interval_ns)
        captured = CaptureTimes(self._site.clock, facts.time_base)
        index = 0
        for packet in opened.packets_from_key_frame():
            captured.note(packet)
            self._damage.packet(packet, missed=opened.has_missed)
            for image, damaged in self._decode(opened, packet):
                pts_ns = self._time(image, timestamps, captured, is_held_back=not packet.size)
                if self._limit is not None and not self._limit.takes(pts_ns):
                    self.skipped_frames += 1
                    continue
                capture_ns, time_source = captured.of(image.pts)
                yield Frame(
                    self._stream,
                    index,
                    pts_ns,
                    image.surface(),
                    capture_ns,
                    damaged,
                    time_source,
                    packet=image.packet,
                    altered=Altered.CHANGED if image.is_turned else Altered.NO,
                )
                index += 1
        if not self.is_stopping:
            raise lost(f"{self._options.sender} ended the stream", stream=self._stream.name, uri=self._element.uri)

    def close(self) -> None:
        """End the session."""
        if self._input is not None:
            self._input.decoder.close()
            self._input = None

    def limit_ns(self) -> int:
        """Longest silence before the stream counts as stalled."""
        return self._element.stall_timeout if self.silence_limit_ns is None else self.silence_limit_ns

    def warn(self, text: str) -> None:
        """Warn about this stream."""
        self._site.warn(text, stream=self._stream.name)

    def count_damage(self) -> None:
        """Count a packet that did not decode."""
        self.damaged_packets += 1
        self._damage.hurt()

    def note_choice(self, choice: DecoderChoice) -> None:
        """Note which decoder is used."""
        self.decoder, self.decoder_reason = choice.name, choice.reason

    def _decode(self, opened: LiveInput, packet: Packet[VideoStream]) -> Iterator[tuple[Image, bool]]:
        """Decode a packet; yield its images, and whether each is damaged."""
        with Capture(local=True) as lines:
            images = opened.decoder.decode(packet)
        troubled = bool(lines) and failures.tells_of_damage(lines)
        for image in images:
            yield image, self._damage.marks(image, troubled=troubled)

    def _time(self, image: Image, timestamps: LiveTimestamps, captured: CaptureTimes, *, is_held_back: bool) -> int:
        """Return the time of an image, which the decoder may have held back until the end of the stream; when the
        camera's clock was reset, discard its earlier reports.
        """
        jumps = timestamps.jumps
        if is_held_back:
            pts_ns = timestamps.held_back_ns(image.pts, image.dts)
        else:
            pts_ns = timestamps.next_ns(image.pts, image.dts, arrival_ns=self._site.clock.monotonic_ns())
        self.repaired_timestamps = timestamps.repairs
        if timestamps.jumps > jumps:
            captured.forget()
        return pts_ns


class LiveInput:
    """The open input of a reader: its packets, read with time limits, and the losses before them.

    The reader's thread opens, uses and closes it. It refers to the reader and nothing refers back in a cycle: once
    released, it and its decoder are freed at once, not by the garbage collector. Raises what `open_media` raises.
    """

    def __init__(self, options: LiveReaderOptions, *, reader: LiveReader, stream: Stream, site: Site) -> None:
        failures.listen()
        element = self._element = options.element
        self._reader, self._stream, self._clock = reader, stream, site.clock
        self._waits = Waits(site.clock, limit_ns=reader.limit_ns, resumable=options.resumable)
        self.has_missed = False
        self.decoder = VideoDecoder(
            element.uri,
            stream=stream.name,
            options=OpenOptions(
                max_pixels=element.max_pixels,
                live=True,
                demuxer=options.demuxer,
                transports=options.transports,
                container_format=options.container_format,
                waits=self._waits,
                networks=element.allowed_networks if isinstance(element, NetworkOptions) else None,
            ),
            number=options.stream_number,
            decoding=DecodeSettings(options.threads, element.orientation, site.gpu, element.verify_nvdec),
            warn=reader.warn,
            on_damage=reader.count_damage,
            on_choice=reader.note_choice,
            tap=tap_for(stream, site=site),
        )
        self._waits.begin()
        self._waits.heard()

    def packets_from_key_frame(self) -> Iterator[Packet[VideoStream]]:
        """Yield the packets from the first key frame on; warn once when none comes for long."""
        since_ns: int | None = self._clock.monotonic_ns()
        packets = self._packets()
        for packet in packets:
            if packet.is_keyframe or not packet.size:
                yield packet
                break
            if since_ns is not None and self._clock.monotonic_ns() - since_ns >= _LONG_WITHOUT_KEY_NS:
                self._reader.warn(
                    "packets come, but no key frame for 10 s, and nothing can be shown before one: shorten the "
                    "camera's key frame (I-frame, GOP) interval"
                )
                since_ns = None
        yield from packets

    def _packets(self) -> Iterator[Packet[VideoStream]]:
        while not self._reader.is_stopping:
            packet = self._next()
            if packet is None:
                continue
            yield packet
            if not packet.size:
                return

    def _next(self) -> Packet[VideoStream] | None:
        """Read the next packet; None when one wait is over and another begins. Raises StreamStalled and StreamLost."""
        self._waits.begin()
        stream, uri = self._stream.name, self._element.uri
        try:
            with Capture(local=True) as lines:
                packet = self.decoder.read(anew=self._waits.have_changed)
        except (av.error.FFmpegError, OSError) as error:
            if not isinstance(error, TIME_LIMITS):
                raise failure(error, stream=stream, uri=uri, live=True) from None
            if self._waits.is_over and not self._reader.is_stopping:
                seconds = self._reader.limit_ns() / 1e9
                cause = f"nothing came for {seconds:.3g} s, within the time limit (stall_timeout)"
                raise stalled(cause, stream=stream, uri=uri) from None
            return None
        self._waits.heard()
        missed = failures.lost_packets(lines) if lines else 0
        self._reader.lost_packets += missed
        self.has_missed = missed > 0
        return packet
