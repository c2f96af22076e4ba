"""Record one stream: which packets belong to which clip."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sightline.graph import EncodedFormat, EncodedPacket, PacketRing
from sightline.media import Frame, Stream
from sightline_plugins.record.clip_store import Clip, ClipStore

_FORMATS = 8


class PacketTimes:
    """Converts the container's times of packets to those of frames, which continue over connections and repairs."""

    def __init__(self) -> None:
        self._shifts_ns: dict[EncodedFormat, tuple[int, int | None]] = {}

    def note(self, packet: EncodedPacket, frame: Frame) -> None:
        """Note a frame that was decoded from a packet."""
        if packet.format not in self._shifts_ns and len(self._shifts_ns) >= _FORMATS:
            del self._shifts_ns[next(iter(self._shifts_ns))]
        capture_shift_ns = None if frame.capture_ns is None else frame.capture_ns - packet.pts_ns
        self._shifts_ns[packet.format] = frame.pts_ns - packet.pts_ns, capture_shift_ns

    def shown_ns(self, packet: EncodedPacket) -> int | None:
        """Presentation time of a packet's image; None before a frame of its format was seen."""
        shift_ns, _ = self._shifts_ns.get(packet.format, (None, None))
        return None if shift_ns is None else packet.pts_ns + shift_ns

    def decoded_ns(self, packet: EncodedPacket) -> int:
        """Decoding time of a packet, whose presentation time must be known."""
        return packet.dts_ns + self._shifts_ns[packet.format][0]

    def captured_ns(self, packet: EncodedPacket) -> int | None:
        """Capture time of a packet's image, if known."""
        _, shift_ns = self._shifts_ns.get(packet.format, (None, None))
        return None if shift_ns is None else packet.pts_ns + shift_ns


@dataclass(slots=True)
class Interval:
    """A requested recording: all images from `start_ns` to `end_ns`, both included; `end_ns` None has no end.

    No request begins earlier than `hold_ns` before now, so an interval that ended longer ago cannot be extended.
    """

    start_ns: int
    end_ns: int | None
    hold_ns: int = 0
    causes: dict[str, None] = field(default_factory=dict)
    has_begun: bool = False


class StreamRecorder:
    """Writes the requested packets of a stream's ring. Frames set the time; packets are written even if their frames
    were dropped. Files begin with a key frame and are cut at one after `longest_ns`; a format change and a gap in the
    ring begin a new file. Used by one thread.
    """

    def __init__(self, stream: Stream, *, ring: PacketRing, clip_store: ClipStore, longest_ns: int) -> None:
        self._stream = stream
        self._ring = ring
        self._clip_store = clip_store
        self._longest_ns = longest_ns
        self._times = PacketTimes()
        self._wanted: deque[Interval] = deque()
        self._cursor = 0
        self._clip: Clip | None = None
        self._now_ns = 0

    def see(self, frame: Frame) -> bool:
        """Note a frame; False when its packet is no longer in the ring."""
        packet = None if frame.packet is None else self._ring.packet(frame.packet)
        if packet is None:
            return False
        self._now_ns = frame.pts_ns
        self._times.note(packet, frame)
        return True

    def want(self, *, at: EncodedPacket | None = None, before_ns: int, after_ns: int | None, cause: str) -> None:
        """Request a recording around a packet (default: the last frame); `after_ns` None has no end."""
        shown_ns = None if at is None else self._times.shown_ns(at)
        at_ns = self._now_ns if shown_ns is None else shown_ns
        start_ns = at_ns - before_ns
        end_ns = None if after_ns is None else at_ns + after_ns
        last = self._wanted[-1] if self._wanted else None
        if last is None or (last.end_ns is not None and start_ns > last.end_ns):
            last = Interval(start_ns, end_ns)
            self._wanted.append(last)
        elif end_ns is not None and last.end_ns is not None:
            last.end_ns = max(last.end_ns, end_ns)
        if not last.has_begun:
            last.start_ns = min(last.start_ns, start_ns)
        last.hold_ns = max(last.hold_ns, before_ns)
        last.causes[cause] = None

    def advance(self, *, at_end: bool = False) -> None:
        """Write the requested packets that are available; at the end of the stream all of them."""
        while self._wanted:
            current = self._wanted[0]
            if not self._is_written(current, at_end=at_end):
                return
            ends_ns = self._now_ns if current.end_ns is None else current.end_ns + current.hold_ns
            if not at_end and len(self._wanted) == 1 and self._now_ns <= ends_ns:
                return
            self._finish()
            self._wanted.popleft()

    def end(self) -> None:
        """End the stream: write the last packets, and close the file."""
        self.advance(at_end=True)
        self._finish()
        self._wanted.clear()

    def _is_written(self, current: Interval, *, at_end: bool) -> bool:
        """Write available packets; return whether the interval is complete."""
        if self._clip_store.is_waiting and not at_end:
            return False
        if not current.has_begun:
            self._begin(current)
        packets = self._ring.after(self._cursor)
        for place, packet in enumerate(packets):
            pts_ns = self._times.shown_ns(packet)
            if pts_ns is None:
                return at_end
            self._end_before_a_break(packet)
            is_over = self._is_over(packet, packets[place:], end_ns=current.end_ns, at_end=at_end)
            if is_over is None:
                return False
            if is_over:
                return True
            if not self._take(packet, pts_ns=pts_ns):
                return at_end
            self._cursor = packet.number
        return at_end

    def _begin(self, current: Interval) -> None:
        """Set the cursor before the last key frame that is not later than the start, else before the first."""
        keys = [(key, self._times.shown_ns(key)) for key in self._ring.key_frames()]
        known = [(key, pts_ns) for key, pts_ns in keys if pts_ns is not None]
        if not known:
            return
        first = next((key for key, pts_ns in reversed(known) if pts_ns <= current.start_ns), known[0][0])
        self._cursor = first.number - 1
        current.has_begun = True

    def _end_before_a_break(self, packet: EncodedPacket) -> None:
        clip = self._clip
        if clip is None:
            return
        is_gap = packet.number != self._cursor + 1
        if is_gap:
            self._clip_store.count_gap(self._stream)
        if is_gap or packet.format is not clip.file.format:
            self._finish()

    def _is_over(
        self, packet: EncodedPacket, following: Sequence[EncodedPacket], *, end_ns: int | None, at_end: bool
    ) -> bool | None:
        """Whether a file may end before this packet: it has all requested images, and B-frames leave no gap between
        them. None when later packets decide that.
        """
        if end_ns is None or self._times.decoded_ns(packet) <= end_ns:
            return False
        if self._clip is None:
            return True
        latest = self._clip.latest.pts
        for later in following:
            if later.format is not packet.format or later.dts > latest:
                return True
            if later.pts <= latest:
                return False
        return True if at_end else None

    def _take(self, packet: EncodedPacket, *, pts_ns: int) -> bool:
        """Write a packet, in a new file if necessary; False when that is impossible now."""
        if packet.is_key and (self._clip is None or pts_ns - self._clip.first_pts_ns >= self._longest_ns):
            self._finish()
            self._clip = self._clip_store.begin(
                packet, stream=self._stream, first_pts_ns=pts_ns, first_capture_ns=self._times.captured_ns(packet)
            )
            if self._clip is None:
                return False
        clip = self._clip
        if clip is None or packet.pts < clip.first.pts:
            return True  # no key frame yet, or one that was shown before it and needs what is not in the file
        if self._clip_store.write(clip, packet, pts_ns=pts_ns):
            return True
        self._cursor = clip.key.number - 1
        self._clip = None
        return False

    def _finish(self) -> None:
        if self._clip is not None:
            clip, self._clip = self._clip, None
            self._clip_store.finish(clip, causes=", ".join(self._wanted[0].causes) if self._wanted else "")
