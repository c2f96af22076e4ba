"""The roster: the streams of a run, those that come and go while it goes on among them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from sightline.errors import ConfigurationError, LinkClosed
from sightline.graph import SourceElement
from sightline.media import Batch, Stream
from sightline.runtime.alteration import Alteration, done
from sightline.runtime.lane import Berth, Lane
from sightline.runtime.lanes import Lanes
from sightline.runtime.link import DropReason, LinkPolicy
from sightline.runtime.parcel import Parcel
from sightline.runtime.statistics import StreamStatistics, count_objects
from sightline.runtime.supervise import Limits
from sightline.runtime.turn import Turn

_FRAMES_IN_A_STREAM_LINK = 4
_FRAMES_IN_A_LIVE_LINK = 2
_PATIENCE_WITH_SOURCES_SECONDS = 0.5
_MOST_REMEMBERED = 1000


@dataclass(slots=True, eq=False)
class _Entry:
    """A stream that is there. `leaving` when it is to go; then `successor` is the source that takes its place."""

    stream: Stream
    berth: Berth
    turn: Turn
    has_ended: bool = False
    leaving: Alteration | None = None
    successor: SourceElement | None = None


class Roster:
    """Keeps the source threads of a run and what is counted of each stream; from any thread.

    A name that comes back in the same run goes on where it was: frame numbers, time and counts continue, so that no
    record of the run has its like. The last thousand names that went are remembered for the report.
    """

    def __init__(self, lanes: Lanes, *, limits: Limits) -> None:
        self._lanes = lanes
        self._limits = limits
        self._lock = Lock()
        self._entries: dict[str, _Entry] = {}
        self._statistics: dict[str, StreamStatistics] = {}
        self._last_turns: dict[str, Turn] = {}
        self._is_open = True
        self._has_started = self._is_over = False
        self._cpu_ns_of_gone = 0

    def add(self, name: str, source: SourceElement) -> Alteration:
        """Let a stream come; where one of that name is just going, or was read to its end, when that has passed all
        steps. Raises ConfigurationError when one of that name runs, or the run is ending.
        """
        with self._lock:
            before = self._entries.get(name)
            self._check_free(name)
            if before is not None and not before.has_ended:
                before.successor = source
                before.leaving = before.leaving or Alteration()
                return before.leaving
            self._enter(name, source)
        return done()

    def check_free(self, name: str) -> None:
        """Raises ConfigurationError when a stream of that name runs."""
        with self._lock:
            self._check_free(name)

    def remove(self, name: str) -> Alteration:
        """Let a stream go: done when its last frame has passed all steps, and they have closed what was its own."""
        return self._leave(name, successor=None)

    def replace(self, name: str, source: SourceElement) -> Alteration:
        """Let a stream go and come again from another source."""
        return self._leave(name, successor=source)

    def start(self) -> None:
        """Start all threads; those of streams that come later start at once."""
        with self._lock:
            self._has_started = True
            for entry in self._entries.values():
                entry.turn.start()

    def stop(self) -> None:
        """End all streams; no more can come."""
        with self._lock:
            self._is_open = False
            for entry in self._entries.values():
                entry.turn.stop()
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
            moving = [one for one in self._entries.values() if one.berth.lane is lane and not one.has_ended]
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
            entry.turn.give_up(error, details=details)

    def part(self) -> tuple[str, ...]:
        """Wait a little for the threads; return the names of those whose input does not answer."""
        deadline = time.monotonic() + _PATIENCE_WITH_SOURCES_SECONDS
        turns = {name: turn for name, turn in self._last_turns.items() if turn.ident is not None}
        for turn in turns.values():
            turn.stop()
        left = {name: turn for name, turn in turns.items() if not turn.wait(max(0.0, deadline - time.monotonic()))}
        for turn in left.values():
            turn.statistics.leave()
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
    def present(self) -> tuple[StreamStatistics, ...]:
        """What was counted of the streams that are there."""
        with self._lock:
            return tuple(entry.turn.statistics for entry in self._entries.values())

    @property
    def all(self) -> tuple[StreamStatistics, ...]:
        """What was counted of all streams of the run."""
        with self._lock:
            return tuple(self._statistics.values())

    @property
    def cpu_ns(self) -> int:
        """What the threads that have ended took."""
        with self._lock:
            return self._cpu_ns_of_gone + sum(turn.all_cpu_ns for turn in self._last_turns.values())

    def count_done(self, parcel: Parcel, batch: Batch, *, now_ns: int) -> None:
        """Count frames that went all the way, and what was found on them."""
        statistics = [self._statistics[frame.stream.name] for frame in parcel.frames]
        count_objects(batch, statistics)
        for stream, frame, arrived_ns in zip(statistics, parcel.frames, parcel.arrivals_ns, strict=True):
            stream.finish(damaged=frame.damaged, latency_ns=now_ns - arrived_ns)

    def count_lost(self, parcel: Parcel, reason: DropReason) -> None:
        """Count frames that did not get there."""
        for frame in parcel.frames:
            self._statistics[frame.stream.name].drop(reason)

    def _check_free(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is not None and not (entry.leaving or entry.has_ended or entry.turn.has_read_all):
            raise ConfigurationError(f"the stream {name!r} is running: remove it first, or take another name")

    def _leave(self, name: str, *, successor: SourceElement | None) -> Alteration:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                known = ", ".join(self._entries) or "none"
                raise ConfigurationError(f"there is no stream {name!r}; streams: {known}")
            entry.successor = successor
            if entry.leaving is not None:
                return entry.leaving
            leaving = entry.leaving = Alteration()
            entry.turn.stop()
            entry.berth.link.end()
            is_gone = entry.has_ended or not self._has_started or self._is_over
            if is_gone:
                self._let_go(name, entry)
        if is_gone:
            leaving.finish()
        return leaving

    def _let_go(self, name: str, entry: _Entry) -> Alteration | None:
        del self._entries[name]
        if entry.successor is not None and self._is_open:
            with suppress(ConfigurationError):  # the run has ended meanwhile
                self._enter(name, entry.successor)
        self._forget()
        return entry.leaving

    def _enter(self, name: str, source: SourceElement) -> None:
        stream = Stream(name, live=source.live)
        statistics = self._statistics.get(name) or StreamStatistics(stream)
        berth = self._berth(stream, statistics)
        statistics.stream = stream
        before = self._last_turns.get(name)
        turn = Turn(
            source,
            berth=berth,
            statistics=statistics,
            limits=self._limits,
            before=before if before is not None and before.ident is not None else None,
        )
        self._statistics.pop(name, None)
        self._statistics[name], self._last_turns[name] = statistics, turn
        self._entries.pop(name, None)
        self._entries[name] = _Entry(stream, berth, turn)
        if self._has_started:
            turn.start()

    def _move(self, entry: _Entry) -> None:
        try:
            entry.berth = self._berth(entry.stream, entry.turn.statistics)
        except ConfigurationError:  # the run is ending
            entry.turn.move(None)
            return
        if entry.leaving is not None:
            entry.berth.link.end()
        entry.turn.move(entry.berth)

    def _berth(self, stream: Stream, statistics: StreamStatistics) -> Berth:
        try:
            if not self._is_open:
                raise LinkClosed
            return self._lanes.berth(
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
