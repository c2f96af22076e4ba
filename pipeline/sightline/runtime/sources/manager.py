"""Manage the streams of a run, including those that are added and removed while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, RLock

from sightline.errors import ConfigurationError, LinkClosed
from sightline.graph import Site, SourceElement, StreamState
from sightline.media import Batch, Stream
from sightline.runtime.call_scope import CallScope
from sightline.runtime.scheduling.lanes import Lane, Lanes, StreamSlot
from sightline.runtime.scheduling.link import LinkPolicy, WorkItem
from sightline.runtime.sources.supervisor import Limits, StreamSession
from sightline.runtime.stats.counters import DropReason, StreamStats, count_objects
from sightline.runtime.tracing import Tracer


class PendingChange:
    """A requested change of a running pipeline: under way, done or failed.

    In a thread, `wait` for it; in an event loop, `await` it; or ignore it, it happens anyway. Waiting raises the error
    with which it failed.

    `scope` is that of the pipeline that is changed: code which that pipeline calls cannot wait for the change.
    """

    scope: CallScope | None = None

    def __init__(self) -> None:
        self._future: Future[None] = Future()
        self._future.set_running_or_notify_cancel()  # from now on nobody can cancel it

    @property
    def done(self) -> bool:
        """Whether it is over, successfully or not."""
        return self._future.done()

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Wait until it is over. Raises the error with which it failed, and TimeoutError; ConfigurationError in code
        that the pipeline calls, such as a listener or probe: the change may itself have to wait for that.
        """
        if self.scope is not None and not self.done:
            self.scope.check("wait() for a change")
        self._future.result(timeout_seconds)

    def __await__(self) -> Generator[object, None, None]:
        return asyncio.wrap_future(self._future).__await__()

    def finish(self) -> None:
        """Mark it as done; for the code that carries it out."""
        self._future.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Mark it as failed; for the code that carries it out."""
        self._future.set_exception(error)


def done() -> PendingChange:
    """Return a change that is done already."""
    change = PendingChange()
    change.finish()
    return change


_FRAMES_IN_A_STREAM_LINK = 4
_FRAMES_IN_A_LIVE_LINK = 2
_FRAMES_IN_STREAM_LINKS = 16
"""Frames that wait in the links of all files together on the CPU, where that leaves each at least two: enough for a
batch, so that more would only take memory (`benchmarks/stream_memory.py`)."""
_SOURCE_CLOSE_TIMEOUT_SECONDS = 0.5
_MOST_REMOVED = 1000


@dataclass(slots=True, eq=False)
class _Entry:
    """A stream of the run. `leaving` is set once it is to be removed; `successor` is the source that replaces it.
    `pausing` is set while it is paused.

    Of the streams that take turns, one is read at a time. The links of those that wait have no room, so that no batch
    waits for their frames.
    """

    stream: Stream
    takes_turns: bool
    comes_in_real_time: bool
    slot: StreamSlot
    session: StreamSession
    has_ended: bool = False
    leaving: PendingChange | None = None
    successor: SourceElement | None = None
    pausing: PendingChange | None = None

    @property
    def has_begun(self) -> bool:
        """Whether its session has been started."""
        return self.session.ident is not None


class StreamManager:
    """Keeps the sessions and the stats of the streams of a run; from any thread.

    A name that is added again in the same run continues: frame numbers, timestamps and counts go on, so that every
    record of the run is unique. The last thousand names that were removed are kept for the report. So do the streams of
    a process that has failed: `former` are their counts.
    """

    def __init__(
        self, lanes: Lanes, *, limits: Limits, tracer: Tracer | None = None, former: Sequence[StreamStats] = ()
    ) -> None:
        self._lanes = lanes
        self._tracer = tracer
        self._limits = limits
        self._lock = Lock()
        self._pausing = RLock()
        """Held while a stream is paused or resumed, also when that is reported."""
        self._entries: dict[str, _Entry] = {}
        self._stats: dict[str, StreamStats] = {one.stream.name: one for one in former}
        self._last_sessions: dict[str, StreamSession] = {}
        self._is_open = True
        self._has_started = self._is_over = False
        self._former_cpu_ns = 0

    def add(self, name: str, source: SourceElement) -> PendingChange:
        """Add a stream. If one of that name is being removed or has been read to its end, add it when the last frame of
        that has passed all steps. Raises ConfigurationError when one of that name runs, or the run is ending.
        """
        with self._lock:
            before = self._entries.get(name)
            self._check_free(name)
            if before is not None and not before.has_ended:
                before.successor = source
                before.leaving = before.leaving or PendingChange()
                return before.leaving
            self._enter(name, source)
        return done()

    def check_free(self, name: str) -> None:
        """Raises ConfigurationError when a stream of that name runs."""
        with self._lock:
            self._check_free(name)

    def check_ended(self, name: str) -> None:
        """Raises ConfigurationError when frames of a stream of that name may still come."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and not entry.has_ended:
                raise ConfigurationError(f"the stream {name!r} has not ended: remove it, and wait for that")

    def remove(self, name: str) -> PendingChange:
        """Remove a stream: done when its last frame has passed all steps and they have closed its outputs."""
        return self._leave(name, successor=None)

    def replace(self, name: str, source: SourceElement) -> PendingChange:
        """Replace the source of a stream."""
        return self._leave(name, successor=source)

    def pause(self, name: str) -> PendingChange:
        """Pause a stream: done when its input rests, and its last frame has passed all steps. Raises ConfigurationError
        when there is none of that name, or it is ending.
        """
        with self._pausing:
            with self._lock:
                entry = self._entry(name)
                if entry.has_ended or entry.leaving or self._is_over or entry.session.has_read_all:
                    raise ConfigurationError(f"the stream {name!r} has come to its end: there is nothing to pause")
                if entry.pausing is not None:
                    return entry.pausing
                change = entry.pausing = PendingChange()
                entry.session.pause()
                has_begun = entry.has_begun
            if not has_begun:
                entry.session.report_pause()
                change.finish()
        return change

    def resume(self, name: str) -> None:
        """Resume a paused stream. Raises ConfigurationError when there is none of that name."""
        with self._pausing:
            with self._lock:
                entry = self._entry(name)
                has_begun = entry.has_begun
            if entry.pausing is None:
                return
            if not has_begun:
                entry.session.report_resume()
            with self._lock:
                _finish(entry)
                entry.pausing = None
                entry.session.resume()
                if not has_begun:
                    entry.session.stats.state = StreamState.WAITING
                    self._start_sessions()

    def start(self) -> None:
        """Start the sessions, of those that take turns only the first; from now on, `add` starts a session at once."""
        with self._lock:
            self._has_started = True
            self._start_sessions()

    def stop(self) -> None:
        """End all streams; none can be added any more."""
        with self._lock:
            self._is_open = False
            entries = list(self._entries.values())
            for entry in entries:
                entry.session.stop()
        self._lanes.seal()
        for entry in entries:
            entry.slot.link.end()

    def resize_links(self) -> None:
        """Resize the links of streams for the present number of these."""
        with self._lock:
            for entry in self._entries.values():
                if entry.has_begun or not entry.takes_turns:
                    entry.slot.link.resize(self._capacity(entry.stream, entry.slot.site))

    def stream_ended(self, stream: Stream) -> None:
        """Note that the end of a stream has passed all steps."""
        with self._lock:
            entry = self._entries.get(stream.name)
            if entry is None or entry.stream != stream:
                return
            entry.has_ended = True
            leaving = self._drop_entry(stream.name, entry) if entry.leaving is not None else None
            self._start_sessions()
        if leaving is not None:
            leaving.finish()

    def stream_paused(self, stream: Stream, *, number: int) -> None:
        """Note that the last frame before a pause of that number has passed all steps."""
        with self._lock:
            entry = self._entries.get(stream.name)
            if entry is not None and entry.stream == stream and entry.session.pauses == number:
                _finish(entry)

    def lane_lost(self, lane: Lane) -> None:
        """Move the streams of a lost lane, which has ended, to others; or end them."""
        with self._lock:
            moving = [one for one in self._entries.values() if one.slot.lane is lane and not one.has_ended]
            for entry in moving:
                self._move(entry)

    def run_ended(self) -> None:
        """Note that all steps have ended: every stream that was to be removed is removed."""
        with self._lock:
            self._is_open, self._is_over = False, True
            for entry in self._entries.values():
                _finish(entry)
            leaving = [entry.leaving for entry in self._entries.values() if entry.leaving is not None]
            for name in [name for name, entry in self._entries.items() if entry.leaving is not None]:
                del self._entries[name]
        for one in leaving:
            one.finish()

    def fail(self, stream: Stream, error: BaseException, details: str) -> None:
        """End a stream as failed, because an element fails on every frame of it."""
        with self._lock:
            entry = self._entries.get(stream.name)
        if entry is not None and entry.stream == stream:
            entry.session.fail(error, details=details)

    def close(self) -> tuple[str, ...]:
        """Wait a short time for the sessions; return the names of those whose input does not answer."""
        deadline = time.monotonic() + _SOURCE_CLOSE_TIMEOUT_SECONDS
        sessions = {name: session for name, session in self._last_sessions.items() if session.ident is not None}
        for session in sessions.values():
            session.stop()
        left = {
            name: session
            for name, session in sessions.items()
            if not session.wait(max(0.0, deadline - time.monotonic()))
        }
        for session in left.values():
            session.stats.close()
        return tuple(left)

    @property
    def has_ended(self) -> bool:
        """Whether the ends of all present streams have passed all steps."""
        with self._lock:
            return all(entry.has_ended for entry in self._entries.values())

    @property
    def count(self) -> int:
        """How many streams are present."""
        return len(self._entries)

    @property
    def count_read(self) -> int:
        """How many streams are present and not paused."""
        with self._lock:
            return sum(entry.pausing is None for entry in self._entries.values())

    @property
    def comes_in_real_time(self) -> bool:
        """Whether frames of a present stream come by the clock, so that none may wait for others."""
        with self._lock:
            return any(entry.comes_in_real_time for entry in self._entries.values())

    @property
    def present(self) -> tuple[StreamStats, ...]:
        """The stats of the present streams."""
        with self._lock:
            return tuple(entry.session.stats for entry in self._entries.values())

    def has_come(self, name: str) -> bool:
        """Whether a frame of the present source of a stream has come."""
        with self._lock:
            entry = self._entries.get(name)
            return entry is not None and entry.session.has_come

    @property
    def all(self) -> tuple[StreamStats, ...]:
        """The stats of all streams of the run."""
        with self._lock:
            return tuple(self._stats.values())

    @property
    def cpu_ns(self) -> int:
        """The CPU time of the sessions that have ended."""
        with self._lock:
            return self._former_cpu_ns + sum(session.all_cpu_ns for session in self._last_sessions.values())

    def count_done(self, item: WorkItem, batch: Batch, *, now_ns: int) -> None:
        """Count frames that were processed completely, and the objects on them."""
        stats = [self._stats[frame.stream.name] for frame in item.frames]
        count_objects(batch, stats)
        for stream, frame, arrived_ns in zip(stats, item.frames, item.arrivals_ns, strict=True):
            stream.finish(damaged=frame.damaged, latency_ns=now_ns - arrived_ns)

    def count_lost(self, item: WorkItem, reason: DropReason) -> None:
        """Count frames that were dropped."""
        for frame in item.frames:
            self._stats[frame.stream.name].drop(reason)

    def _check_free(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is not None and not (entry.leaving or entry.has_ended or entry.session.has_read_all):
            raise ConfigurationError(f"the stream {name!r} is running: remove it first, or take another name")

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            known = ", ".join(self._entries) or "none"
            raise ConfigurationError(f"there is no stream {name!r}; streams: {known}")
        return entry

    def _leave(self, name: str, *, successor: SourceElement | None) -> PendingChange:
        with self._lock:
            entry = self._entry(name)
            entry.successor = successor
            if entry.leaving is not None:
                return entry.leaving
            leaving = entry.leaving = PendingChange()
            entry.session.stop()
            entry.slot.link.end()
            is_gone = entry.has_ended or not self._has_started or self._is_over
            if is_gone:
                self._drop_entry(name, entry)
                self._start_sessions()
        if is_gone:
            leaving.finish()
        return leaving

    def _drop_entry(self, name: str, entry: _Entry) -> PendingChange | None:
        del self._entries[name]
        _finish(entry)
        if entry.successor is not None and self._is_open:
            with suppress(ConfigurationError):  # the run has ended meanwhile
                self._enter(name, entry.successor, pausing=entry.pausing)
        self._forget()
        return entry.leaving

    def _enter(self, name: str, source: SourceElement, *, pausing: PendingChange | None = None) -> None:
        stream = Stream(name, live=source.live)
        stats = self._stats.get(name) or StreamStats(stream)
        slot = self._open_slot(stream, stats, has_room=not source.takes_turns)
        stats.stream = stream
        if source.takes_turns:
            stats.state = StreamState.WAITING if pausing is None else StreamState.PAUSED
        before = self._last_sessions.get(name)
        session = StreamSession(
            source,
            slot=slot,
            stats=stats,
            limits=self._limits,
            before=before if before is not None and before.ident is not None else None,
            tracer=self._tracer,
        )
        if before is None and stats.received:
            session.take_up()
        self._stats.pop(name, None)
        self._stats[name], self._last_sessions[name] = stats, session
        self._entries.pop(name, None)
        entry = _Entry(stream, source.takes_turns, source.live or source.realtime, slot, session, pausing=pausing)
        self._entries[name] = entry
        if pausing is not None:
            session.pause()
        self._start_sessions()

    def _start_sessions(self) -> None:
        """Start the sessions that have not been started and whose turn it is; those that are paused lose their turn."""
        if not (self._has_started and self._is_open):
            return
        entries = self._entries.values()
        is_taken = any(one.takes_turns and one.has_begun and not one.has_ended for one in entries)
        for entry in entries:
            if entry.has_begun or (entry.takes_turns and (is_taken or entry.pausing is not None)):
                continue
            is_taken |= entry.takes_turns
            entry.slot.link.resize(self._capacity(entry.stream, entry.slot.site))
            entry.session.start()

    def _move(self, entry: _Entry) -> None:
        _finish(entry)  # what was under way is gone with the lane
        try:
            has_room = entry.has_begun or not entry.takes_turns
            entry.slot = self._open_slot(entry.stream, entry.session.stats, has_room=has_room)
        except ConfigurationError:  # the run is ending
            entry.session.move(None)
            return
        if entry.leaving is not None:
            entry.slot.link.end()
        entry.session.move(entry.slot)

    def _open_slot(self, stream: Stream, stats: StreamStats, *, has_room: bool) -> StreamSlot:
        try:
            if not self._is_open:
                raise LinkClosed
            return self._lanes.open_slot(
                stream,
                capacity=_FRAMES_IN_A_LIVE_LINK if has_room else 0,
                policy=LinkPolicy.LATEST if stream.live else LinkPolicy.BLOCK,
                on_drop=stats.drop,
            )
        except LinkClosed as error:
            message = f"the stream {stream.name!r} cannot come any more: the pipeline is at its end"
            raise ConfigurationError(message) from error

    def _capacity(self, stream: Stream, site: Site) -> int:
        """How many frames wait in the link of a stream."""
        if stream.live:
            return _FRAMES_IN_A_LIVE_LINK
        if site.gpu is not None:
            return _FRAMES_IN_A_STREAM_LINK
        read = sum(not one.has_ended and (one.has_begun or not one.takes_turns) for one in self._entries.values())
        share = _FRAMES_IN_STREAM_LINKS // max(read, 1)
        return min(max(share, _FRAMES_IN_A_LIVE_LINK), _FRAMES_IN_A_STREAM_LINK)

    def _forget(self) -> None:
        """Forget the streams that were removed first, when there are too many."""
        removed = [name for name in self._stats if name not in self._entries]
        for name in removed[: max(0, len(removed) - _MOST_REMOVED)]:
            if self._last_sessions[name].is_settled:
                self._former_cpu_ns += self._last_sessions.pop(name).all_cpu_ns
                del self._stats[name]


def _finish(entry: _Entry) -> None:
    """Mark the pause of a stream as done."""
    if entry.pausing is not None and not entry.pausing.done:
        entry.pausing.finish()
