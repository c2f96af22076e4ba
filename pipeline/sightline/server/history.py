"""The history: how streams, objects and rules did in the last hours and days, and what was reported.

A thread of its own takes samples of what the run counts, and records from the feed; the pipeline does nothing for it
but count. Off unless a run is served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import groupby, pairwise
from threading import Event, Lock

from sightline.graph import Clock
from sightline.graph.site import SystemClock
from sightline.runtime.stats.counters import StreamStats
from sightline.runtime.stats.snapshot import RunView
from sightline.runtime.threads import Worker
from sightline.server.feed import EventFeed
from sightline.server.heat import HeatMap, HeatMaps, Kind
from sightline.server.history_rules import DwellHistogram, ReportedEvents, added_dwell, flat_occupancy
from sightline.server.history_search import RecordQuery, words_of
from sightline.server.history_series import (
    PROCESS,
    SERIES,
    Column,
    Combine,
    Sample,
    Table,
    TooMuch,
    Totals,
    combined,
    encode_sample,
    flat_counts,
    process_sample,
    samples_in,
)
from sightline.server.history_store import HistoryLimits, HistoryStore, RecordRow, SampleRow, Tier
from sightline.server.resources import Resources

_LOOK_SECONDS = 1.0
_PRUNE_MS = 600_000
_STOP_SECONDS = 10.0
_POINTS = 400
"""Points of a query that names no step, at most: about what a chart shows."""
_STEPS_OF_COUNTS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)
_STEPS = (10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)
MOST_POINTS = 2_000
MOST_VALUES = 100_000
MOST_SAMPLES = 20_000
"""Samples that a query reads at most: a tenth of a second of one core."""
_MOST_COUNTED = 1_000
_DWELL_STEPS = 100
"""Into how many parts at least the span of a dwell histogram is cut: so exact are its ends."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SeriesAnswer:
    """Columns at regular times: `times` are seconds since the epoch, `step_seconds` apart, when intervals begin."""

    step_seconds: int
    times: list[int]
    columns: list[Column]


@dataclass(frozen=True, slots=True)
class RecordsAnswer:
    """Records as JSON in the order asked for, and where to go on: None when there are no more."""

    records: list[bytes]
    next: int | None


@dataclass(frozen=True, slots=True)
class CountsAnswer:
    """Numbers of records by stream in intervals: `times` are seconds since the epoch, when they begin."""

    step_seconds: int
    times: list[int]
    counts: Mapping[str, list[int]]


@dataclass(slots=True, eq=False)
class _Interval:
    """The interval of a tier that is under way: when it began, and what had been used and counted then, by stream."""

    tier: Tier
    began_ms: int
    began_ns: int
    used: Resources
    before: Mapping[str, Totals] = field(default_factory=dict)


class History:
    """Takes samples every ten seconds, and answers questions about them. `view` gives the run at this moment.

    `start` begins to take samples in a thread, `tick` is what that does about once a second. Questions may be asked
    from any thread, also about earlier processes.
    """

    def __init__(
        self,
        store: HistoryStore,
        *,
        view: Callable[[], RunView | None],
        feed: EventFeed,
        clock: Clock | None = None,
        limits: HistoryLimits | None = None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_tick` is called with each tick, to keep what others have noted."""
        self.store = store
        self._on_tick = on_tick
        self._view = view
        self._feed = feed
        self._clock = clock or SystemClock()
        self._tiers = (limits or HistoryLimits()).tiers
        self._ticking = Lock()
        self._read = self._pruned_ms = 0
        self._is_missing = False
        self._reported: dict[str, ReportedEvents] = {}
        self._intervals: list[_Interval] = []
        self._last: Mapping[str, Totals] = {}
        self._thread: _Sampler | None = None
        self.heat = HeatMaps(store, clock=self._clock)

    def start(self) -> None:
        """Take samples from now on."""
        self._make_up()
        self._thread = _Sampler(self)
        self._thread.start()

    def close(self) -> None:
        """Take the last samples, and close the store; harmless when called again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
            self.tick(is_last=True)
        self.store.close()

    def tick(self, *, is_last: bool = False) -> None:
        """Keep what is new: records, and the samples of intervals that are over, or of all if it is the last time."""
        with self._ticking:
            now_ms = self._clock.epoch_ns() // 1_000_000
            view = self._view()  # before the records: when it says that the run has ended, all of them are there
            records = self._new_records()
            samples = self._due_samples(view, now_ms, is_last=is_last)
            self.store.add(samples, records)
            self.heat.tick(now_ms, is_last=is_last)
            self._on_tick()
            if abs(now_ms - self._pruned_ms) >= _PRUNE_MS:
                self._pruned_ms = now_ms
                self.store.prune(now_ms)

    def now_ns(self) -> int:
        """The time of day by the clock of the history, in nanoseconds since the epoch."""
        return self._clock.epoch_ns()

    def seconds_to_next(self) -> float:
        """How long to wait before the next `tick`: a second, or less until the next interval begins."""
        now_ms = self._clock.epoch_ns() // 1_000_000
        step_ms = self._tiers[0].step_ms
        return min(_LOOK_SECONDS, (step_ms - now_ms % step_ms) / 1_000)

    def series(
        self,
        names: Sequence[str],
        *,
        streams: Sequence[str] = (),
        start_seconds: float | None = None,
        end_seconds: float | None = None,
        step_seconds: int | None = None,
        combine: Combine | None = None,
    ) -> SeriesAnswer:
        """Time series by name, of the streams that match one of the globs (all when there is none), in a span of time
        (the last hour). Values are combined to one for each step: as the series does it, unless told. A step is made
        longer where there are no samples that short; without one there are at most 400 values.

        Raises ValueError when there is no such series or the span is empty, and TooMuch.
        """
        _check_names(names)
        start, end, now = self._span(start_seconds, end_seconds)
        if step_seconds is not None and step_seconds < 1:
            raise ValueError("a step is at least one second")
        tier, step = self._resolution(start, end, now=now, step_seconds=step_seconds)
        first = int(start // step * step)
        count = -int(-(end - first) // step)
        if count > MOST_POINTS:
            raise TooMuch(
                f"there would be {count} points: ask for a longer step or a shorter time, {MOST_POINTS} at most"
            )
        table = Table(
            names, start_ms=first * 1_000, step_ms=step * 1_000, count=count, combine=combine, most=MOST_VALUES
        )
        kinds = {SERIES[name].of_process for name in names}
        for row in self._samples(tier, streams, kinds, start_ms=first * 1_000, end_ms=(first + count * step) * 1_000):
            table.add(*row)
        return SeriesAnswer(step, [first + index * step for index in range(count)], table.columns())

    def dwell(
        self,
        *,
        streams: Sequence[str] = (),
        start_seconds: float | None = None,
        end_seconds: float | None = None,
    ) -> list[DwellHistogram]:
        """How long the stays in zones lasted that ended in a span of time (the last hour), by stream and zone, of the
        streams that match one of the globs (all when there is none). The ends of the span are exact to a hundredth of
        it, or to what samples are kept.

        Raises ValueError when the span is empty, and TooMuch.
        """
        start, end, now = self._span(start_seconds, end_seconds)
        tier, _ = self._resolution(start, end, now=now, step_seconds=max(1, int((end - start) / _DWELL_STEPS)))
        rows = self._samples(tier, streams, {False}, start_ms=int(start * 1_000), end_ms=int(end * 1_000))
        return [
            DwellHistogram.of(stream, name, dwell)
            for stream, group in groupby(rows, key=lambda one: one[0])
            for name, dwell in sorted(added_dwell(sample.dwell for _, _, sample in group).items())
        ]

    def heat_map(
        self,
        stream: str,
        kind: Kind,
        *,
        labels: Sequence[str] = (),
        start_seconds: float | None = None,
        end_seconds: float | None = None,
    ) -> HeatMap:
        """The heat map of a stream in the hours that a span of time touches (the last hour), of the labels that match
        one of the globs (all when there is none).

        Raises ValueError when the span is empty, and TooMuch.
        """
        start, end, _ = self._span(start_seconds, end_seconds)
        return self.heat.map(stream, kind, labels=labels, start_seconds=start, end_seconds=end)

    def records(
        self,
        query: RecordQuery,
        *,
        start_seconds: float | None = None,
        end_seconds: float | None = None,
        after: int = 0,
        limit: int = 100,
        newest_first: bool = False,
    ) -> RecordsAnswer:
        """Records of the feed in a span of time (the last day, by our clock), oldest or newest first. `after` is the
        `next` of the answer before.

        Raises ValueError when the span is empty.
        """
        start, end = self._span_of_records(start_seconds, end_seconds)
        rows = self.store.records(
            query,
            start_ms=int(start * 1_000),
            end_ms=int(end * 1_000),
            after=after,
            limit=limit + 1,
            newest_first=newest_first,
        )
        shown = rows[:limit]
        return RecordsAnswer([body for _, body in shown], shown[-1][0] if len(rows) > limit else None)

    def _span(self, start_seconds: float | None, end_seconds: float | None) -> tuple[float, float, float]:
        """The span that is asked for, else the last hour, and the time now; in seconds since the epoch."""
        now = self._clock.epoch_ns() / 1e9
        end = now if end_seconds is None else end_seconds
        start = end - 3_600 if start_seconds is None else start_seconds
        _check_span(start, end)
        return start, end, now

    def record_counts(
        self,
        query: RecordQuery,
        *,
        start_seconds: float | None = None,
        end_seconds: float | None = None,
        points: int = 120,
    ) -> CountsAnswer:
        """How many records each stream has in intervals of equal length, about `points` of them, in a span of time (the
        last day). Raises ValueError when the span is empty.
        """
        start, end = self._span_of_records(start_seconds, end_seconds)
        step = next((one for one in _STEPS_OF_COUNTS if (end - start) / one <= points), _STEPS_OF_COUNTS[-1])
        first = int(start // step * step)
        count = -int(-(end - first) // step)
        if count > MOST_POINTS:
            raise ValueError(f"there would be {count} intervals: ask for a shorter time")
        counts = self.store.record_counts(query, start_ms=first * 1_000, step_ms=step * 1_000, count=count)
        return CountsAnswer(step, [first + index * step for index in range(count)], counts)

    def _span_of_records(self, start_seconds: float | None, end_seconds: float | None) -> tuple[float, float]:
        """A span of time that was asked for; the last day when it was not. Raises ValueError when it is empty."""
        end = self._clock.epoch_ns() / 1e9 + 1 if end_seconds is None else end_seconds
        start = end - 86_400 if start_seconds is None else start_seconds
        _check_span(start, end)
        return start, end

    def _make_up(self) -> None:
        """Make the samples of longer steps from those of shorter ones that a process which was killed has left."""
        end_ms = self._clock.epoch_ns() // 1_000_000
        for finer, tier in pairwise(self._tiers):
            rows: list[SampleRow] = []
            for stream in self.store.streams(finer):
                newest_ms = self.store.newest_ms(tier, stream)
                begin_ms = 0 if newest_ms is None else (newest_ms // tier.step_ms + 1) * tier.step_ms
                left = self.store.samples(finer, stream, start_ms=begin_ms, end_ms=end_ms, limit=MOST_SAMPLES)
                for slot, group in groupby(samples_in(left), key=lambda one: one[1] // tier.step_ms):
                    sample = combined([one for _, _, one in group])
                    rows.append((tier.step_seconds, stream, slot * tier.step_ms, encode_sample(sample)))
            self.store.add(rows, [])

    def _new_records(self) -> list[RecordRow]:
        records, missed = self._feed.since(self._read)
        if missed and not self._is_missing:
            _LOG.warning("there are more events than the history can keep: %d of them are not in it", missed)
        self._is_missing = bool(missed)
        for one in records:
            if one.type == "event" and one.stream is not None:
                self._reported.setdefault(one.stream, ReportedEvents()).add(one)
        if records:
            self._read = records[-1].number
        epoch = self._feed.epoch
        return [
            RecordRow(
                one.made_ns // 1_000_000,
                one.key,
                epoch,
                one.number,
                words_of(one),
                one.json(epoch),
                one.scene_json(),
            )
            for one in records
        ]

    def _due_samples(self, view: RunView | None, now_ms: int, *, is_last: bool) -> list[SampleRow]:
        """The samples of the intervals that are over; when the run has ended, of those that are under way."""
        if view is None:
            return []
        now_ns = self._clock.monotonic_ns()
        if not self._intervals and (view.is_running or self._is_new(view.streams)):
            ago_ns = min(view.running_ns, now_ns)
            used = Resources.now()
            self._intervals = [
                _Interval(tier, now_ms - ago_ns // 1_000_000, now_ns - ago_ns, used, self._last) for tier in self._tiers
            ]
        is_over = is_last or not view.is_running
        due = [
            one for one in self._intervals if is_over or now_ms // one.tier.step_ms != one.began_ms // one.tier.step_ms
        ]
        if not due:
            return []
        totals = {
            one.stream.name: Totals.of(
                one,
                reported=self._reported.get(one.stream.name, ReportedEvents()),
                occupancy=flat_occupancy(view.occupancy, one.stream.name),
            )
            for one in view.streams
        }
        counts = {name: flat_counts(view.counts, name) for name in totals}
        used = Resources.now()
        rows = [row for interval in due for row in _samples(interval, totals, counts, used, now_ns=now_ns)]
        for one in due:
            one.began_ms, one.began_ns, one.before = now_ms // one.tier.step_ms * one.tier.step_ms, now_ns, totals
            one.used = used
        if is_over:
            self._intervals = []
        self._last = totals
        self._forget(totals)
        return rows

    def _is_new(self, streams: Iterable[StreamStats]) -> bool:
        """Whether streams are those of a run of which no sample was taken."""
        return any(
            one.finished and (one.stream.name not in self._last or self._last[one.stream.name].stats is not one)
            for one in streams
        )

    def _forget(self, present: Mapping[str, Totals]) -> None:
        """Keep the counts of a bounded number of streams and rules."""
        if len(self._reported) > _MOST_COUNTED:
            self._reported = {name: counted for name, counted in self._reported.items() if name in present}
        for counted in self._reported.values():
            counted.shrink()

    def _resolution(self, start: float, end: float, *, now: float, step_seconds: int | None) -> tuple[Tier, int]:
        """The tier to read, and the step."""
        step = step_seconds or next((one for one in _STEPS if (end - start) / one <= _POINTS), _STEPS[-1])
        fitting = [one for one in self._tiers if one.step_seconds <= step] or [self._tiers[0]]
        reaching = [one for one in self._tiers if now - one.age_seconds <= start] or [self._tiers[-1]]
        tier = max(fitting[-1], reaching[0], key=lambda one: one.step_seconds)
        return tier, -(-step // tier.step_seconds) * tier.step_seconds

    def _samples(
        self, tier: Tier, streams: Sequence[str], kinds: Collection[bool], *, start_ms: int, end_ms: int
    ) -> Iterable[tuple[str, int, Sample]]:
        """The samples of a span of time by stream: from a tier, and from finer ones for its last interval, which is
        not over. `kinds` says whether those of the process are wanted (True), and those of streams (False). Raises
        TooMuch.
        """
        spans, now_ms, begin_ms = [], self._clock.epoch_ns() // 1_000_000, start_ms
        for one in reversed(self._tiers[: self._tiers.index(tier) + 1]):
            cut_ms = end_ms if one is self._tiers[0] else min(end_ms, now_ms // one.step_ms * one.step_ms)
            spans.append((one, begin_ms, cut_ms))
            begin_ms = max(begin_ms, cut_ms)
        names = {name for one, *_ in spans for name in self.store.streams(one)}
        left = MOST_SAMPLES
        for name in sorted(names):
            if (name == PROCESS) not in kinds:
                continue
            if streams and not any(name == glob or fnmatchcase(name, glob) for glob in streams):
                continue
            for one, first_ms, last_ms in spans:
                rows = self.store.samples(one, name, start_ms=first_ms, end_ms=last_ms, limit=left + 1)
                left -= len(rows)
                if left < 0:
                    raise TooMuch(
                        f"more than {MOST_SAMPLES} samples would have to be read: ask for a longer step, a shorter "
                        "time or fewer streams"
                    )
                yield from samples_in(rows)


def _samples(
    interval: _Interval,
    totals: Mapping[str, Totals],
    counts: Mapping[str, Mapping[str, int]],
    used: Resources,
    *,
    now_ns: int,
) -> Iterable[SampleRow]:
    seconds = (now_ns - interval.began_ns) / 1e9
    process = process_sample(used.cpu_since(interval.used), used.memory(), seconds=seconds)
    yield interval.tier.step_seconds, PROCESS, interval.began_ms, encode_sample(process)
    for name, own in totals.items():
        sample = own.sample(interval.before.get(name), seconds=seconds, counts=counts[name])
        yield interval.tier.step_seconds, name, interval.began_ms, encode_sample(sample)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if name not in SERIES:
            near = get_close_matches(name, SERIES, n=1)
            hint = f", did you mean {near[0]!r}" if near else ""
            raise ValueError(f"there is no series {name[:40]!r}{hint}; there are {', '.join(SERIES)}")


def _check_span(start: float, end: float) -> None:
    if not 0 <= start < end < 1e11:
        raise ValueError("the time span is empty: `from` must be before `to`, both in seconds since 1970")


class _Sampler(Worker):
    """Calls `tick` of a history until it is stopped."""

    def __init__(self, history: History) -> None:
        super().__init__("history")
        self._history = history
        self._stopping = Event()

    def work(self) -> None:
        """Take samples."""
        while not self._stopping.wait(self._history.seconds_to_next()):
            self._history.tick()

    def stop(self) -> None:
        """Stop it, and wait until it has stopped."""
        self._stopping.set()
        self.wait(_STOP_SECONDS)
