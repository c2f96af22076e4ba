"""Supervise sources: reconnect with backoff, detect stalls, pace and count, the same for every kind of source."""

from __future__ import annotations

import dataclasses
import math
import threading
from dataclasses import dataclass
from threading import Event, Lock
from time import thread_time_ns

from sightline.errors import (
    CudaFailed,
    LinkClosed,
    StreamError,
    StreamLost,
    StreamRefused,
    StreamStalled,
    StreamUnreadable,
)
from sightline.graph import Site, SourceElement, SourceReader
from sightline.media import Frame
from sightline.runtime.scheduling.batcher import Arrival
from sightline.runtime.scheduling.lane import StreamSlot
from sightline.runtime.scheduling.link import DropReason
from sightline.runtime.sources.health import (
    Changes,
    Continuation,
    Pace,
    StallDetector,
    StreamStateMachine,
    delay_seconds,
    describe,
    refused_delay_seconds,
)
from sightline.runtime.stats.counters import StreamStats
from sightline.runtime.threads import Worker


class GpuFailover:
    """Holds the place of a stream. Its thread uses it, waits for another and ends it; others give it one, or none."""

    def __init__(self, slot: StreamSlot) -> None:
        self.slot = slot
        """Where the stream is now; becomes another in `wait` only."""
        self._given: StreamSlot | None = slot
        self._lock = Lock()
        self._news = Event()
        self._is_stopped = self._has_ended = False

    def to(self, slot: StreamSlot | None) -> None:
        """Give the stream another place, or none any more."""
        with self._lock:
            self._given = slot
            if self._has_ended and slot is not None:
                slot.link.end()
        self._news.set()

    def stop(self) -> None:
        """Nobody waits any more."""
        self._is_stopped = True
        self._news.set()

    def wait(self) -> bool:
        """Wait for a place that is not lost; False when there will be none."""
        while self.slot.is_lost and not self._is_stopped:
            self._news.wait()
            with self._lock:
                self._news.clear()
                if self._given is None:
                    return False
                self.slot = self._given
        return not self._is_stopped

    def end(self) -> None:
        """The stream has ended where it is, and wherever else it is given a place."""
        with self._lock:
            self._has_ended = True
            links = {one.link for one in (self.slot, self._given) if one is not None}
        for link in links:
            link.end()


_COUNTERS = ("damaged_packets", "skipped_frames", "lost_packets", "repaired_timestamps")


class StreamCounters:
    """Adds the counters of one attempt's reader to the statistics of its stream, as often as it is asked to.

    A reader that begins again at the front (`again`, what read it before) counts once what was counted already.
    """

    def __init__(self, reader: SourceReader, statistics: StreamStats, *, again: StreamCounters | None = None) -> None:
        self._reader = reader
        self._statistics = statistics
        self.before: dict[str, int] = (
            {name: getattr(statistics, name) for name in _COUNTERS} if again is None else again.before
        )
        """What had been counted before."""

    def take(self) -> None:
        """Bring the statistics up to date."""
        reader, statistics = self._reader, self._statistics
        for name in _COUNTERS:
            counted = self.before[name] + getattr(reader, name)
            setattr(statistics, name, max(getattr(statistics, name), counted))
        statistics.codec = reader.codec
        if reader.decoder is not None:
            statistics.decoder, statistics.decoder_reason = reader.decoder, reader.decoder_reason


@dataclass(frozen=True, slots=True)
class Limits:
    """When a stream is stopped although it goes on: after so many frames, or so much of its own time. A live stream
    that is lost when that much time has passed on the clock is not tried again.
    """

    frames: int | None = None
    duration_ns: int | None = None


class SourceSupervisor(Worker):
    """Owns one stream: builds a reader, sends its frames into the link, tries again when a live stream is lost.

    One attempt is made at a time, and only this thread ever touches a reader (but for `SourceReader.stop`).
    """

    def __init__(
        self,
        source: SourceElement,
        *,
        slot: StreamSlot,
        statistics: StreamStats,
        limits: Limits,
    ) -> None:
        super().__init__(statistics.stream.name)
        self._source = source
        self._failover = GpuFailover(slot)
        self.statistics = statistics
        self._limits = limits
        self._state = StreamStateMachine(statistics, site=slot.site)
        self._stopping = threading.Event()
        self._reader: SourceReader | None = None
        self._counters: StreamCounters | None = None
        self._verdict: tuple[BaseException, str | None] | None = None
        self._first_pts_ns: int | None = None
        self._pace = Pace() if source.realtime and not source.live else None
        self._continuation = Continuation()
        self._stall_detector = None if source.stall_ns is None else StallDetector(source.stall_ns)
        self._changes = Changes() if source.live else None
        self._begun_ns = self._frame_ns = 0
        self._has_begun = False
        self.has_read_all = False
        """Whether nothing more comes of it."""
        self.cpu_ns = 0

    def stop(self) -> None:
        """Ask the thread to end after the frame it is at, or soon when none comes; from any thread."""
        self._stopping.set()
        self._failover.stop()
        reader = self._reader
        if reader is not None:
            reader.stop()

    def move(self, slot: StreamSlot | None) -> None:
        """Go on at another place, because the lane of the present one is lost; None: end. From any thread."""
        reader = self._reader
        if reader is not None:
            reader.stop()
        self._failover.to(slot)

    def give_up(self, error: BaseException, *, details: str | None = None) -> None:
        """End the stream as failed, for a reason that lies behind it in the pipeline; from any thread."""
        self._verdict = (error, details)
        self.stop()
        if not self.running:
            self._state.failed(error, details=details)

    def work(self) -> None:
        """Read the stream to its end."""
        self._begun_ns = self._frame_ns = self._site.clock.monotonic_ns()
        try:
            self._state.connecting()
            self._read_and_reconnect()
        except LinkClosed:
            pass
        except BaseException as error:  # noqa: BLE001  the boundary to foreign code: a reader's fault ends its stream only
            self._state.failed(error)
        finally:
            self.has_read_all = True
            if self._verdict is not None:
                self._state.failed(self._verdict[0], details=self._verdict[1])
            self._state.ended()
            self.statistics.ended_ns = self._site.clock.monotonic_ns()
            self._end()
            self.cpu_ns = thread_time_ns()

    @property
    def _site(self) -> Site:
        return self._failover.slot.site

    def _end(self) -> None:
        """Say that no more frames come."""
        self._failover.end()

    def _read_and_reconnect(self) -> None:
        """Read the stream, and reconnect after a backoff, until it ends, fails for good, or the run stops."""
        attempt = 0
        while not self._stopping.is_set():
            received, begun_ns = self.statistics.received, self._site.clock.monotonic_ns()
            trouble = self._trouble_of_one_connection()
            if trouble is None:
                return
            if self._failover.slot.is_lost:
                self._state.trouble(trouble, delay_seconds=0)
                if not self._failover.wait():
                    return
                attempt = 0
                continue
            if self._is_final():
                self._state.failed(trouble)
                return
            if self._seconds_left() <= 0 or self._stopping.is_set():
                return
            came = self.statistics.received - received
            attempt = 0 if came else attempt + 1
            if self._stall_detector is not None and isinstance(trouble, StreamStalled) and came <= 1:
                # One frame does not tell how fast a stream is, and may have come only by the limit.
                self._stall_detector.silent()
            self._wait_before_reconnecting(trouble, attempt=attempt, begun_ns=begun_ns)

    def _trouble_of_one_connection(self) -> StreamError | None:
        """Read until the stream ends (return None), or return why it broke off."""
        slot = self._failover.slot
        try:
            self._read_once()
        except (StreamUnreadable, StreamLost) as error:
            return error
        except LinkClosed:
            if not slot.is_lost:
                raise
        except CudaFailed as error:
            if not slot.give_up_after(error):
                raise
        return StreamLost(f"{slot.lane} is lost") if slot.is_lost else None

    def _read_once(self) -> None:
        reader = self._reader = self._source.build(self._site, stream=self.statistics.stream)
        counters = StreamCounters(reader, self.statistics, again=None if self._source.live else self._counters)
        self._counters = counters
        if self._stall_detector is not None:
            self._stall_detector.begin()
            reader.silence_limit_ns = self._stall_detector.limit_ns
        try:
            self._read(reader, counters)
        finally:
            self._reader = None
            self._close(reader)
            counters.take()

    def _read(self, reader: SourceReader, counters: StreamCounters) -> None:
        statistics, first = self.statistics, True
        frames, received = reader.frames(), self.statistics.received
        while not (self._stopping.is_set() or self._is_full()):
            started = thread_time_ns()
            frame = next(frames, None)
            statistics.read_cpu_ns += thread_time_ns() - started
            if frame is None or self._stopping.is_set():
                return
            if first:
                first = False
                self._begin(reader, frame)
            frame = self._continued(frame)
            if frame.index < received:  # a file that is read again
                continue
            if self._is_past_duration(frame):
                return
            self._look_at(frame, reader)
            counters.take()
            self._send(frame)

    def _look_at(self, frame: Frame, reader: SourceReader) -> None:
        """Learn from a frame what the stream is like."""
        statistics = self.statistics
        statistics.size_wh, statistics.time_source = frame.size_wh, frame.time_source
        if reader.decoder_reason not in (None, statistics.decoder_reason):
            self._site.warn(f"it is decoded by the CPU: {reader.decoder_reason}", stream=statistics.stream.name)
        if self._stall_detector is not None:
            self._stall_detector.frame(self._site.clock.monotonic_ns())
            reader.silence_limit_ns = self._stall_detector.limit_ns
        if self._changes is not None and (change := self._changes.look(frame, codec=reader.codec)):
            self._state.changed(change)

    def _send(self, frame: Frame) -> None:
        clock, statistics = self._site.clock, self.statistics
        if self._pace is not None:
            wait_ns = self._pace.wait_ns(frame.pts_ns, now_ns=clock.monotonic_ns())
            if wait_ns and self._stopping.wait(wait_ns / 1e9):
                return
        now_ns = self._frame_ns = clock.monotonic_ns()
        self._continuation.note(frame.pts_ns, now_ns=now_ns)
        statistics.receive()
        statistics.position_ns = frame.pts_ns
        if frame.damaged and self._source.skips_damaged:
            statistics.drop(DropReason.DAMAGED)
        else:
            self._failover.slot.link.send(Arrival(frame, now_ns))

    def _begin(self, reader: SourceReader, frame: Frame) -> None:
        """The first frame of an attempt has come."""
        now_ns = self._site.clock.monotonic_ns()
        if self._source.live or not self._has_begun:
            self._continuation.begin(index=self.statistics.received, pts_ns=frame.pts_ns, now_ns=now_ns)
            self._has_begun = True
        self.statistics.frame_count = reader.frame_count
        self._state.live()

    def _continued(self, frame: Frame) -> Frame:
        moved = self._continuation
        if not moved.index:
            return frame
        return dataclasses.replace(frame, index=frame.index + moved.index, pts_ns=frame.pts_ns + moved.shift_ns)

    def _is_full(self) -> bool:
        return self._limits.frames is not None and self.statistics.received >= self._limits.frames

    def _is_past_duration(self, frame: Frame) -> bool:
        if self._first_pts_ns is None:
            self._first_pts_ns = frame.pts_ns
        duration_ns = self._limits.duration_ns
        return duration_ns is not None and frame.pts_ns - self._first_pts_ns >= duration_ns

    def _close(self, reader: SourceReader) -> None:
        """Close a reader; trouble in that is told, but is no reason to give the stream up."""
        try:
            reader.close()
        except Exception as error:  # noqa: BLE001  the boundary to foreign code
            self._site.warn(f"closing the input failed: {describe(error)}", stream=self.statistics.stream.name)

    def _is_final(self) -> bool:
        """Whether trouble now is the end of the stream, and no other attempt is made."""
        patience_ns = self._source.gives_up_ns
        is_over = self._seconds_left() <= 0 and not self.statistics.received
        waited_ns = self._site.clock.monotonic_ns() - self._frame_ns
        return not self._source.live or is_over or (patience_ns is not None and waited_ns >= patience_ns)

    def _wait_before_reconnecting(self, trouble: StreamError, *, attempt: int, begun_ns: int) -> None:
        took_seconds = (self._site.clock.monotonic_ns() - begun_ns) / 1e9
        delay = delay_seconds(attempt, took_seconds=took_seconds, answers=isinstance(trouble, StreamStalled))
        # What a camera has shown before, it may lack for a moment while it starts; a password does not come back.
        is_refusal = isinstance(trouble, StreamUnreadable) and not self.statistics.received
        if is_refusal or (isinstance(trouble, StreamRefused) and trouble.credentials):
            delay = refused_delay_seconds(took_seconds=took_seconds)
        self._state.trouble(trouble, delay_seconds=delay)
        self._stopping.wait(min(delay, max(self._seconds_left(), 0.0)))

    def _seconds_left(self) -> float:
        if self._limits.duration_ns is None:
            return math.inf
        return (self._begun_ns + self._limits.duration_ns - self._site.clock.monotonic_ns()) / 1e9


_GLANCE_SECONDS = 0.1


class StreamSession(SourceSupervisor):
    """One stay of a stream. What came under the same name before it (`before`) comes to its end first, even when its
    input answers late, and is then continued.
    """

    def __init__(
        self,
        source: SourceElement,
        *,
        slot: StreamSlot,
        statistics: StreamStats,
        limits: Limits,
        before: StreamSession | None,
    ) -> None:
        super().__init__(source, slot=slot, statistics=statistics, limits=limits)
        self._before = before
        self._cpu_ns_before = 0

    @property
    def is_settled(self) -> bool:
        """Whether it, and all that came before it, have ended."""
        return self.ident is not None and not self.running and (self._before is None or self._before.is_settled)

    @property
    def all_cpu_ns(self) -> int:
        """What it and all that came before it took."""
        return self._cpu_ns_before + self.cpu_ns

    def work(self) -> None:
        """Read the stream to its end, once what came before has ended."""
        before = self._before
        while before is not None and not before.is_settled:
            if self._stopping.wait(_GLANCE_SECONDS):
                self._end()
                return
        self._take_over()
        super().work()

    def _take_over(self) -> None:
        before, self._before = self._before, None
        while before is not None and before._before is not None:  # noqa: SLF001  those between never came to read
            before = before._before  # noqa: SLF001
        if before is not None:
            self._continuation, self._cpu_ns_before = before._continuation, before.all_cpu_ns  # noqa: SLF001
            self.statistics.ended_ns = self.statistics.error = self.statistics.cause = None
