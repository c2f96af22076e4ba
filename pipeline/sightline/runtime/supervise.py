"""Supervision of sources: attempts, backoff, stalls, pacing and accounting, the same for every kind of source."""

from __future__ import annotations

import dataclasses
import math
import threading
from dataclasses import dataclass
from time import thread_time_ns

from sightline.errors import (
    GpuFailed,
    LinkClosed,
    StreamError,
    StreamLost,
    StreamRefused,
    StreamStalled,
    StreamUnreadable,
)
from sightline.graph import Site, SourceElement, SourceReader
from sightline.media import Frame
from sightline.runtime.changes import Changes
from sightline.runtime.condition import Condition, describe
from sightline.runtime.gather import Arrival
from sightline.runtime.lane import Berth
from sightline.runtime.link import DropReason
from sightline.runtime.moves import Moves
from sightline.runtime.pacing import Continuation, Pace, delay_seconds, refused_delay_seconds
from sightline.runtime.patience import Patience
from sightline.runtime.readings import Readings
from sightline.runtime.statistics import StreamStatistics
from sightline.runtime.worker import Worker


@dataclass(frozen=True, slots=True)
class Limits:
    """When a stream is stopped although it goes on: after so many frames, or so much of its own time. A live stream
    that is lost when that much time has passed on the clock is not tried again.
    """

    frames: int | None = None
    duration_ns: int | None = None


class SourceThread(Worker):
    """Owns one stream: builds a reader, sends its frames into the link, tries again when a live stream is lost.

    One attempt is made at a time, and only this thread ever touches a reader (but for `SourceReader.stop`).
    """

    def __init__(
        self,
        source: SourceElement,
        *,
        berth: Berth,
        statistics: StreamStatistics,
        limits: Limits,
    ) -> None:
        super().__init__(statistics.stream.name)
        self._source = source
        self._moves = Moves(berth)
        self.statistics = statistics
        self._limits = limits
        self._condition = Condition(statistics, site=berth.site)
        self._stopping = threading.Event()
        self._reader: SourceReader | None = None
        self._readings: Readings | None = None
        self._verdict: tuple[BaseException, str | None] | None = None
        self._first_pts_ns: int | None = None
        self._pace = Pace() if source.realtime and not source.live else None
        self._continuation = Continuation()
        self._patience = None if source.stall_ns is None else Patience(source.stall_ns)
        self._changes = Changes() if source.live else None
        self._begun_ns = self._frame_ns = 0
        self._has_begun = False
        self.has_read_all = False
        """Whether nothing more comes of it."""
        self.cpu_ns = 0

    def stop(self) -> None:
        """Ask the thread to end after the frame it is at, or soon when none comes; from any thread."""
        self._stopping.set()
        self._moves.stop()
        reader = self._reader
        if reader is not None:
            reader.stop()

    def move(self, berth: Berth | None) -> None:
        """Go on at another place, because the lane of the present one is lost; None: end. From any thread."""
        reader = self._reader
        if reader is not None:
            reader.stop()
        self._moves.to(berth)

    def give_up(self, error: BaseException, *, details: str | None = None) -> None:
        """End the stream as failed, for a reason that lies behind it in the pipeline; from any thread."""
        self._verdict = (error, details)
        self.stop()
        if not self.running:
            self._condition.failed(error, details=details)

    def work(self) -> None:
        """Read the stream to its end."""
        self._begun_ns = self._frame_ns = self._site.clock.monotonic_ns()
        try:
            self._condition.connecting()
            self._attempts()
        except LinkClosed:
            pass
        except BaseException as error:  # noqa: BLE001  the boundary to foreign code: a reader's fault ends its stream only
            self._condition.failed(error)
        finally:
            self.has_read_all = True
            if self._verdict is not None:
                self._condition.failed(self._verdict[0], details=self._verdict[1])
            self._condition.ended()
            self.statistics.ended_ns = self._site.clock.monotonic_ns()
            self._end()
            self.cpu_ns = thread_time_ns()

    @property
    def _site(self) -> Site:
        return self._moves.berth.site

    def _end(self) -> None:
        """Say that no more frames come."""
        self._moves.end()

    def _attempts(self) -> None:
        attempt = 0
        while not self._stopping.is_set():
            received, begun_ns = self.statistics.received, self._site.clock.monotonic_ns()
            trouble = self._trouble_of_attempt()
            if trouble is None:
                return
            if self._moves.berth.is_lost:
                self._condition.trouble(trouble, delay_seconds=0)
                if not self._moves.wait():
                    return
                attempt = 0
                continue
            if self._is_final():
                self._condition.failed(trouble)
                return
            if self._seconds_left() <= 0 or self._stopping.is_set():
                return
            came = self.statistics.received - received
            attempt = 0 if came else attempt + 1
            if self._patience is not None and isinstance(trouble, StreamStalled) and came <= 1:
                self._patience.silent()  # one frame does not tell how fast it is, and may have come only by the limit
            self._wait_after(trouble, attempt=attempt, begun_ns=begun_ns)

    def _trouble_of_attempt(self) -> StreamError | None:
        """Read until the stream ends (None), or breaks off."""
        berth = self._moves.berth
        try:
            self._attempt()
        except (StreamUnreadable, StreamLost) as error:
            return error
        except LinkClosed:
            if not berth.is_lost:
                raise
        except GpuFailed as error:
            if not berth.give_up_after(error):
                raise
        return StreamLost(f"{berth.lane} is lost") if berth.is_lost else None

    def _attempt(self) -> None:
        reader = self._reader = self._source.build(self._site, stream=self.statistics.stream)
        readings = Readings(reader, self.statistics, again=None if self._source.live else self._readings)
        self._readings = readings
        if self._patience is not None:
            self._patience.begin()
            reader.silence_limit_ns = self._patience.limit_ns
        try:
            self._read(reader, readings)
        finally:
            self._reader = None
            self._close(reader)
            readings.take()

    def _read(self, reader: SourceReader, readings: Readings) -> None:
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
            readings.take()
            self._send(frame)

    def _look_at(self, frame: Frame, reader: SourceReader) -> None:
        """Learn from a frame what the stream is like."""
        statistics = self.statistics
        statistics.size_wh, statistics.time_source = frame.size_wh, frame.time_source
        if reader.decoder_reason not in (None, statistics.decoder_reason):
            self._site.warn(f"it is decoded by the CPU: {reader.decoder_reason}", stream=statistics.stream.name)
        if self._patience is not None:
            self._patience.frame(self._site.clock.monotonic_ns())
            reader.silence_limit_ns = self._patience.limit_ns
        if self._changes is not None and (change := self._changes.look(frame, codec=reader.codec)):
            self._condition.changed(change)

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
            self._moves.berth.link.send(Arrival(frame, now_ns))

    def _begin(self, reader: SourceReader, frame: Frame) -> None:
        """The first frame of an attempt has come."""
        now_ns = self._site.clock.monotonic_ns()
        if self._source.live or not self._has_begun:
            self._continuation.begin(index=self.statistics.received, pts_ns=frame.pts_ns, now_ns=now_ns)
            self._has_begun = True
        self.statistics.frame_count = reader.frame_count
        self._condition.live()

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

    def _wait_after(self, trouble: StreamError, *, attempt: int, begun_ns: int) -> None:
        took_seconds = (self._site.clock.monotonic_ns() - begun_ns) / 1e9
        delay = delay_seconds(attempt, took_seconds=took_seconds, answers=isinstance(trouble, StreamStalled))
        # What a camera has shown before, it may lack for a moment while it starts; a password does not come back.
        is_refusal = isinstance(trouble, StreamUnreadable) and not self.statistics.received
        if is_refusal or (isinstance(trouble, StreamRefused) and trouble.credentials):
            delay = refused_delay_seconds(took_seconds=took_seconds)
        self._condition.trouble(trouble, delay_seconds=delay)
        self._stopping.wait(min(delay, max(self._seconds_left(), 0.0)))

    def _seconds_left(self) -> float:
        if self._limits.duration_ns is None:
            return math.inf
        return (self._begun_ns + self._limits.duration_ns - self._site.clock.monotonic_ns()) / 1e9
