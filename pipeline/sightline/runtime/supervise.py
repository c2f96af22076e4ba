"""Supervision of sources: attempts, backoff, pacing and accounting, the same for every kind of source."""

from __future__ import annotations

import dataclasses
import math
import random
import threading
from dataclasses import dataclass
from time import thread_time_ns

from sightline.errors import LinkClosed, SightlineError, StreamLost, StreamUnreadable
from sightline.graph import Message, MessageKind, Site, SourceElement, SourceReader
from sightline.media import Frame
from sightline.redaction import redact
from sightline.runtime.gather import Arrival
from sightline.runtime.link import Link
from sightline.runtime.statistics import StreamStatistics


@dataclass(frozen=True, slots=True)
class Limits:
    """When a stream is stopped although it goes on: after so many frames, or so much of its own time. A live stream
    that is lost when that much time has passed on the clock is not tried again.
    """

    frames: int | None = None
    duration_ns: int | None = None


_FIRST_DELAY_SECONDS = 0.1
_STEADY_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 30.0
_STEADY_ATTEMPTS = 20


def backoff_seconds(attempt: int) -> float:
    """How long to wait before an attempt: doubling to 0.5 s, held there for about ten seconds, then up to 30 s."""
    if attempt <= _STEADY_ATTEMPTS:
        return min(_FIRST_DELAY_SECONDS * 2.0**attempt, _STEADY_DELAY_SECONDS)
    grown = min(_STEADY_DELAY_SECONDS * 2.0 ** (attempt - _STEADY_ATTEMPTS), _LONGEST_DELAY_SECONDS)
    return grown * random.uniform(0.75, 1.0)


class SourceThread(threading.Thread):
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
        super().__init__(name=f"sightline-{statistics.stream.name}", daemon=True)
        self._source = source
        self._site = site
        self._link = link
        self._statistics = statistics
        self._limits = limits
        self._stopping = threading.Event()
        self._first_pts_ns: int | None = None
        self._first_sent_ns = 0
        self._begun_ns = 0
        self.cpu_ns = 0

    def stop(self) -> None:
        """Ask the thread to end after the frame it is at."""
        self._stopping.set()

    def run(self) -> None:
        """The thread's work."""
        statistics = self._statistics
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
            received = self._statistics.received
            try:
                self._attempt()
                self._post(MessageKind.STREAM_ENDED, f"ended after {self._statistics.received} frames")
                return
            except StreamUnreadable as error:
                self._fail(error)
                return
            except StreamLost as error:
                if not self._source.live or (self._seconds_left() <= 0 and not self._statistics.received):
                    self._fail(error)
                    return
                if self._seconds_left() <= 0:
                    return
                attempt = 0 if self._statistics.received > received else attempt + 1
                self._lost(error, attempt)

    def _attempt(self) -> None:
        self._statistics.state = "connecting"
        reader = self._source.build(self._site, stream=self._statistics.stream)
        try:
            self._read(reader)
        finally:
            reader.close()
            self._count(reader)

    def _read(self, reader: SourceReader) -> None:
        statistics = self._statistics
        offset = statistics.received
        frames = reader.frames()
        while not self._stopping.is_set():
            started = thread_time_ns()
            frame = next(frames, None)
            statistics.read_cpu_ns += thread_time_ns() - started
            if frame is None or self._is_past_limit(frame):
                return
            if statistics.state != "live":
                self._announce(reader)
            self._send(dataclasses.replace(frame, index=frame.index + offset) if offset else frame)

    def _send(self, frame: Frame) -> None:
        statistics = self._statistics
        if self._source.realtime and not self._source.live:
            self._pace(frame.pts_ns)
        statistics.received += 1
        statistics.position_ns = frame.pts_ns
        if frame.damaged:
            statistics.damaged_frames += 1
        self._link.send(Arrival(frame, self._site.clock.monotonic_ns()))

    def _pace(self, pts_ns: int) -> None:
        now = self._site.clock.monotonic_ns()
        if self._statistics.received == 0:
            self._first_sent_ns = now
        due = self._first_sent_ns + pts_ns - (self._first_pts_ns or 0)
        if due > now:
            self._stopping.wait((due - now) / 1e9)

    def _is_past_limit(self, frame: Frame) -> bool:
        if self._first_pts_ns is None:
            self._first_pts_ns = frame.pts_ns
        limits = self._limits
        if limits.frames is not None and self._statistics.received >= limits.frames:
            return True
        return limits.duration_ns is not None and frame.pts_ns - self._first_pts_ns >= limits.duration_ns

    def _announce(self, reader: SourceReader) -> None:
        statistics = self._statistics
        statistics.frame_count = reader.frame_count
        statistics.state = "live"
        if statistics.started_ns is None:
            statistics.started_ns = self._site.clock.monotonic_ns()
            self._post(MessageKind.STREAM_STARTED, "started")
        else:
            statistics.reconnects += 1
            self._post(MessageKind.STREAM_BACK, "is back")

    def _count(self, reader: SourceReader) -> None:
        self._statistics.damaged_packets += reader.damaged_packets
        self._statistics.skipped_frames += reader.skipped_frames

    def _fail(self, error: BaseException) -> None:
        self._statistics.state = "failed"
        text = redact(error) if isinstance(error, SightlineError) else redact(f"{type(error).__name__}: {error}")
        self._statistics.error = text
        self._post(MessageKind.STREAM_FAILED, text)

    def _lost(self, error: SightlineError, attempt: int) -> None:
        if self._statistics.state != "lost":
            self._statistics.state = "lost"
        delay = backoff_seconds(attempt)
        if attempt <= 1:
            self._post(MessageKind.STREAM_LOST, f"{redact(error)}; trying again")
        self._stopping.wait(min(delay, max(self._seconds_left(), 0.0)))

    def _seconds_left(self) -> float:
        if self._limits.duration_ns is None:
            return math.inf
        return (self._begun_ns + self._limits.duration_ns - self._site.clock.monotonic_ns()) / 1e9

    def _post(self, kind: MessageKind, text: str) -> None:
        self._site.post(Message(kind, text, stream=self._statistics.stream.name))
