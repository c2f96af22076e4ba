"""Read a live stream: timestamps, capture times, damage, frames."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from av.logging import Capture
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.graph import Site, SourceReader
from sightline.graph.site import Clock
from sightline.media import Frame, Stream, TimeSource
from sightline_plugins.decode import failures
from sightline_plugins.decode.decoder import DecoderChoice, Image
from sightline_plugins.decode.failures import lost
from sightline_plugins.decode.orientation import Orientation
from sightline_plugins.decode.timestamps import RateLimit, nanoseconds
from sightline_plugins.sources.live.input import LiveInput

_JUMP_NS = 1_000_000_000
_TOLERANCE_NS = 80_000_000
_SETTLING_NS = 1_000_000_000
_WINDOW_NS = 800_000_000
_SMOOTHING = 8


class LiveTimestamps:
    """Turns a camera's timestamps into nanoseconds that strictly rise and go on as the clock does.

    A frame can be late, never early: the least delay between timestamp and arrival, seen in the first second, is held
    to. A timestamp that is missing or does not rise becomes the previous one plus the interval at which frames arrive.
    One that steps back by more than a second, or forth by more than a second more than has passed, is a clock that was
    set anew: what follows keeps its distances. When all frames of a while are early or late by a tenth of a second,
    they are moved. Network jitter, bursts and B-frames change nothing. `repairs` counts the frames put right, `jumps`
    the clocks set anew.
    """

    def __init__(self, *, time_base: Fraction, interval_ns: int) -> None:
        self._time_base = time_base
        self._interval_ns = interval_ns
        self._previous_ns: int | None = None
        self._shift_ns = 0
        self._arrival_ns = self._first_arrival_ns = self._window_end_ns = 0
        self._least_delay_ns = 0
        self._window_delay_ns: int | None = None
        self.repairs = 0
        self.jumps = 0

    def next_ns(self, pts: int | None, dts: int | None, *, arrival_ns: int) -> int:
        """The time of the next frame, from its timestamps in units of the time base and its arrival (monotonic)."""
        ticks = dts if pts is None else pts
        given_ns = None if ticks is None else nanoseconds(ticks, self._time_base) + self._shift_ns
        previous_ns = self._previous_ns
        if previous_ns is None:
            current_ns = given_ns or 0
            self._first_arrival_ns = arrival_ns
            self._least_delay_ns = arrival_ns - current_ns
        else:
            repairs = self.repairs
            current_ns = self._risen(given_ns, previous_ns, passed_ns=arrival_ns - self._arrival_ns)
            current_ns = self._kept_to_clock(current_ns, previous_ns, arrival_ns=arrival_ns)
            self.repairs = min(self.repairs, repairs + 1)
        self._previous_ns, self._arrival_ns = current_ns, arrival_ns
        return current_ns

    def _risen(self, given_ns: int | None, previous_ns: int, *, passed_ns: int) -> int:
        self._interval_ns += (passed_ns - self._interval_ns) // _SMOOTHING
        stand_in_ns = previous_ns + max(self._interval_ns, 1)
        if given_ns is None:
            self.repairs += 1
            return stand_in_ns
        step_ns = given_ns - previous_ns
        if 0 < step_ns <= passed_ns + _JUMP_NS:
            return given_ns
        self.repairs += 1
        if step_ns > 0 or step_ns < -_JUMP_NS:
            self.jumps += 1
            stand_in_ns = previous_ns + max(passed_ns, 1)
            self._shift_ns += stand_in_ns - given_ns
        return stand_in_ns

    def _kept_to_clock(self, current_ns: int, previous_ns: int, *, arrival_ns: int) -> int:
        delay_ns = arrival_ns - current_ns
        if arrival_ns - self._first_arrival_ns < _SETTLING_NS:
            self._least_delay_ns = min(self._least_delay_ns, delay_ns)
            self._window_end_ns = arrival_ns + _WINDOW_NS
            return current_ns
        early_ns = self._least_delay_ns - delay_ns
        if early_ns > _TOLERANCE_NS:
            return self._moved(current_ns, previous_ns, by_ns=-early_ns)
        self._window_delay_ns = min(delay_ns, delay_ns if self._window_delay_ns is None else self._window_delay_ns)
        if arrival_ns < self._window_end_ns:
            return current_ns
        late_ns, self._window_delay_ns = self._window_delay_ns - self._least_delay_ns, None
        self._window_end_ns = arrival_ns + _WINDOW_NS
        return self._moved(current_ns, previous_ns, by_ns=late_ns) if late_ns > _TOLERANCE_NS else current_ns

    def _moved(self, current_ns: int, previous_ns: int, *, by_ns: int) -> int:
        self._shift_ns += by_ns
        self._window_delay_ns = None
        self.repairs += 1
        return max(current_ns + by_ns, previous_ns + 1)


_FARTHEST_CLOCK_NS = 300_000_000_000


class CaptureTimes:
    """When images were taken: by the camera's clock as its RTCP sender reports give it, else when they arrived.

    A camera's clock that is more than five minutes off ours is not believed.
    """

    def __init__(self, clock: Clock, time_base: Fraction) -> None:
        self._clock = clock
        self._time_base = time_base
        self._arrival_ns = 0
        self._epoch_of_zero_ns: int | None = None
        self._is_outdated = False

    def note(self, packet: Packet[VideoStream]) -> None:
        """Take down what this packet, which has just arrived, says about time."""
        self._arrival_ns = self._clock.epoch_ns()
        if packet.has_sidedata("rtcp_sr"):
            self._is_outdated = False
        if self._is_outdated or packet.pts is None or not packet.has_sidedata("prft"):
            return
        (microseconds,) = struct.unpack_from("=q", bytes(packet.get_sidedata("prft")))
        self._epoch_of_zero_ns = microseconds * 1_000 - nanoseconds(packet.pts, self._time_base)

    def forget(self) -> None:
        """The stream's timestamps jumped: what was reported about them before holds no more."""
        self._epoch_of_zero_ns, self._is_outdated = None, True

    def of(self, pts: int | None) -> tuple[int, TimeSource]:
        """The time of day, in nanoseconds since the epoch, of an image with that timestamp, and whose it is."""
        if pts is not None and self._epoch_of_zero_ns is not None:
            reported_ns = self._epoch_of_zero_ns + nanoseconds(pts, self._time_base)
            if abs(reported_ns - self._arrival_ns) <= _FARTHEST_CLOCK_NS:
                return reported_ns, TimeSource.RTCP
        return self._arrival_ns, TimeSource.ARRIVAL


class DamageTracker:
    """Marks images. An image is damaged when something of it was lost or did not decode, or of one that it may be
    decoded from: all images are, until a key frame has come whole.
    """

    def __init__(self) -> None:
        self._is_hurt = False
        self._was_missed = False
        self._whole_from: int | None = None

    def packet(self, packet: Packet[VideoStream], *, missed: bool) -> None:
        """A packet was read; `missed` says that others were lost on the way to it."""
        if missed:
            self.hurt()
        elif packet.is_keyframe and not packet.is_corrupt and not self._was_missed:
            self._whole_from = packet.pts if packet.pts is not None else packet.dts
        self._was_missed = missed

    def hurt(self) -> None:
        """Something was lost or did not decode."""
        self._is_hurt, self._whole_from = True, None

    def marks(self, image: Image, *, troubled: bool) -> bool:
        """Whether an image is damaged; `troubled` says that its decoder had to conceal errors."""
        whole_from = self._whole_from
        if self._is_hurt and whole_from is not None and (image.pts is None or image.pts >= whole_from):
            self._is_hurt = False
        if troubled or image.is_corrupt:
            self.hurt()
        return self._is_hurt


@dataclass(frozen=True, slots=True)
class LiveReaderOptions:
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

    def __init__(self, reading: LiveReaderOptions, *, stream: Stream, site: Site) -> None:
        self._reading = reading
        self._stream = stream
        self._site = site
        self._input: LiveInput | None = None
        self._limit = RateLimit(reading.max_fps) if reading.max_fps else None
        self._damage = DamageTracker()

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
        troubled = bool(lines) and failures.tells_of_damage(lines)
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
