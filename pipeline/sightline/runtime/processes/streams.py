"""The streams of a run in several processes: what was counted of each, over all workers that have read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import NamedTuple

from sightline.errors import ConfigurationError
from sightline.graph import Clock, Message, MessageKind, SourceElement, StreamState
from sightline.media import Stream
from sightline.runtime.stats.counters import DropReason, StreamStats


class Done(NamedTuple):
    """Frames of a stream that have passed all steps of a worker, and how many it has received by then."""

    frames: int
    last_index: int
    last_pts_ns: int
    received: int


_OVER = (StreamState.ENDED, StreamState.FAILED)


class RunStreams:
    """Keeps the stats of streams, from any thread.

    A worker sends its counts twice a second, and tells each frame that has passed all steps (`done`). So when it is
    lost, what was processed is known exactly, and what it had received besides is lost.
    """

    def __init__(self, sources: Mapping[str, SourceElement], *, clock: Clock, post: Callable[[Message], None]) -> None:
        self._clock, self._post = clock, post
        self._lock = RLock()
        self._stats: dict[str, StreamStats] = {}
        self._present: dict[str, bool] = {}
        """The streams that are part of the run, and whether they are live."""
        self._finished: dict[str, int] = {}
        """Of each stream how many frames were processed."""
        self._newest: dict[str, tuple[Done, int]] = {}
        """Of each stream what was reported last of these, and when."""
        for name, source in sources.items():
            self.add(name, source)

    @property
    def count(self) -> int:
        """How many streams are present."""
        return len(self._present)

    @property
    def present(self) -> tuple[StreamStats, ...]:
        """The stats of the present streams."""
        with self._lock:
            return tuple(self._stats[name] for name in self._present)

    @property
    def all(self) -> tuple[StreamStats, ...]:
        """The stats of all streams of the run."""
        with self._lock:
            return tuple(self._stats.values())

    def add(self, name: str, source: SourceElement) -> None:
        """Add a stream; one that was there before goes on."""
        with self._lock:
            self._present[name] = source.live
            self._stats.setdefault(name, StreamStats(Stream(name, live=source.live)))

    def remove(self, name: str) -> None:
        """Note that a stream is no longer part of the run; its counts stay."""
        with self._lock:
            self._present.pop(name, None)

    def check_present(self, name: str) -> None:
        """Raises ConfigurationError when there is no stream of that name."""
        with self._lock:
            if name not in self._present:
                raise ConfigurationError(f"there is no stream {name!r}; streams: {', '.join(self._present) or 'none'}")

    def check_free(self, name: str) -> None:
        """Raises ConfigurationError when a stream of that name runs."""
        with self._lock:
            if name in self._present and self._stats[name].state not in _OVER:
                raise ConfigurationError(f"the stream {name!r} is running: remove it first, or take another name")

    def check_ended(self, name: str) -> None:
        """Raises ConfigurationError when frames of a stream of that name may still come."""
        with self._lock:
            if name in self._stats and not self.is_over(name):
                raise ConfigurationError(f"the stream {name!r} has not ended: remove it, and wait for that")

    def update(self, stats: Iterable[StreamStats]) -> None:
        """Take what a worker has counted."""
        with self._lock:
            for one in stats:
                self._stats[one.stream.name] = one

    def done(self, counts: Mapping[str, Done]) -> int:
        """Note frames that were processed; return how many."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            for name, one in counts.items():
                self._finished[name] = self._finished.get(name, 0) + one.frames
                self._newest[name] = (one, now_ns)
        return sum(one.frames for one in counts.values())

    def is_over(self, name: str) -> bool:
        """Whether a stream has ended or failed, and all of its frames are accounted for."""
        with self._lock:
            stats = self._stats[name]
            if stats.state is StreamState.FAILED:
                return True
            return stats.state is StreamState.ENDED and stats.received <= stats.finished + stats.dropped.total()

    def former(self, names: Iterable[str]) -> tuple[StreamStats, ...]:
        """The counts of streams that a worker before has begun."""
        with self._lock:
            return tuple(self._stats[name] for name in names if self._stats[name].received)

    def lost(self, names: Iterable[str], *, reason: str, delay_seconds: float | None, is_hopeless: bool) -> int:
        """Settle the counts of the streams of a worker that has failed; return how many frames are lost.

        A live stream is continued. Of a file, the frames that were under way are read again and nothing is lost, unless
        no worker follows (`delay_seconds` is None): then it ends. It fails when it is hopeless.
        """
        lost = 0
        for name in [one for one in names if not self.is_over(one)]:
            with self._lock:
                stats = self._stats[name]
                stats.processed += max(0, self._finished.get(name, 0) - stats.finished)
                newest, told_ns = self._newest.get(name, (Done(0, -1, stats.position_ns, 0), stats.received_ns))
                stats.position_ns, stats.received_ns = newest.last_pts_ns, told_ns
                live = self._present.get(name, stats.stream.live)
                fails = is_hopeless and not live
                is_read_again = not live and not fails and delay_seconds is not None
                behind = newest.last_index + 1
                stats.received = behind if is_read_again else max(stats.received, newest.received, behind)
                missing = stats.received - stats.finished - stats.dropped.total()
                if missing > 0:
                    stats.dropped[DropReason.WORKER_LOST] += missing
                    lost += missing
                self._become_lost(stats, reason, delay_seconds=delay_seconds, fails=fails)
        return lost

    def finish(self) -> None:
        """Settle the counts at the end of the run: a frame that has not ended in a counter counts as not received."""
        with self._lock:
            for stats in self._stats.values():
                if stats.state not in _OVER:
                    stats.state = StreamState.ENDED
                stats.close()

    def _become_lost(self, stats: StreamStats, reason: str, *, delay_seconds: float | None, fails: bool) -> None:
        now_ns = self._clock.monotonic_ns()
        kind, state = MessageKind.STREAM_LOST, StreamState.LOST
        text = f"{reason}; it goes on with the next worker"
        if fails:
            kind, state, text = MessageKind.STREAM_FAILED, StreamState.FAILED, f"{reason}, again and again"
            stats.error = text
        elif delay_seconds is None:
            kind, state, text = MessageKind.STREAM_ENDED, StreamState.ENDED, f"ended: {reason}"
            stats.error = reason
        stats.cause, stats.state, stats.state_since_ns = reason, state, now_ns
        if state in _OVER:
            stats.ended_ns, stats.next_attempt_ns = now_ns, None
        else:
            stats.next_attempt_ns = now_ns + round((delay_seconds or 0.0) * 1e9)
        self._post(Message(kind, text, stream=stats.stream.name, state=state))
