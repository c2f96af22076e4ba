"""A live input while it is open: its packets, waited for in pieces, and what was lost on the way to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import av.error
from av.logging import Capture
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.graph import Site
from sightline.media import Stream
from sightline_plugins.decode import failures
from sightline_plugins.decode.decoder import DecodeSettings
from sightline_plugins.decode.failures import TIME_LIMITS, failure, stalled
from sightline_plugins.decode.open_media import OpenOptions, Waits
from sightline_plugins.decode.packet_tap import tap_for
from sightline_plugins.decode.video import VideoDecoder

if TYPE_CHECKING:
    from sightline_plugins.sources.live.reader import LiveReader, LiveReaderOptions

_LONG_WITHOUT_KEY_NS = 10_000_000_000


class LiveInput:
    """One open session of a reader; opened, used and closed by the reader's thread.

    What it holds refers to the reader, never to itself: a session that is let go of is gone at once, with its decoder,
    and not when the garbage collector comes. Raises what `open_media` raises when it is made.
    """

    def __init__(self, reading: LiveReaderOptions, *, reader: LiveReader, stream: Stream, site: Site) -> None:
        failures.listen()
        self._reading, self._reader = reading, reader
        self._stream, self._site = stream, site
        self._waits = Waits(site.clock, limit_ns=reader.limit_ns, resumable=reading.resumable)
        self.has_missed = False
        self.decoder = VideoDecoder(
            reading.uri,
            stream=stream.name,
            options=OpenOptions(
                max_pixels=reading.max_pixels,
                live=True,
                demuxer=reading.demuxer,
                container_format=reading.container_format,
                waits=self._waits,
            ),
            number=reading.stream_number,
            decoding=DecodeSettings(reading.threads, reading.orientation, site.gpu),
            warn=reader.warn,
            on_damage=reader.count_damage,
            on_choice=reader.note_choice,
            tap=tap_for(stream, site=site),
        )
        self._waits.begin()
        self._waits.heard()

    def packets_from_key_frame(self) -> Iterator[Packet[VideoStream]]:
        """The packets from the first key frame on; that none comes for long is told, once."""
        since_ns: int | None = self._site.clock.monotonic_ns()
        packets = self._packets()
        for packet in packets:
            if packet.is_keyframe or not packet.size:
                yield packet
                break
            if since_ns is not None and self._site.clock.monotonic_ns() - since_ns >= _LONG_WITHOUT_KEY_NS:
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
        """The next packet; None when a wait is over and another one begins. Raises StreamStalled and StreamLost."""
        self._waits.begin()
        try:
            with Capture(local=True) as lines:
                packet = self.decoder.read(anew=self._waits.have_changed)
        except (av.error.FFmpegError, OSError) as error:
            if not isinstance(error, TIME_LIMITS):
                raise failure(error, stream=self._stream.name, uri=self._reading.uri, live=True) from None
            if self._waits.is_over and not self._reader.is_stopping:
                raise self._stalled() from None
            return None
        self._waits.heard()
        missed = failures.lost_packets(lines) if lines else 0
        self._reader.lost_packets += missed
        self.has_missed = missed > 0
        return packet

    def _stalled(self) -> Exception:
        cause = f"nothing came for {self._reader.limit_ns() / 1e9:.3g} s, within the time limit (stall_timeout)"
        return stalled(cause, stream=self._stream.name, uri=self._reading.uri)
