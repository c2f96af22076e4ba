"""Measure frame rates, and report when live streams are more than the machine can process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from sightline.graph import Message, MessageKind
from sightline.media import Stream
from sightline.runtime.stats.counters import DropReason, ElementStats, StreamStats

_INTERVAL_NS = 1_000_000_000
_WINDOW_NS = 5_000_000_000
_OVERLOADED_SHARE = 0.05
_RECOVERED_SHARE = 0.01
_BUSY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Rates:
    """Frames a second of one stream over the last seconds; `overloaded` when it dropped frames for lack of time."""

    received: float = 0.0
    finished: float = 0.0
    dropped: float = 0.0
    overloaded: bool = False


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ns: int
    received: int
    finished: int
    dropped: int


@dataclass(slots=True, eq=False)
class _Window:
    """The counts of one stream over the last seconds."""

    samples: deque[_Sample] = field(default_factory=deque)
    overloaded: bool = False

    def add(self, sample: _Sample) -> None:
        samples = self.samples
        samples.append(sample)
        while len(samples) > 2 and samples[1].at_ns <= sample.at_ns - _WINDOW_NS:
            samples.popleft()

    def rates(self) -> Rates:
        first, last = self.samples[0], self.samples[-1]
        seconds = max(last.at_ns - first.at_ns, 1) / 1e9
        dropped, received = last.dropped - first.dropped, last.received - first.received
        if last.at_ns - first.at_ns >= _WINDOW_NS:
            share = dropped / max(received, 1)
            self.overloaded = share >= (_RECOVERED_SHARE if self.overloaded else _OVERLOADED_SHARE)
        return Rates(received / seconds, (last.finished - first.finished) / seconds, dropped / seconds, self.overloaded)


class OverloadMonitor:
    """Measures the rates of all streams over the last five seconds. Reports when live streams have dropped one frame
    in twenty as overloaded for that long, and when they keep up again (less than one in a hundred).

    Call `update` often, from any thread: it does nothing but a comparison except once a second.
    """

    def __init__(
        self,
        *,
        streams: Callable[[], Collection[StreamStats]],
        elements: Callable[[], Iterable[ElementStats]],
        post: Callable[[Message], None],
    ) -> None:
        self._streams = streams
        self._elements = elements
        self._post = post
        self._lock = Lock()
        self._due_ns: int | None = None
        self._windows: dict[Stream, _Window] = {}
        self._work_ns: deque[tuple[int, dict[str, int]]] = deque()
        self.rates: Mapping[Stream, Rates] = {}

    @property
    def overloaded(self) -> bool:
        """Whether any live stream is overloaded."""
        return any(rates.overloaded for rates in self.rates.values())

    def update(self, now_ns: int) -> None:
        """Measure if a second has passed since the last measurement."""
        if self._due_ns is not None and now_ns < self._due_ns:
            return
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._due_ns = now_ns + _INTERVAL_NS
            message = self._measure(now_ns)
        finally:
            self._lock.release()
        if message is not None:
            self._post(message)

    def _measure(self, now_ns: int) -> Message | None:
        before, streams = self.overloaded, tuple(self._streams())
        windows = {one.stream: self._windows.get(one.stream, _Window()) for one in streams}
        for one in streams:
            dropped = one.dropped[DropReason.OVERLOADED]
            windows[one.stream].add(_Sample(now_ns, one.received, one.finished, dropped))
        self._windows = windows
        self.rates = {stream: window.rates() for stream, window in windows.items()}
        busiest = self._busiest(now_ns)
        if self.overloaded == before:
            return None
        if before:
            return Message(MessageKind.KEEPS_UP, "no longer overloaded: live streams are processed as they come")
        return Message(MessageKind.OVERLOADED, self._describe(busiest))

    def _describe(self, busiest: str | None) -> str:
        over = [rates for rates in self.rates.values() if rates.overloaded]
        share = sum(rates.dropped for rates in over) / sum(rates.received for rates in over)
        streams = "1 live stream" if len(over) == 1 else f"{len(over)} live streams"
        slowest = f"; the busiest step is {busiest}" if busiest else ""
        return f"overloaded: {share:.0%} of the frames of {streams} are dropped{slowest}"

    def _busiest(self, now_ns: int) -> str | None:
        """The element that worked, or was waited for, longest in the last seconds; None when none did half of the
        time.
        """
        work = {one.element_id: one.busy_ns + one.result_wait_ns for one in self._elements()}
        self._work_ns.append((now_ns, work))
        while len(self._work_ns) > 2 and self._work_ns[1][0] <= now_ns - _WINDOW_NS:
            self._work_ns.popleft()
        since_ns, before = self._work_ns[0]
        spent = {name: total_ns - before.get(name, 0) for name, total_ns in work.items()}
        name = max(spent, key=lambda one: spent[one], default=None)
        return name if name is not None and spent[name] >= _BUSY_SHARE * (now_ns - since_ns) else None
