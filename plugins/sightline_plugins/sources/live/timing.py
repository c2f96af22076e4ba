"""Timestamps, capture times and damage of the frames of a live stream."""

from __future__ import annotations

import struct
from fractions import Fraction

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.graph.site import Clock
from sightline.media import TimeSource
from sightline_plugins.decode.decoder import Image
from sightline_plugins.decode.timestamps import nanoseconds

_JUMP_NS = 1_000_000_000
_TOLERANCE_NS = 80_000_000
_SETTLING_NS = 1_000_000_000
_WINDOW_NS = 800_000_000
_SMOOTHING = 8


class LiveTimestamps:
    """Turns a camera's timestamps into nanoseconds that strictly rise and go on as the clock does.

    A frame can be late, never early: the smallest delay between timestamp and arrival in the first second is kept.
    A timestamp that is missing or does not rise becomes the previous one plus the interval at which frames arrive. One
    that steps back by more than a second, or ahead by a second more than has passed, means that the camera's clock was
    reset: later frames keep their distances. When all frames of a while are early or late by a tenth of a second, they
    are moved. Network jitter, bursts and B-frames change nothing. `repairs` counts repaired frames, `jumps` resets.
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
        """Return the time of the next frame from its timestamps (in the time base) and its arrival (monotonic)."""
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

    def held_back_ns(self, pts: int | None, dts: int | None) -> int:
        """Return the time of a frame that the decoder gives only because the stream has ended. It comes earlier after
        its packet than the others, so that its arrival says nothing about the camera's clock.
        """
        ticks, previous_ns = dts if pts is None else pts, self._previous_ns
        current_ns = None if ticks is None else nanoseconds(ticks, self._time_base) + self._shift_ns
        if previous_ns is None:
            current_ns = current_ns or 0
        elif current_ns is None or not 0 < current_ns - previous_ns <= _JUMP_NS:
            self.repairs += 1
            current_ns = previous_ns + max(self._interval_ns, 1)
        self._previous_ns = current_ns
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
    """Capture times: by the camera's clock where its RTCP sender reports give it, else the arrival.

    A camera's clock that is more than five minutes off ours is ignored.
    """

    def __init__(self, clock: Clock, time_base: Fraction) -> None:
        self._clock = clock
        self._time_base = time_base
        self._arrival_ns = 0
        self._epoch_of_zero_ns: int | None = None
        self._is_outdated = False

    def note(self, packet: Packet[VideoStream]) -> None:
        """Read the times that this packet, which has just arrived, carries."""
        self._arrival_ns = self._clock.epoch_ns()
        if packet.has_sidedata("rtcp_sr"):
            self._is_outdated = False
        if self._is_outdated or packet.pts is None or not packet.has_sidedata("prft"):
            return
        (microseconds,) = struct.unpack_from("=q", bytes(packet.get_sidedata("prft")))
        self._epoch_of_zero_ns = microseconds * 1_000 - nanoseconds(packet.pts, self._time_base)

    def forget(self) -> None:
        """Discard earlier reports, because the stream's timestamps jumped."""
        self._epoch_of_zero_ns, self._is_outdated = None, True

    def of(self, pts: int | None) -> tuple[int, TimeSource]:
        """Return the capture time of an image with that timestamp, in nanoseconds since the epoch, and its source."""
        if pts is not None and self._epoch_of_zero_ns is not None:
            reported_ns = self._epoch_of_zero_ns + nanoseconds(pts, self._time_base)
            if abs(reported_ns - self._arrival_ns) <= _FARTHEST_CLOCK_NS:
                return reported_ns, TimeSource.RTCP
        return self._arrival_ns, TimeSource.ARRIVAL


class DamageTracker:
    """Marks damaged images: after a loss or a decoding error, all images until an intact key frame."""

    def __init__(self) -> None:
        self._is_hurt = False
        self._was_missed = False
        self._whole_from: int | None = None

    def packet(self, packet: Packet[VideoStream], *, missed: bool) -> None:
        """Note a packet; `missed` says that packets before it were lost."""
        if missed:
            self.hurt()
        elif packet.is_keyframe and not packet.is_corrupt and not self._was_missed:
            self._whole_from = packet.pts if packet.pts is not None else packet.dts
        self._was_missed = missed

    def hurt(self) -> None:
        """Note that data was lost or did not decode."""
        self._is_hurt, self._whole_from = True, None

    def marks(self, image: Image, *, troubled: bool) -> bool:
        """Return whether an image is damaged; `troubled` says that its decoder concealed errors."""
        whole_from = self._whole_from
        if self._is_hurt and whole_from is not None and (image.pts is None or image.pts >= whole_from):
            self._is_hurt = False
        if troubled or image.is_corrupt:
            self.hurt()
        return self._is_hurt
