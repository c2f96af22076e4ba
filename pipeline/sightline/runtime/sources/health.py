"""Judge a stream: backoff between attempts, pacing, stalls, changes of what it sends, and its state."""

from __future__ import annotations

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
    """How long nothing may come from a stream before it counts as stalled; for one thread.

    Never less than `stall_ns`, nor than three of the stream's own intervals (the middle one of the last nine, so that
    one hiccup does not count). As long as it is not known how fast the stream is, sessions in which no two frames came
    make it grow: a camera of one frame a minute gets its chance.
    """

    def __init__(self, stall_ns: int) -> None:
        self._stall_ns = stall_ns
        self._intervals_ns: deque[int] = deque(maxlen=_INTERVALS)
        self._last_ns: int | None = None
        self._silent_sessions = 0

    @property
    def limit_ns(self) -> int:
        """The limit now."""
        if self._intervals_ns:
            middle_ns = sorted(self._intervals_ns)[len(self._intervals_ns) // 2]
            return max(self._stall_ns, _TIMES * middle_ns)
        doublings = min(max(self._silent_sessions - 1, 0), _MOST_DOUBLINGS)
        return self._stall_ns << doublings

    def begin(self) -> None:
        """A session begins: the time since the last frame is no interval."""
        self._last_ns = None

    def frame(self, now_ns: int) -> None:
        """A frame has come."""
        if self._last_ns is not None:
            self._intervals_ns.append(now_ns - self._last_ns)
        self._last_ns = now_ns

    def silent(self) -> None:
        """A session stood in which not even two frames came."""
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
    """How long to wait before an attempt, counted from 0: doubling to 0.5 s, held there for about ten seconds, then
    doubling to 30 s, of which up to a quarter is taken off at random so that many cameras do not come at once.
    """
    if attempt <= _STEADY_ATTEMPTS:
        return min(_FIRST_DELAY_SECONDS * 2.0**attempt, _STEADY_DELAY_SECONDS)
    doublings = min(attempt - _STEADY_ATTEMPTS, _GROWING_ATTEMPTS)
    grown = min(_STEADY_DELAY_SECONDS * 2.0**doublings, _LONGEST_DELAY_SECONDS)
    return grown * (jitter or random).uniform(0.75, 1.0)


def delay_seconds(attempt: int, *, took_seconds: float, answers: bool) -> float:
    """How long to wait after an attempt without frames that took so long: the time of the attempt counts as waiting.

    A server that `answers`, but sends nothing, is never left alone for long: when its image comes back, we are there.
    """
    wanted = backoff_seconds(min(attempt, _SILENT_ATTEMPTS) if answers else attempt)
    return max(wanted - took_seconds, _FIRST_DELAY_SECONDS)


def refused_delay_seconds(*, took_seconds: float) -> float:
    """How long to wait after a refusal: less than two attempts a minute, so that no camera locks us out."""
    return _REFUSED_DELAY_SECONDS + random.uniform(0, _REFUSED_SPREAD_SECONDS) - min(took_seconds, 1.0)


class Pace:
    """Holds frames back until their time has come, counted from the first one (`realtime: true`)."""

    def __init__(self) -> None:
        self._origin_ns: int | None = None

    def wait_ns(self, pts_ns: int, *, now_ns: int) -> int:
        """How long a frame must wait; 0 when its time has come or is past."""
        if self._origin_ns is None:
            self._origin_ns = now_ns - pts_ns
        return max(0, self._origin_ns + pts_ns - now_ns)


@dataclass(slots=True)
class Continuation:
    """Makes one stream of several attempts: frames are numbered on, and time goes on by what the clock says passed."""

    index: int = 0
    shift_ns: int = 0
    last_pts_ns: int | None = None
    last_at_ns: int = 0

    def begin(self, *, index: int, pts_ns: int, now_ns: int) -> None:
        """An attempt whose first frame has this timestamp begins, when so many frames have come before."""
        self.index = index
        if self.last_pts_ns is not None:
            self.shift_ns = self.last_pts_ns + max(1, now_ns - self.last_at_ns) - pts_ns

    def note(self, pts_ns: int, *, now_ns: int) -> None:
        """A frame with this timestamp, already moved, is handed on now."""
        self.last_pts_ns, self.last_at_ns = pts_ns, now_ns


_CHANGES_INTERVALS = 16
_OTHER_RATE = 1.25
_SAME_RATE = 1.1


class Changes:
    """Tells when size, codec or frame rate of a stream change; for one thread.

    A rate is the middle of 16 intervals, and another one counts when the 16 after them agree.
    """

    def __init__(self) -> None:
        self._size_wh: tuple[int, int] | None = None
        self._codec: str | None = None
        self._rate = _Rate()

    def look(self, frame: Frame, *, codec: str | None) -> str | None:
        """What has changed with this frame, in words; None when nothing has."""
        told = [
            _change(None if self._size_wh is None else _size(self._size_wh), _size(frame.size_wh)),
            _change(self._codec, codec),
            self._rate.note(frame.pts_ns),
        ]
        self._size_wh, self._codec = frame.size_wh, codec
        return ", ".join(text for text in told if text) or None


class _Rate:
    """Measures the frame rate."""

    def __init__(self) -> None:
        self._intervals_ns: list[int] = []
        self._previous_ns: int | None = None
        self._interval_ns = 0
        self._candidate_ns = 0

    def note(self, pts_ns: int) -> str | None:
        """Take down a frame; the change of rate in words when there is one."""
        if self._previous_ns is not None:
            self._intervals_ns.append(pts_ns - self._previous_ns)
        self._previous_ns = pts_ns
        if len(self._intervals_ns) < _CHANGES_INTERVALS:
            return None
        middle_ns = sorted(self._intervals_ns)[_CHANGES_INTERVALS // 2]
        self._intervals_ns.clear()
        is_confirmed = _ratio(middle_ns, self._candidate_ns) <= _SAME_RATE
        self._candidate_ns = middle_ns
        before_ns = self._interval_ns
        if not is_confirmed or (before_ns and _ratio(middle_ns, before_ns) < _OTHER_RATE):
            return None
        self._interval_ns = middle_ns
        return f"{1e9 / before_ns:.3g} fps became {1e9 / middle_ns:.3g} fps" if before_ns else None


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
_WORTH_SAYING_SECONDS = 5


class StreamStateMachine:
    """Keeps the state in the statistics of one stream and posts a message whenever it changes.

    The same trouble again, attempt after attempt, is told once; another cause of it is told.
    """

    def __init__(self, statistics: StreamStats, *, site: Site) -> None:
        self._statistics = statistics
        self._site = site
        self._told: set[str] = set()

    def connecting(self) -> None:
        """The first attempt begins."""
        self._become(StreamState.CONNECTING)
        if self._statistics.stream.live:
            self._post(MessageKind.STREAM_CONNECTING, "connecting")

    def live(self) -> None:
        """The first frame of an attempt has come."""
        statistics, self._told = self._statistics, set()
        statistics.cause = statistics.next_attempt_ns = None
        self._become(StreamState.LIVE)
        if statistics.started_ns is None:
            statistics.started_ns = self._site.clock.monotonic_ns()
            self._post(MessageKind.STREAM_STARTED, "started")
        else:
            statistics.reconnects += 1
            self._post(MessageKind.STREAM_BACK, "is back")

    def trouble(self, error: SightlineError, *, delay_seconds: float) -> None:
        """An attempt has ended; the next one comes after the delay."""
        statistics, text = self._statistics, redact(error)
        state = _state_of(error)
        changed = state is not statistics.state
        statistics.stalls += changed and state is StreamState.STALLED
        statistics.cause = text
        statistics.next_attempt_ns = self._site.clock.monotonic_ns() + round(delay_seconds * 1e9)
        self._become(state)
        if changed or text not in self._told:
            self._told.add(text)
            when = f" in {delay_seconds:.0f} s" if delay_seconds >= _WORTH_SAYING_SECONDS else ""
            self._post(_KINDS[state], f"{text}; trying again{when}", changed=changed)

    def changed(self, text: str) -> None:
        """The images have become others."""
        self._site.post(Message(MessageKind.STREAM_CHANGED, f"changed: {text}", stream=self._statistics.stream.name))

    def failed(self, error: BaseException, *, details: str | None = None) -> None:
        """It is given up."""
        statistics = self._statistics
        if statistics.state is StreamState.FAILED:
            return
        statistics.error = statistics.cause = text = describe(error)
        self._become(StreamState.FAILED)
        self._post(MessageKind.STREAM_FAILED, text, details=details)

    def ended(self) -> None:
        """It is over; harmless when it was given up."""
        statistics = self._statistics
        if statistics.state in (StreamState.FAILED, StreamState.ENDED):
            return
        if statistics.cause is not None:
            statistics.error = statistics.cause
        statistics.next_attempt_ns = None
        self._become(StreamState.ENDED)
        self._post(MessageKind.STREAM_ENDED, f"ended after {statistics.received} frames")

    def _become(self, state: StreamState) -> None:
        statistics = self._statistics
        if state is not statistics.state or statistics.state_since_ns is None:
            statistics.state_since_ns = self._site.clock.monotonic_ns()
        statistics.state = state

    def _post(self, kind: MessageKind, text: str, *, details: str | None = None, changed: bool = True) -> None:
        statistics = self._statistics
        state = statistics.state if changed else None
        self._site.post(Message(kind, text, stream=statistics.stream.name, state=state, details=details))


def describe(error: BaseException) -> str:
    """An error in a sentence without credentials."""
    return redact(error) if isinstance(error, SightlineError) else redact(f"{type(error).__name__}: {error}")


def _state_of(error: SightlineError) -> StreamState:
    if isinstance(error, StreamRefused) and error.credentials:
        return StreamState.AUTH_FAILED
    return StreamState.STALLED if isinstance(error, StreamStalled) else StreamState.LOST
