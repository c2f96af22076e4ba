"""Manage the streams of a run, including those that come and go while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from sightline.errors import ConfigurationError, LinkClosed
from sightline.graph import SourceElement
from sightline.media import Batch, Stream
from sightline.runtime.scheduling.lane import Lane, StreamSlot
from sightline.runtime.scheduling.lanes import Lanes
from sightline.runtime.scheduling.link import DropReason, LinkPolicy, WorkItem
from sightline.runtime.sources.supervisor import Limits, StreamSession
from sightline.runtime.stats.counters import StreamStats, count_objects


class PendingChange:
    """A change that was asked for: under way, done or failed.

    In a thread, `wait` for it; in an event loop, `await` it; or let it be, it needs nobody. Waiting raises what it
    failed with. Not to be waited for where a pipeline calls: in probes and in listeners of messages, which the change
    itself may have to wait for.
    """

    def __init__(self) -> None:
        self._future: Future[None] = Future()
        self._future.set_running_or_notify_cancel()  # from now on nobody can cancel it

    @property
    def done(self) -> bool:
        """Whether it is over, well or not."""
        return self._future.done()

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Wait for the end of it. Raises what it failed with, and TimeoutError when the time was not enough."""
        self._future.result(timeout_seconds)

    def __await__(self) -> Generator[object, None, None]:
        return asyncio.wrap_future(self._future).__await__()

    def finish(self) -> None:
        """It is done; for who carries it out."""
        self._future.set_result(None)

    def fail(self, error: BaseException) -> None:
        """It cannot be done; for who carries it out."""
        self._future.set_exception(error)


def done() -> PendingChange:
    """An alteration that there was nothing to wait for in."""
    change = PendingChange()
    change.finish()
    return change


_FRAMES_IN_A_STREAM_LINK = 4
_FRAMES_IN_A_LIVE_LINK = 2
_PATIENCE_WITH_SOURCES_SECONDS = 0.5
_MOST_REMEMBERED = 1000


@dataclass(slots=True, eq=False)
class _Entry:
    """A stream that is there. `leaving` when it is to go; then `successor` is the source that takes its place."""

    stream: Stream
    slot: StreamSlot
    session: StreamSession
    has_ended: bool = False
    leaving: PendingChange | None = None
    successor: SourceElement | None = None


class StreamManager:
    """Keeps the source threads of a run and what is counted of each stream; from any thread.

    A name that comes back in the same run goes on where it was: frame numbers, time and counts continue, so that no
    record of the run has its like. The last thousand names that went are remembered for the report.
    """

    def __init__(self, lanes: Lanes, *, limits: Limits) -> None:
        self._lanes = lanes
        self._limits = limits
        self._lock = Lock()
        self._entries: dict[str, _Entry] = {}
        self._statistics: dict[str, StreamStats] = {}
        self._last_turns: dict[str, StreamSession] = {}
        self._is_open = True
        self._has_started = self._is_over = False
        self._cpu_ns_of_gone = 0

    def add(self, name: str, source: SourceElement) -> PendingChange:
        """Let a stream come; where one of that name is just going, or was read to its end, when that has passed all
        steps. Raises ConfigurationError when one of that name runs, or the run is ending.
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

    def remove(self, name: str) -> PendingChange:
        """Let a stream go: done when its last frame has passed all steps, and they have closed what was its own."""
        return self._leave(name, successor=None)

    def replace(self, name: str, source: SourceElement) -> PendingChange:
        """Let a stream go and come again from another source."""
        return self._leave(name, successor=source)

    def start(self) -> None:
        """Start all threads; those of streams that come later start at once."""
        with self._lock:
            self._has_started = True
            for entry in self._entries.values():
                entry.session.start()

    def stop(self) -> None:
        """End all streams; no more can come."""
        with self._lock:
            self._is_open = False
            for entry in self._entries.values():
                entry.session.stop()
        self._lanes.seal()
        for link in self._lanes.source_links.values():
            link.end()

    def stream_ended(self, stream: Stream) -> None:
        """The end of a stream has passed all steps."""
        with self._lock:
            entry = self._entries.get(stream.name)
            if entry is None or entry.stream != stream:
                return
            entry.has_ended = True
            leaving = self._let_go(stream.name, entry) if entry.leaving is not None else None
        if leaving is not None:
            leaving.finish()

    def lane_gone(self, lane: Lane) -> None:
        """The lane is lost, and all of it has come to its end: its streams go on in others, or end."""
        with self._lock:
            moving = [one for one in self._entries.values() if one.slot.lane is lane and not one.has_ended]
            for entry in moving:
                self._move(entry)

    def run_ended(self) -> None:
        """All steps have ended: whatever was to go is gone."""
        with self._lock:
            self._is_open, self._is_over = False, True
            leaving = [entry.leaving for entry in self._entries.values() if entry.leaving is not None]
            for name in [name for name, entry in self._entries.items() if entry.leaving is not None]:
                del self._entries[name]
        for one in leaving:
            one.finish()

    def give_up(self, stream: Stream, error: BaseException, details: str) -> None:
        """End a stream as failed, because a step does nothing but fail on it."""
        with self._lock:
            entry = self._entries.get(stream.name)
        if entry is not None and entry.stream == stream:
            entry.session.give_up(error, details=details)

    def part(self) -> tuple[str, ...]:
        """Wait a little for the threads; return the names of those whose input does not answer."""
        deadline = time.monotonic() + _PATIENCE_WITH_SOURCES_SECONDS
        sessions = {name: session for name, session in self._last_turns.items() if session.ident is not None}
        for session in sessions.values():
            session.stop()
        left = {
            name: session
            for name, session in sessions.items()
            if not session.wait(max(0.0, deadline - time.monotonic()))
        }
        for session in left.values():
            session.statistics.leave()
        return tuple(left)

    @property
    def has_ended(self) -> bool:
        """Whether the ends of all streams that are there have passed all steps."""
        with self._lock:
            return all(entry.has_ended for entry in self._entries.values())

    @property
    def count(self) -> int:
        """How many streams are there."""
        return len(self._entries)

    @property
    def present(self) -> tuple[StreamStats, ...]:
        """What was counted of the streams that are there."""
        with self._lock:
            return tuple(entry.session.statistics for entry in self._entries.values())

    @property
    def all(self) -> tuple[StreamStats, ...]:
        """What was counted of all streams of the run."""
        with self._lock:
            return tuple(self._statistics.values())

    @property
    def cpu_ns(self) -> int:
        """What the threads that have ended took."""
        with self._lock:
            return self._cpu_ns_of_gone + sum(session.all_cpu_ns for session in self._last_turns.values())

    def count_done(self, work_item: WorkItem, batch: Batch, *, now_ns: int) -> None:
        """Count frames that went all the way, and what was found on them."""
        statistics = [self._statistics[frame.stream.name] for frame in work_item.frames]
        count_objects(batch, statistics)
        for stream, frame, arrived_ns in zip(statistics, work_item.frames, work_item.arrivals_ns, strict=True):
            stream.finish(damaged=frame.damaged, latency_ns=now_ns - arrived_ns)

    def count_lost(self, work_item: WorkItem, reason: DropReason) -> None:
        """Count frames that did not get there."""
        for frame in work_item.frames:
            self._statistics[frame.stream.name].drop(reason)

    def _check_free(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is not None and not (entry.leaving or entry.has_ended or entry.session.has_read_all):
            raise ConfigurationError(f"the stream {name!r} is running: remove it first, or take another name")

    def _leave(self, name: str, *, successor: SourceElement | None) -> PendingChange:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                known = ", ".join(self._entries) or "none"
                raise ConfigurationError(f"there is no stream {name!r}; streams: {known}")
            entry.successor = successor
            if entry.leaving is not None:
                return entry.leaving
            leaving = entry.leaving = PendingChange()
            entry.session.stop()
            entry.slot.link.end()
            is_gone = entry.has_ended or not self._has_started or self._is_over
            if is_gone:
                self._let_go(name, entry)
        if is_gone:
            leaving.finish()
        return leaving

    def _let_go(self, name: str, entry: _Entry) -> PendingChange | None:
        del self._entries[name]
        if entry.successor is not None and self._is_open:
            with suppress(ConfigurationError):  # the run has ended meanwhile
                self._enter(name, entry.successor)
        self._forget()
        return entry.leaving

    def _enter(self, name: str, source: SourceElement) -> None:
        stream = Stream(name, live=source.live)
        statistics = self._statistics.get(name) or StreamStats(stream)
        slot = self._berth(stream, statistics)
        statistics.stream = stream
        before = self._last_turns.get(name)
        session = StreamSession(
            source,
            slot=slot,
            statistics=statistics,
            limits=self._limits,
            before=before if before is not None and before.ident is not None else None,
        )
        self._statistics.pop(name, None)
        self._statistics[name], self._last_turns[name] = statistics, session
        self._entries.pop(name, None)
        self._entries[name] = _Entry(stream, slot, session)
        if self._has_started:
            session.start()

    def _move(self, entry: _Entry) -> None:
        try:
            entry.slot = self._berth(entry.stream, entry.session.statistics)
        except ConfigurationError:  # the run is ending
            entry.session.move(None)
            return
        if entry.leaving is not None:
            entry.slot.link.end()
        entry.session.move(entry.slot)

    def _berth(self, stream: Stream, statistics: StreamStats) -> StreamSlot:
        try:
            if not self._is_open:
                raise LinkClosed
            return self._lanes.slot(
                stream,
                capacity=_FRAMES_IN_A_LIVE_LINK if stream.live else _FRAMES_IN_A_STREAM_LINK,
                policy=LinkPolicy.LATEST if stream.live else LinkPolicy.BLOCK,
                on_drop=statistics.drop,
            )
        except LinkClosed as error:
            message = f"the stream {stream.name!r} cannot come any more: the pipeline is at its end"
            raise ConfigurationError(message) from error

    def _forget(self) -> None:
        """Forget those that went first, when they are too many."""
        gone = [name for name in self._statistics if name not in self._entries]
        for name in gone[: max(0, len(gone) - _MOST_REMEMBERED)]:
            if self._last_turns[name].is_settled:
                self._cpu_ns_of_gone += self._last_turns.pop(name).all_cpu_ns
                del self._statistics[name]
