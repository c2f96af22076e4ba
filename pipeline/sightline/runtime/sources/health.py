"""The health of a stream: backoff between attempts, pacing, stalls, changes of its format, and its state."""

from __future__ import annotations

import dataclasses
import random
from collections import deque
from dataclasses import dataclass

from sightline.errors import SightlineError, StreamRefused, StreamStalled
from sightline.graph import Message, MessageKind, Site, StreamState
from sightline.media import Frame
from sightline.redaction import redact
from sightline.runtime.stats.counters import StreamStats

_INTERVALS = 9
_TIMES = 3
_MOST_DOUBLINGS = 5


class StallDetector:
    """Sets how long a stream may be silent before it counts as stalled; for one thread.

    The limit is never less than `stall_ns`, nor than three of the stream's own intervals (the median of the last nine,
    so that one late frame does not count). While the frame rate is unknown, the limit doubles with every session in
    which fewer than two frames came: a camera of one frame a minute works as well.
    """

    def __init__(self, stall_ns: int) -> None:
        self._stall_ns = stall_ns
        self._intervals_ns: deque[int] = deque(maxlen=_INTERVALS)
        self._last_ns: int | None = None
        self._silent_sessions = 0

    @property
    def limit_ns(self) -> int:
        """The limit now, in ns."""
        if self._intervals_ns:
            median_ns = sorted(self._intervals_ns)[len(self._intervals_ns) // 2]
            return max(self._stall_ns, _TIMES * median_ns)
        doublings = min(max(self._silent_sessions - 1, 0), _MOST_DOUBLINGS)
        return self._stall_ns << doublings

    def begin(self) -> None:
        """Begin a session: the time since the last frame is no interval."""
        self._last_ns = None

    def frame(self, now_ns: int) -> None:
        """Note a frame."""
        if self._last_ns is not None:
            self._intervals_ns.append(now_ns - self._last_ns)
        self._last_ns = now_ns

    def silent(self) -> None:
        """Note a session that stalled with fewer than two frames."""
        self._silent_sessions += 1


_FIRST_DELAY_SECONDS = 0.1
_STEADY_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 30.0
_STEADY_ATTEMPTS = 20
_GROWING_ATTEMPTS = 6
_SILENT_ATTEMPTS = 3
_REFUSED_DELAY_SECONDS = 31.0
_REFUSED_SPREAD_SECONDS = 4.0


def backoff_seconds(attempt: int, *, jitter: random.Random | None = None) -> float:
    """Return how long to wait before an attempt, counted from 0: doubling to 0.5 s, held there for about ten seconds,
    then doubling to 30 s, less up to a quarter at random, so that many cameras do not reconnect at the same moment.
    """
    if attempt <= _STEADY_ATTEMPTS:
        return min(_FIRST_DELAY_SECONDS * 2.0**attempt, _STEADY_DELAY_SECONDS)
    doublings = min(attempt - _STEADY_ATTEMPTS, _GROWING_ATTEMPTS)
    grown = min(_STEADY_DELAY_SECONDS * 2.0**doublings, _LONGEST_DELAY_SECONDS)
    return grown * (jitter or random).uniform(0.75, 1.0)


def delay_seconds(attempt: int, *, took_seconds: float, answers: bool) -> float:
    """Return how long to wait after an attempt without frames that took so long: its time counts as waiting.

    The wait stays short for a server that `answers` but sends nothing, so that its image is back at once.
    """
    wanted = backoff_seconds(min(attempt, _SILENT_ATTEMPTS) if answers else attempt)
    return max(wanted - took_seconds, _FIRST_DELAY_SECONDS)


def refused_delay_seconds(*, took_seconds: float) -> float:
    """Return how long to wait after a refusal: fewer than two attempts a minute, so that no camera locks us out."""
    return _REFUSED_DELAY_SECONDS + random.uniform(0, _REFUSED_SPREAD_SECONDS) - min(took_seconds, 1.0)


_LONGEST_FIRST_INTERVAL_NS = 60_000_000_000
_LEAST_JUMP_NS = 10_000_000_000
_INTERVALS_OF_A_JUMP = 10


class Pace:
    """Delays frames until they are due, counted from the first one (`realtime: true`).

    A jump of the timestamps, much longer than any time between two frames so far, is not waited for: nobody waits 25
    hours for the next frame of a recording with a gap.
    """

    def __init__(self) -> None:
        self._origin_ns: int | None = None
        self._last_ns = 0
        self._longest_ns: int | None = None
        self.jumped_ns = 0
        """How long the last jump was that is not waited for; 0 when there was none."""

    def wait_ns(self, pts_ns: int, *, now_ns: int) -> int:
        """Return how long a frame must wait; 0 when it is due. May be asked again for the same frame."""
        if self._origin_ns is None:
            self._origin_ns, self._last_ns = now_ns - pts_ns, pts_ns
        if (interval_ns := pts_ns - self._last_ns) > 0:
            self._last_ns = pts_ns
            if interval_ns > self._most_ns:
                self.jumped_ns = interval_ns
                self._origin_ns -= interval_ns - (self._longest_ns or 0)
            else:
                self._longest_ns = max(interval_ns, self._longest_ns or 0)
        return max(0, self._origin_ns + pts_ns - now_ns)

    @property
    def _most_ns(self) -> int:
        if self._longest_ns is None:
            return _LONGEST_FIRST_INTERVAL_NS
        return max(_LEAST_JUMP_NS, _INTERVALS_OF_A_JUMP * self._longest_ns)

    def delay(self, duration_ns: int) -> None:
        """Let all frames from now on be due so much later."""
        if self._origin_ns is not None:
            self._origin_ns += duration_ns


@dataclass(slots=True)
class Continuation:
    """Joins several connections into one stream: frame numbers continue, and timestamps grow by the time that the
    clock says has passed.
    """

    index: int = 0
    shift_ns: int = 0
    last_pts_ns: int | None = None
    last_at_ns: int = 0

    def begin(self, *, index: int, pts_ns: int, now_ns: int) -> None:
        """Begin a connection whose first frame has this timestamp, after so many frames."""
        self.index = index
        if self.last_pts_ns is not None:
            self.shift_ns = self.last_pts_ns + max(1, now_ns - self.last_at_ns) - pts_ns

    def note(self, pts_ns: int, *, now_ns: int) -> None:
        """Note the timestamp, already shifted, of a frame that is handed on now."""
        self.last_pts_ns, self.last_at_ns = pts_ns, now_ns

    def shifted(self, frame: Frame) -> Frame:
        """Return a frame of the present connection with its number and timestamp in the whole stream."""
        if not self.index:
            return frame
        return dataclasses.replace(frame, index=frame.index + self.index, pts_ns=frame.pts_ns + self.shift_ns)


_CHANGES_INTERVALS = 16
_OTHER_RATE = 1.25
_SAME_RATE = 1.1


class FormatChanges:
    """Detects changes of a stream's size, codec or frame rate; for one thread.

    A rate is the median of 16 intervals; a change counts when the next 16 agree.
    """

    def __init__(self) -> None:
        self._size_wh: tuple[int, int] | None = None
        self._codec: str | None = None
        self._rate = _Rate()

    def update(self, frame: Frame, *, codec: str | None) -> str | None:
        """Return what has changed with this frame, in words; None when nothing has."""
        changes = [
            _change(None if self._size_wh is None else _size(self._size_wh), _size(frame.size_wh)),
            _change(self._codec, codec),
            self._rate.note(frame.pts_ns),
        ]
        self._size_wh, self._codec = frame.size_wh, codec
        return ", ".join(text for text in changes if text) or None


class _Rate:
    """Measures the frame rate."""

    def __init__(self) -> None:
        self._intervals_ns: list[int] = []
        self._previous_ns: int | None = None
        self._interval_ns = 0
        self._candidate_ns = 0

    def note(self, pts_ns: int) -> str | None:
        """Note a frame; return the change of rate in words when there is one."""
        if self._previous_ns is not None:
            self._intervals_ns.append(pts_ns - self._previous_ns)
        self._previous_ns = pts_ns
        if len(self._intervals_ns) < _CHANGES_INTERVALS:
            return None
        median_ns = sorted(self._intervals_ns)[_CHANGES_INTERVALS // 2]
        self._intervals_ns.clear()
        is_confirmed = _ratio(median_ns, self._candidate_ns) <= _SAME_RATE
        self._candidate_ns = median_ns
        before_ns = self._interval_ns
        if not is_confirmed or (before_ns and _ratio(median_ns, before_ns) < _OTHER_RATE):
            return None
        self._interval_ns = median_ns
        return f"{1e9 / before_ns:.3g} fps became {1e9 / median_ns:.3g} fps" if before_ns else None


def _ratio(one_ns: int, other_ns: int) -> float:
    return max(one_ns, other_ns, 1) / max(min(one_ns, other_ns), 1)


def _size(size_wh: tuple[int, int]) -> str:
    return f"{size_wh[0]}x{size_wh[1]}"


def _change(before: str | None, now: str | None) -> str | None:
    return None if before is None or now is None or before == now else f"{before} became {now}"


_KINDS = {
    StreamState.STALLED: MessageKind.STREAM_STALLED,
    StreamState.LOST: MessageKind.STREAM_LOST,
    StreamState.AUTH_FAILED: MessageKind.STREAM_AUTH_FAILED,
}
_REPORTED_DELAY_SECONDS = 5


class StreamStateMachine:
    """Keeps the state in the stats of one stream and posts a message whenever it changes.

    A cause that repeats with every attempt is reported once.
    """

    def __init__(self, stats: StreamStats, *, site: Site) -> None:
        self._stats = stats
        self._site = site
        self._reported: set[str] = set()
        self._was_paused = False

    def connecting(self) -> None:
        """Report that the first attempt begins."""
        self._become(StreamState.CONNECTING)
        if self._stats.stream.live:
            self._post(MessageKind.STREAM_CONNECTING, "connecting")

    def live(self) -> None:
        """Report the first frame of a connection."""
        stats, self._reported = self._stats, set()
        stats.cause = stats.next_attempt_ns = None
        self._become(StreamState.LIVE)
        if stats.started_ns is None:
            stats.started_ns = self._site.clock.monotonic_ns()
            self._post(MessageKind.STREAM_STARTED, "started")
        else:
            stats.reconnects += not self._was_paused
            self._post(MessageKind.STREAM_BACK, "is back")
        self._was_paused = False

    def lost(self, error: SightlineError, *, delay_seconds: float) -> None:
        """Report a lost connection or a failed attempt; the next one follows after the delay."""
        stats, text, self._was_paused = self._stats, redact(error), False
        state = _state_of(error)
        changed = state is not stats.state
        stats.stalls += changed and state is StreamState.STALLED
        stats.cause = text
        stats.next_attempt_ns = self._site.clock.monotonic_ns() + round(delay_seconds * 1e9)
        self._become(state)
        if changed or text not in self._reported:
            self._reported.add(text)
            when = f" in {delay_seconds:.0f} s" if delay_seconds >= _REPORTED_DELAY_SECONDS else ""
            self._post(_KINDS[state], f"{text}; trying again{when}", changed=changed)

    def paused(self) -> None:
        """Report that the stream is paused."""
        stats = self._stats
        if stats.state is StreamState.PAUSED:
            return
        stats.cause = stats.next_attempt_ns = None
        self._become(StreamState.PAUSED)
        self._post(MessageKind.STREAM_PAUSED, f"paused after {stats.received} frames")

    def resumed(self, *, is_open: bool) -> None:
        """Report that the stream is no longer paused; `is_open` says whether its input is."""
        self._was_paused = not is_open
        self._become(StreamState.LIVE if is_open else StreamState.CONNECTING)
        self._post(MessageKind.STREAM_RESUMED, "resumed")

    def changed(self, text: str) -> None:
        """Report that the format has changed."""
        self._site.post(Message(MessageKind.STREAM_CHANGED, f"changed: {text}", stream=self._stats.stream.name))

    def failed(self, error: BaseException, *, details: str | None = None) -> None:
        """Report that the stream has failed for good."""
        stats = self._stats
        if stats.state is StreamState.FAILED:
            return
        stats.error = stats.cause = text = describe(error)
        self._become(StreamState.FAILED)
        self._post(MessageKind.STREAM_FAILED, text, details=details)

    def ended(self) -> None:
        """Report that the stream has ended; does nothing when it has failed."""
        stats = self._stats
        if stats.state in (StreamState.FAILED, StreamState.ENDED):
            return
        if stats.cause is not None:
            stats.error = stats.cause
        stats.next_attempt_ns = None
        self._become(StreamState.ENDED)
        self._post(MessageKind.STREAM_ENDED, f"ended after {stats.received} frames")

    def _become(self, state: StreamState) -> None:
        stats = self._stats
        if state is not stats.state or stats.state_since_ns is None:
            stats.state_since_ns = self._site.clock.monotonic_ns()
        stats.state = state

    def _post(self, kind: MessageKind, text: str, *, details: str | None = None, changed: bool = True) -> None:
        stats = self._stats
        state = stats.state if changed else None
        self._site.post(Message(kind, text, stream=stats.stream.name, state=state, details=details))


def describe(error: BaseException) -> str:
    """Describe an error in a sentence without credentials."""
    return redact(error) if isinstance(error, SightlineError) else redact(f"{type(error).__name__}: {error}")


def _state_of(error: SightlineError) -> StreamState:
    if isinstance(error, StreamRefused) and error.credentials:
        return StreamState.AUTH_FAILED
    return StreamState.STALLED if isinstance(error, StreamStalled) else StreamState.LOST
