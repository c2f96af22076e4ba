"""Encoded images on their way past the decoder: a bounded ring for each stream that some step wants them of.

A reader adds every packet of its input, before it is decoded; a step at the end of the pipeline takes from the ring
what it records or publishes, without a second connection to the camera. Frames are dropped when the pipeline is slow;
the ring is complete. `Frame.packet` is the number of the packet that a frame was decoded from, and so ties the times
of the two together.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Lock
from weakref import WeakValueDictionary

from sightline.graph.fields import matching
from sightline.media import Stream

_FEWEST_PACKETS = 256
"""What a pipeline may be behind in images, however few of them a second there are."""
_NUMBERS_OF_A_RING = 1 << 48


@dataclass(frozen=True, slots=True, eq=False)
class EncodedFormat:
    """What holds for a run of packets that belong into one file; another codec, size, connection or clock begins
    another one, which is told by identity.

    `codec` is FFmpeg's name (`h264`, `hevc`, `mjpeg`); `configuration` holds the codec's parameter sets, with start
    codes where packets are byte streams, else as the container gives them. `head` is the beginning of a Matroska file
    that describes the input, one object for each time that it was opened, and `tag` the codec's tag in its container;
    empty where nobody wants them or Matroska cannot hold the codec.
    """

    codec: str
    size_wh: tuple[int, int]
    time_base: Fraction
    configuration: bytes = b""
    head: bytes = b""
    tag: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPacket:
    """One encoded image. `pts`, `dts` and `duration` are in units of the format's time base, `pts_ns` and `dts_ns`
    the same in nanoseconds; all are those of the container, before any repair.
    """

    number: int
    data: bytes
    pts: int
    dts: int
    pts_ns: int
    dts_ns: int
    duration: int
    is_key: bool
    format: EncodedFormat


@dataclass(slots=True)
class _Group:
    """A key frame and those that follow it. `at_ns` is when it begins, on a time line that never steps back."""

    at_ns: int
    packets: list[EncodedPacket] = field(default_factory=list)
    size_bytes: int = 0


class PacketRing:
    """The newest packets of one stream, whole groups from a key frame on; empty while nobody wants them.

    It keeps at least as much time as is wanted, and less only when that would pass its limit of bytes. One thread adds,
    any may read. Numbers rise by one from packet to packet, so that a gap shows what was missed; no two rings of a run
    have one in common.
    """

    def __init__(self, stream: Stream, *, first_number: int = 0) -> None:
        self.stream = stream
        self.overflows = 0
        """How often a group of images was larger than the limit of bytes, and was dropped."""
        self._lock = Lock()
        self._groups: deque[_Group] = deque()
        self._number = first_number
        self._duration_ns = self._limit_bytes = 0
        self.wants_heads = False
        """Whether formats are wanted with their `head`."""
        self._size_bytes = self._count = 0
        self._at_ns = 0
        self._last: EncodedPacket | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether any step wants the packets."""
        return self._limit_bytes > 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all packets in it."""
        return self._size_bytes

    def limit(self, *, duration_ns: int, size_bytes: int) -> None:
        """Keep so much from now on; 0 bytes: nothing."""
        with self._lock:
            self._duration_ns, self._limit_bytes = duration_ns, size_bytes
            if not size_bytes:
                self._clear()

    def add(
        self,
        data: bytes,
        *,
        pts: int,
        dts: int,
        pts_ns: int,
        dts_ns: int,
        duration: int,
        is_key: bool,
        format: EncodedFormat,  # noqa: A002  the field's name
    ) -> int:
        """Add the next packet in decoding order; return its number."""
        with self._lock:
            self._number += 1
            packet = EncodedPacket(self._number, data, pts, dts, pts_ns, dts_ns, duration, is_key, format)
            if self._last is not None and self._last.format is format:
                self._at_ns += max(dts_ns - self._last.dts_ns, 0)
            self._last = packet
            self._append(packet)
            return packet.number

    def newest(self) -> EncodedPacket | None:
        """The packet added last, while it is in the ring."""
        with self._lock:
            return self._groups[-1].packets[-1] if self._groups else None

    def packet(self, number: int) -> EncodedPacket | None:
        """The packet of that number; None when it is no longer, or not yet, in the ring."""
        found = self.after(number - 1, most=1)
        return found[0] if found and found[0].number == number else None

    def after(self, number: int, *, most: int = 1 << 30) -> Sequence[EncodedPacket]:
        """The packets with a higher number that are in the ring, in their order; the first `most` of them."""
        with self._lock:
            found: list[EncodedPacket] = []
            for group in self._from_group_of(number + 1):
                first = group.packets[0].number
                found += group.packets[max(0, number + 1 - first) :][: most - len(found)]
                if len(found) >= most:
                    break
            return found

    def key_frames(self) -> Sequence[EncodedPacket]:
        """The key frames that are in the ring, in their order."""
        with self._lock:
            return [group.packets[0] for group in self._groups]

    def _append(self, packet: EncodedPacket) -> None:
        if not self._limit_bytes:
            return
        if packet.is_key:
            self._groups.append(_Group(self._at_ns))
        elif not self._groups:
            return
        group = self._groups[-1]
        if group.packets and group.packets[-1].format is not packet.format:
            return
        group.packets.append(packet)
        group.size_bytes += len(packet.data)
        self._size_bytes += len(packet.data)
        self._count += 1
        while len(self._groups) > 1 and self._has_enough_without_the_first():
            self._forget_first()
        if self._size_bytes > self._limit_bytes:
            self.overflows += 1
            self._clear()

    def _has_enough_without_the_first(self) -> bool:
        if self._size_bytes > self._limit_bytes:
            return True
        rest = self._count - len(self._groups[0].packets)
        return rest >= _FEWEST_PACKETS and self._groups[1].at_ns <= self._at_ns - self._duration_ns

    def _forget_first(self) -> None:
        group = self._groups.popleft()
        self._size_bytes -= group.size_bytes
        self._count -= len(group.packets)

    def _clear(self) -> None:
        self._groups.clear()
        self._size_bytes = self._count = 0

    def _from_group_of(self, number: int) -> Iterator[_Group]:
        at = bisect.bisect_right(self._groups, number, key=lambda group: group.packets[0].number)
        for index in range(max(at - 1, 0), len(self._groups)):
            yield self._groups[index]


class Wanted:
    """What one step wants of the streams that its patterns match, until it is closed."""

    def __init__(
        self,
        store: Packets,
        patterns: Sequence[str] | None,
        *,
        duration_ns: int,
        limit_bytes: int,
        with_heads: bool = False,
    ) -> None:
        self._store = store
        self._patterns = patterns
        self.duration_ns = duration_ns
        self.limit_bytes = limit_bytes
        self.with_heads = with_heads

    def covers(self, stream: Stream) -> bool:
        """Whether packets of this stream are wanted."""
        return bool(matching(self._patterns, (stream.name,)))

    def close(self) -> None:
        """The step wants no more packets; harmless when called again."""
        self._store.release(self)


class Packets:
    """The rings of one run. A ring lives as long as somebody holds it: the reader while it reads, a step while the
    stream goes on.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._rings: WeakValueDictionary[Stream, PacketRing] = WeakValueDictionary()
        self._wanted: list[Wanted] = []
        self._made = 0

    def of(self, stream: Stream) -> PacketRing:
        """The ring of a stream."""
        with self._lock:
            ring = self._rings.get(stream)
            if ring is None:
                ring = PacketRing(stream, first_number=self._made * _NUMBERS_OF_A_RING)
                self._made += 1
                self._rings[stream] = ring
                self._set_limits(ring)
            return ring

    def want(
        self, patterns: Sequence[str] | None, *, duration_ns: int, limit_bytes: int, with_heads: bool = False
    ) -> Wanted:
        """Keep that much time of each matching stream (all without patterns), but no more than so many bytes of each,
        until the returned object is closed. Inputs that are opened from now on are described `with_heads`.
        """
        wanted = Wanted(self, patterns, duration_ns=duration_ns, limit_bytes=limit_bytes, with_heads=with_heads)
        with self._lock:
            self._wanted.append(wanted)
            self._set_all_limits()
        return wanted

    def release(self, wanted: Wanted) -> None:
        """Keep nothing more for it."""
        with self._lock:
            if wanted in self._wanted:
                self._wanted.remove(wanted)
                self._set_all_limits()

    def _set_all_limits(self) -> None:
        for ring in list(self._rings.values()):
            self._set_limits(ring)

    def _set_limits(self, ring: PacketRing) -> None:
        own = [wanted for wanted in self._wanted if wanted.covers(ring.stream)]
        ring.wants_heads = any(wanted.with_heads for wanted in own)
        ring.limit(
            duration_ns=max((wanted.duration_ns for wanted in own), default=0),
            size_bytes=max((wanted.limit_bytes for wanted in own), default=0),
        )
