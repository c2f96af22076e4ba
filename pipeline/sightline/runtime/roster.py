"""The roster: the streams of a run, those that come and go while it goes on among them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from sightline.errors import ConfigurationError, LinkClosed
from sightline.graph import Site, SourceElement
from sightline.media import Stream
from sightline.runtime.alteration import Alteration, done
from sightline.runtime.gather import Arrival, Gather
from sightline.runtime.link import Link, LinkPolicy
from sightline.runtime.statistics import StreamStatistics
from sightline.runtime.supervise import Limits, SourceThread

_FRAMES_IN_A_STREAM_LINK = 4
_FRAMES_IN_A_LIVE_LINK = 2
_PATIENCE_WITH_SOURCES_SECONDS = 0.5
_MOST_REMEMBERED = 1000
_GLANCE_SECONDS = 0.1


class _Turn(SourceThread):
    """One stay of a stream. What came under the same name before it (`before`) comes to its end first, even when its
    input answers late, and is then continued.
    """

    def __init__(
        self,
        source: SourceElement,
        *,
        site: Site,
        link: Link[Arrival],
        statistics: StreamStatistics,
        limits: Limits,
        before: _Turn | None,
    ) -> None:
        super().__init__(source, site=site, link=link, statistics=statistics, limits=limits)
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
                self._link.end()
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


@dataclass(slots=True, eq=False)
class _Entry:
    """A stream that is there. `leaving` when it is to go; then `successor` is the source that takes its place."""

    stream: Stream
    link: Link[Arrival]
    turn: _Turn
    has_ended: bool = False
    leaving: Alteration | None = None
    successor: SourceElement | None = None


class Roster:
    """Keeps the source threads of a run and what is counted of each stream; from any thread.

    A name that comes back in the same run goes on where it was: frame numbers, time and counts continue, so that no
    record of the run has its like. The last thousand names that went are remembered for the report.
    """

    def __init__(self, gather: Gather, *, site: Callable[[str], Site], limits: Limits) -> None:
        self._gather = gather
        self._site = site
        self._limits = limits
        self._lock = Lock()
        self._entries: dict[str, _Entry] = {}
        self._statistics: dict[str, StreamStatistics] = {}
        self._last_turns: dict[str, _Turn] = {}
        self._is_open = True
        self._has_started = self._is_over = False
        self._cpu_ns_of_gone = 0

    def add(self, name: str, source: SourceElement) -> Alteration:
        """Let a stream come; where one of that name is just going, when it has gone. Raises ConfigurationError when one
        of that name runs, or the run is ending.
        """
        with self._lock:
            before = self._entries.get(name)
            self._check_free(name)
            if before is not None and before.leaving is not None:
                before.successor = source
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
        self._gather.seal()
        for link in self._gather.links().values():
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
        return tuple(name for name, turn in turns.items() if not turn.wait(max(0.0, deadline - time.monotonic())))

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

    def statistics(self, stream: Stream) -> StreamStatistics:
        """What is counted of a stream."""
        return self._statistics[stream.name]

    def _check_free(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is not None and entry.leaving is None and not entry.has_ended:
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
            entry.link.end()
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
        link = self._link(stream, statistics)
        statistics.stream = stream
        before = self._last_turns.get(name)
        turn = _Turn(
            source,
            site=self._site(name),
            link=link,
            statistics=statistics,
            limits=self._limits,
            before=before if before is not None and before.ident is not None else None,
        )
        self._statistics.pop(name, None)
        self._statistics[name], self._last_turns[name] = statistics, turn
        self._entries.pop(name, None)
        self._entries[name] = _Entry(stream, link, turn)
        if self._has_started:
            turn.start()

    def _link(self, stream: Stream, statistics: StreamStatistics) -> Link[Arrival]:
        try:
            if not self._is_open:
                raise LinkClosed
            return self._gather.add(
                stream,
                capacity=_FRAMES_IN_A_LIVE_LINK if stream.live else _FRAMES_IN_A_STREAM_LINK,
                policy=LinkPolicy.LATEST if stream.live else LinkPolicy.BLOCK,
                on_drop=lambda _, reason: statistics.drop(reason),
            )
        except LinkClosed as error:
            message = f"the stream {stream.name!r} can not come any more: the pipeline is at its end"
            raise ConfigurationError(message) from error

    def _forget(self) -> None:
        """Forget those that went first, when they are too many."""
        gone = [name for name in self._statistics if name not in self._entries]
        for name in gone[: max(0, len(gone) - _MOST_REMEMBERED)]:
            if self._last_turns[name].is_settled:
                self._cpu_ns_of_gone += self._last_turns.pop(name).all_cpu_ns
                del self._statistics[name]
