"""Supervise sources: reconnect with backoff, detect stalls, pace and count, the same for every kind of source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import monotonic_ns, thread_time_ns

from sightline.errors import (
    ConfigurationError,
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
from sightline.runtime.scheduling.lanes import StreamSlot
from sightline.runtime.sources.health import (
    Continuation,
    FormatChanges,
    Pace,
    StallDetector,
    StreamStateMachine,
    delay_seconds,
    describe,
    refused_delay_seconds,
)
from sightline.runtime.sources.read_control import ReadControl, SlotHolder
from sightline.runtime.stats.counters import DropReason, StreamStats, counters
from sightline.runtime.threads import Worker
from sightline.runtime.tracing import FrameTrace, Tracer


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop a stream that goes on: after so many frames, or so much of its own time. A live stream that is lost
    when that much time has passed on the clock is not tried again.

    Raises ConfigurationError for what is not a whole number, or below 0.
    """

    frames: int | None = None
    duration_ns: int | None = None

    def __post_init__(self) -> None:
        for name in ("frames", "duration_ns"):
            value = getattr(self, name)
            if value is not None and not (hasattr(value, "__index__") and value >= 0):
                raise ConfigurationError(f"{name} is a whole number, 0 or more, not {value!r}")


class SourceSupervisor(Worker):
    """Owns one stream: builds a reader, sends its frames into the link, and reconnects when a live stream is lost.

    One connection is open at a time, and only this thread uses a reader (except for `SourceReader.stop`).
    """

    def __init__(
        self,
        source: SourceElement,
        *,
        slot: StreamSlot,
        stats: StreamStats,
        limits: Limits,
        tracer: Tracer | None = None,
    ) -> None:
        super().__init__(stats.stream.name)
        self._tracer = tracer
        self._source = source
        self._slot = SlotHolder(slot)
        self.stats = stats
        self._limits = limits
        self._state = StreamStateMachine(stats, site=slot.site)
        self._control = ReadControl()
        self._reader: SourceReader | None = None
        self._counters: ReaderCounters | None = None
        self._failure: tuple[BaseException, str | None] | None = None
        self._first_pts_ns: int | None = None
        self._pace = Pace() if source.realtime and not source.live else None
        self._has_jumped = False
        self._continuation = Continuation()
        self._stall_detector = None if source.stall_ns is None else StallDetector(source.stall_ns)
        self._format_changes = FormatChanges() if source.live else None
        self._begun_ns = self._frame_ns = 0
        self.has_come = False
        """Whether a frame has come."""
        self.has_read_all = False
        """Whether nothing more will come."""
        self.cpu_ns = 0

    def take_up(self) -> None:
        """Go on, from the start, where another process has ended, as the stats say: a file is read again, without the
        frames that were received; a camera's numbers and timestamps go on.
        """
        stats = self.stats
        self.has_come = True
        self._continuation.note(stats.position_ns, now_ns=stats.received_ns or self._site.clock.monotonic_ns())

    def stop(self) -> None:
        """Ask the thread to end after the present frame, or soon when none comes; from any thread."""
        self._control.stop()
        self._slot.stop()
        reader = self._reader
        if reader is not None:
            reader.stop()

    def pause(self) -> None:
        """Read nothing until `resume`: a camera is disconnected, a file stops where it is. From any thread."""
        self._control.pause()
        reader = self._reader
        if reader is not None and self._source.live:
            reader.stop()

    def resume(self) -> None:
        """Read on: a camera is connected again, a file goes on where it is. From any thread."""
        self._control.resume()

    def report_pause(self) -> None:
        """Report that the stream is paused, instead of a thread that has not been started."""
        self._state.paused()

    def report_resume(self) -> None:
        """Report that the stream is no longer paused, instead of a thread that has not been started."""
        self._state.resumed(is_open=False)

    @property
    def is_paused(self) -> bool:
        """Whether it is to read nothing for now."""
        return self._control.is_paused

    @property
    def pauses(self) -> int:
        """How often it was paused."""
        return self._control.pauses

    def move(self, slot: StreamSlot | None) -> None:
        """Continue in another slot, because the lane of the present one is lost; None: end. From any thread."""
        reader = self._reader
        if reader is not None:
            reader.stop()
        self._slot.replace(slot)

    def fail(self, error: BaseException, *, details: str | None = None) -> None:
        """End the stream as failed, for a reason behind it in the pipeline; from any thread."""
        self._failure = (error, details)
        self.stop()
        if not self.running:
            self._state.failed(error, details=details)

    def work(self) -> None:
        """Read the stream to its end."""
        self._begun_ns = self._frame_ns = self._site.clock.monotonic_ns()
        try:
            if not self.is_paused:
                self._state.connecting()
            self._read_and_reconnect()
        except LinkClosed:
            pass
        except BaseException as error:  # noqa: BLE001  the boundary to foreign code: a reader's fault ends its stream only
            self._state.failed(error)
        finally:
            self.has_read_all = True
            if self._failure is not None:
                self._state.failed(self._failure[0], details=self._failure[1])
            self._state.ended()
            self.stats.ended_ns = self._site.clock.monotonic_ns()
            self._slot.end_links()
            self.cpu_ns = thread_time_ns()

    @property
    def _site(self) -> Site:
        return self._slot.current.site

    def _read_and_reconnect(self) -> None:
        """Read the stream, and reconnect after a backoff, until it ends, fails for good, or the run stops."""
        attempt = 0
        while not self._control.is_stopped:
            if self.is_paused:
                attempt = 0
                self._wait_while_paused()
                if self._seconds_left() <= 0:
                    return
                continue
            received, begun_ns = self.stats.received, self._site.clock.monotonic_ns()
            loss = self._read_until_lost()
            if self._is_let_go():
                continue
            if loss is None:
                return
            if self._slot.current.is_lost:
                self._state.lost(loss, delay_seconds=0)
                if not self._slot.wait_for_another():
                    return
                attempt = 0
                continue
            if self._is_final():
                self._state.failed(loss)
                return
            if self._seconds_left() <= 0 or self._control.is_stopped:
                return
            frames = self.stats.received - received
            attempt = 0 if frames else attempt + 1
            if self._stall_detector is not None and isinstance(loss, StreamStalled) and frames <= 1:
                # One frame does not show the frame rate, and may have come only because of the limit.
                self._stall_detector.silent()
            self._wait_before_reconnecting(loss, attempt=attempt, begun_ns=begun_ns)

    def _read_until_lost(self) -> StreamError | None:
        """Read one connection: return None when the stream ends, or the error with which it was lost."""
        slot = self._slot.current
        try:
            self._read_connection()
        except (StreamUnreadable, StreamLost) as error:
            return error
        except LinkClosed:
            if not slot.is_lost:
                raise
        except CudaFailed as error:
            if not slot.fail_over(error):
                raise
        return StreamLost(f"{slot.lane} is lost") if slot.is_lost else None

    def _read_connection(self) -> None:
        reader = self._reader = self._source.build(self._site, stream=self.stats.stream)
        self._counters = ReaderCounters(reader, self.stats, again=None if self._source.live else self._counters)
        if self._stall_detector is not None:
            self._stall_detector.begin()
            reader.silence_limit_ns = self._stall_detector.limit_ns
        try:
            self._read_frames(reader, self._counters)
        finally:
            self._reader = None
            self._close(reader)
            self._counters.update()

    def _read_frames(self, reader: SourceReader, reader_counters: ReaderCounters) -> None:
        stats, first = self.stats, True
        frames, received = reader.frames(), self.stats.received
        while not (self._control.is_stopped or self._is_let_go() or self._has_enough_frames()):
            began_ns = 0 if self._tracer is None else monotonic_ns()
            started = thread_time_ns()
            frame = next(frames, None)
            cpu_ns = thread_time_ns() - started
            stats.read_cpu_ns += cpu_ns
            if frame is None or self._control.is_stopped or self._is_let_go():
                return
            if first:
                first = False
                self._begin_connection(reader, frame)
            frame = self._continuation.shifted(frame)
            is_past = self._is_past_duration(frame)
            if frame.index < received:  # a file that is read again
                continue
            if is_past:
                return
            self._update_format(frame, reader)
            reader_counters.update()
            trace = None if self._tracer is None else self._tracer.sample(frame, began_ns=began_ns, cpu_ns=cpu_ns)
            self._send(frame, trace)

    def _is_let_go(self) -> bool:
        """Whether the connection is to be closed because the stream is paused; a file stays open."""
        return self._control.is_paused and self._source.live

    def _update_format(self, frame: Frame, reader: SourceReader) -> None:
        """Update what is known of the stream from a frame: size, decoder, frame rate."""
        stats = self.stats
        stats.size_wh, stats.time_source = frame.size_wh, frame.time_source
        if reader.decoder_reason not in (None, stats.decoder_reason):
            by = "the CPU" if reader.decoder == "cpu" else "NVDEC"
            self._site.warn(f"it is decoded by {by}: {reader.decoder_reason}", stream=stats.stream.name)
        if self._stall_detector is not None:
            self._stall_detector.frame(self._site.clock.monotonic_ns())
            reader.silence_limit_ns = self._stall_detector.limit_ns
        if self._format_changes is not None and (change := self._format_changes.update(frame, codec=reader.codec)):
            self._state.changed(change)

    def _send(self, frame: Frame, trace: FrameTrace | None) -> None:
        clock, stats = self._site.clock, self.stats
        if not self._wait_until_due(frame):
            return
        now_ns = self._frame_ns = clock.monotonic_ns()
        self._continuation.note(frame.pts_ns, now_ns=now_ns)
        stats.receive()
        stats.received_ns, stats.position_ns = now_ns, frame.pts_ns
        if frame.damaged and self._source.skips_damaged:
            stats.drop(DropReason.DAMAGED)
            if trace is not None:
                trace.lose(DropReason.DAMAGED)
            return
        if trace is not None:
            trace.arrive()
        self._slot.current.link.send(Arrival(frame, now_ns, trace))

    def _wait_until_due(self, frame: Frame) -> bool:
        """Wait while a file is paused, and until a paced frame is due. Return False when the stream is stopped. Raises
        LinkClosed when its lane was lost during a pause.
        """
        while not self._control.is_stopped:
            if self.is_paused and not self._source.live:
                self._wait_while_paused()
                if self._slot.current.is_lost:
                    raise LinkClosed
                continue
            wait_ns = 0 if self._pace is None else self._pace.wait_ns(frame.pts_ns, now_ns=self._now_ns())
            self._warn_of_jump(frame)
            if not wait_ns:
                return True
            self._control.sleep(wait_ns / 1e9)
        return False

    def _warn_of_jump(self, frame: Frame) -> None:
        """Report the first jump of the timestamps that is not waited for."""
        if self._pace is not None and self._pace.jumped_ns and not self._has_jumped:
            self._has_jumped = True
            text = f"the timestamps jump by {self._pace.jumped_ns / 1e9:.0f} s before frame {frame.index}"
            text += ": `realtime` does not wait for that, nor for other jumps"
            self._site.warn(text, stream=self.stats.stream.name)

    def _wait_while_paused(self) -> None:
        """Report that the stream is paused, once its connection is closed, and wait until it is resumed or stopped."""
        number, since_ns, slot = self._control.pauses, self._now_ns(), self._slot.current
        self._state.paused()
        slot.pause(self.stats.stream, number=number)
        seconds = self._seconds_left() if self._source.live else math.inf
        self._control.wait_while_paused(number, at_most_seconds=None if math.isinf(seconds) else max(seconds, 0.0))
        slot.resume(self.stats.stream)
        self._frame_ns = self._now_ns()
        if self._pace is not None:
            self._pace.delay(self._frame_ns - since_ns)
        if not self.is_paused and not self._control.is_stopped:
            self._state.resumed(is_open=self._reader is not None)

    def _now_ns(self) -> int:
        return self._site.clock.monotonic_ns()

    def _begin_connection(self, reader: SourceReader, frame: Frame) -> None:
        """Take in the first frame of a connection."""
        now_ns = self._site.clock.monotonic_ns()
        if self._source.live or not self.has_come:
            self._continuation.begin(index=self.stats.received, pts_ns=frame.pts_ns, now_ns=now_ns)
            self.has_come = True
        self.stats.frame_count = reader.frame_count
        self._state.live()

    def _has_enough_frames(self) -> bool:
        return self._limits.frames is not None and self.stats.received >= self._limits.frames

    def _is_past_duration(self, frame: Frame) -> bool:
        if self._first_pts_ns is None:
            self._first_pts_ns = frame.pts_ns
        duration_ns = self._limits.duration_ns
        return duration_ns is not None and frame.pts_ns - self._first_pts_ns >= duration_ns

    def _close(self, reader: SourceReader) -> None:
        """Close a reader; an error in that is reported, and does not end the stream."""
        try:
            reader.close()
        except Exception as error:  # noqa: BLE001  the boundary to foreign code
            self._site.warn(f"closing the input failed: {describe(error)}", stream=self.stats.stream.name)

    def _is_final(self) -> bool:
        """Whether a loss now ends the stream without another attempt."""
        longest_ns = self._source.gives_up_ns
        is_over = self._seconds_left() <= 0 and not self.stats.received
        waited_ns = self._site.clock.monotonic_ns() - self._frame_ns
        return not self._source.live or is_over or (longest_ns is not None and waited_ns >= longest_ns)

    def _wait_before_reconnecting(self, loss: StreamError, *, attempt: int, begun_ns: int) -> None:
        took_seconds = (self._site.clock.monotonic_ns() - begun_ns) / 1e9
        delay = delay_seconds(attempt, took_seconds=took_seconds, answers=isinstance(loss, StreamStalled))
        # A camera may lack for a moment, while it starts, what it has shown before; a password does not come back.
        is_refusal = isinstance(loss, StreamUnreadable) and not self.stats.received
        if is_refusal or (isinstance(loss, StreamRefused) and loss.credentials):
            delay = refused_delay_seconds(took_seconds=took_seconds)
        self._state.lost(loss, delay_seconds=delay)
        self._control.sleep(min(delay, max(self._seconds_left(), 0.0)))

    def _seconds_left(self) -> float:
        if self._limits.duration_ns is None:
            return math.inf
        return (self._begun_ns + self._limits.duration_ns - self._site.clock.monotonic_ns()) / 1e9


class ReaderCounters:
    """Adds the counters of one connection's reader to the stats of its stream, whenever it is updated.

    A reader that begins again at the front (`again`: the counters of the one before) counts nothing twice.
    """

    _NAMES = tuple(info.field for info in counters(StreamStats) if info.from_reader)

    def __init__(self, reader: SourceReader, stats: StreamStats, *, again: ReaderCounters | None = None) -> None:
        self._reader = reader
        self._stats = stats
        self.before: dict[str, int] = (
            {name: getattr(stats, name) for name in self._NAMES} if again is None else again.before
        )
        """What had been counted before this connection."""

    def update(self) -> None:
        """Bring the stats up to date."""
        reader, stats = self._reader, self._stats
        for name in self._NAMES:
            counted = self.before[name] + getattr(reader, name)
            setattr(stats, name, max(getattr(stats, name), counted))
        stats.codec = reader.codec
        if reader.decoder is not None:
            stats.decoder, stats.decoder_reason = reader.decoder, reader.decoder_reason


_POLL_SECONDS = 0.1


class StreamSession(SourceSupervisor):
    """One period in which a stream is part of the run. `before` is the session of the same name that precedes it: it
    ends first, even when its input answers late, and is then continued.
    """

    def __init__(
        self,
        source: SourceElement,
        *,
        slot: StreamSlot,
        stats: StreamStats,
        limits: Limits,
        before: StreamSession | None,
        tracer: Tracer | None = None,
    ) -> None:
        super().__init__(source, slot=slot, stats=stats, limits=limits, tracer=tracer)
        self._before = before
        self._cpu_ns_before = 0

    @property
    def is_settled(self) -> bool:
        """Whether it, and all sessions before it, have ended."""
        return self.ident is not None and not self.running and (self._before is None or self._before.is_settled)

    @property
    def all_cpu_ns(self) -> int:
        """The CPU time of it and of all sessions before it."""
        return self._cpu_ns_before + self.cpu_ns

    def work(self) -> None:
        """Read the stream to its end, once the session before has ended."""
        before = self._before
        while before is not None and not before.is_settled:
            if self._control.wait_for_stop(_POLL_SECONDS):
                self._slot.end_links()
                return
        self._continue_former_session()
        super().work()

    def _continue_former_session(self) -> None:
        before, self._before = self._before, None
        while before is not None and before._before is not None:  # noqa: SLF001  those between never came to read
            before = before._before  # noqa: SLF001
        if before is not None:
            self._continuation, self._cpu_ns_before = before._continuation, before.all_cpu_ns  # noqa: SLF001
            self.stats.ended_ns = self.stats.error = self.stats.cause = None
