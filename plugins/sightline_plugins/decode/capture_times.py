"""Capture times: the time of day at which the images of a live stream were taken."""

from __future__ import annotations

import struct
from fractions import Fraction

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.graph.site import Clock
from sightline.media import TimeSource
from sightline_plugins.decode.timestamps import nanoseconds

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
