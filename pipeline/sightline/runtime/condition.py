"""The condition of a stream: its state, who hears of a change of it, and why it is in trouble."""

from __future__ import annotations

from sightline.errors import SightlineError, StreamRefused, StreamStalled
from sightline.graph import Message, MessageKind, Site, StreamState
from sightline.redaction import redact
from sightline.runtime.statistics import StreamStatistics

_KINDS = {
    StreamState.STALLED: MessageKind.STREAM_STALLED,
    StreamState.LOST: MessageKind.STREAM_LOST,
    StreamState.AUTH_FAILED: MessageKind.STREAM_AUTH_FAILED,
}
_WORTH_SAYING_SECONDS = 5


class Condition:
    """Keeps the state in the statistics of one stream and posts a message whenever it changes.

    The same trouble again, attempt after attempt, is told once; another cause of it is told.
    """

    def __init__(self, statistics: StreamStatistics, *, site: Site) -> None:
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
