"""Supervision of sources: attempts, backoff, pacing and accounting, the same for every kind of source."""

from __future__ import annotations

import dataclasses
import math
import threading
from dataclasses import dataclass
from time import thread_time_ns

from sightline.errors import LinkClosed, SightlineError, StreamLost, StreamUnreadable
from sightline.graph import Message, MessageKind, Site, SourceElement, SourceReader
from sightline.media import Frame
from sightline.redaction import redact
from sightline.runtime.gather import Arrival
from sightline.runtime.link import Link
from sightline.runtime.pacing import Continuation, Pace, backoff_seconds
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
    """Owns one stream: builds a reader, sends its frames into the link, tries again when a live stream is lost."""

    def __init__(
        self,
        source: SourceElement,
        *,
        site: Site,
        link: Link[Arrival],
        statistics: StreamStatistics,
        limits: Limits,
    ) -> None:
        super().__init__(statistics.stream.name)
        self._source = source
        self._site = site
        self._link = link
        self.statistics = statistics
        self._limits = limits
        self._stopping = threading.Event()
        self._first_pts_ns: int | None = None
        self._pace = Pace() if source.realtime and not source.live else None
        self._continuation = Continuation()
        self._begun_ns = 0
        self.cpu_ns = 0

    def stop(self) -> None:
        """Ask the thread to end after the frame it is at."""
        self._stopping.set()

    def work(self) -> None:
        """Read the stream to its end."""
        statistics = self.statistics
        self._begun_ns = self._site.clock.monotonic_ns()
        try:
            self._attempts()
        except LinkClosed:
            pass
        except BaseException as error:  # noqa: BLE001  the boundary to foreign code: a reader's fault ends its stream only
            self._fail(error)
        finally:
            if statistics.state != "failed":
                statistics.state = "ended"
            statistics.ended_ns = self._site.clock.monotonic_ns()
            self._link.end()
            self.cpu_ns = thread_time_ns()

    def _attempts(self) -> None:
        attempt = 0
        while not self._stopping.is_set():
            received = self.statistics.received
            try:
                self._attempt()
                self._post(MessageKind.STREAM_ENDED, f"ended after {self.statistics.received} frames")
                return
            except StreamUnreadable as error:
                self._fail(error)
                return
            except StreamLost as error:
                if not self._source.live or (self._seconds_left() <= 0 and not self.statistics.received):
                    self._fail(error)
                    return
                if self._seconds_left() <= 0 or self._stopping.is_set():
                    return
                attempt = 0 if self.statistics.received > received else attempt + 1
                self._lost(error, attempt)

    def _attempt(self) -> None:
        self.statistics.state = "connecting"
        reader = self._source.build(self._site, stream=self.statistics.stream)
        try:
            self._read(reader)
        finally:
            self._close(reader)
            self._count(reader)

    def _read(self, reader: SourceReader) -> None:
        statistics, first = self.statistics, True
        frames = reader.frames()
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
            if self._is_past_duration(frame):
                return
            self._send(frame)

    def _send(self, frame: Frame) -> None:
        clock, statistics = self._site.clock, self.statistics
        if self._pace is not None:
            wait_ns = self._pace.wait_ns(frame.pts_ns, now_ns=clock.monotonic_ns())
            if wait_ns and self._stopping.wait(wait_ns / 1e9):
                return
        now_ns = clock.monotonic_ns()
        self._continuation.note(frame.pts_ns, now_ns=now_ns)
        statistics.received += 1
        statistics.position_ns = frame.pts_ns
        self._link.send(Arrival(frame, now_ns))

    def _begin(self, reader: SourceReader, frame: Frame) -> None:
        """The first frame of an attempt has come."""
        now_ns = self._site.clock.monotonic_ns()
        self._continuation.begin(index=self.statistics.received, pts_ns=frame.pts_ns, now_ns=now_ns)
        self._announce(reader)

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

    def _announce(self, reader: SourceReader) -> None:
        statistics = self.statistics
        statistics.frame_count = reader.frame_count
        statistics.state = "live"
        if statistics.started_ns is None:
            statistics.started_ns = self._site.clock.monotonic_ns()
            self._post(MessageKind.STREAM_STARTED, "started")
        else:
            statistics.reconnects += 1
            self._post(MessageKind.STREAM_BACK, "is back")

    def _close(self, reader: SourceReader) -> None:
        """Close a reader; trouble in that is told, but is no reason to give the stream up."""
        try:
            reader.close()
        except Exception as error:  # noqa: BLE001  the boundary to foreign code
            self._site.warn(f"closing the input failed: {_describe(error)}", stream=self.statistics.stream.name)

    def _count(self, reader: SourceReader) -> None:
        self.statistics.damaged_packets += reader.damaged_packets
        self.statistics.skipped_frames += reader.skipped_frames

    def _fail(self, error: BaseException) -> None:
        self.statistics.state = "failed"
        self.statistics.error = text = _describe(error)
        self._post(MessageKind.STREAM_FAILED, text)

    def _lost(self, error: SightlineError, attempt: int) -> None:
        if self.statistics.state != "lost":
            self.statistics.state = "lost"
        delay = backoff_seconds(attempt)
        if attempt <= 1:
            self._post(MessageKind.STREAM_LOST, f"{redact(error)}; trying again")
        self._stopping.wait(min(delay, max(self._seconds_left(), 0.0)))

    def _seconds_left(self) -> float:
        if self._limits.duration_ns is None:
            return math.inf
        return (self._begun_ns + self._limits.duration_ns - self._site.clock.monotonic_ns()) / 1e9

    def _post(self, kind: MessageKind, text: str) -> None:
        self._site.post(Message(kind, text, stream=self.statistics.stream.name))


def _describe(error: BaseException) -> str:
    return redact(error) if isinstance(error, SightlineError) else redact(f"{type(error).__name__}: {error}")
