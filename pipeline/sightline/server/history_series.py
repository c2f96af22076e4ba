"""What the history measures: a sample of each stream in each interval, and time series made of such samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from sightline.graph.rule import Counts
from sightline.runtime.stats.counters import Histogram, StreamStats
from sightline.server.history_rules import (
    Dwell,
    Inside,
    ReportedEvents,
    added_dwell,
    added_inside,
    dwell_by_rule,
    inside_since,
)

Combine = Literal["mean", "max", "sum", "last"]
"""How the values of several samples become one."""
_MOST_KEYS = 200
"""More labels, rules or reasons than these are not kept in a sample: those with the largest numbers are."""
_MS = 1e6


class Sample(msgspec.Struct, array_like=True, gc=False):
    """What one stream did in an interval of `seconds`.

    `objects` counts those on all frames by label, `tracks` the new ones; `counts` are the counts of rules at the end
    of the interval, by `element.rule.name`; `events` are counted by `element.rule`, `crossings` by
    `element.rule.direction`; `inside` and `dwell` are of zones, by `element.rule`. What is 0 is left out, but for
    `counts` and `inside`. The process has samples, too, as the stream with the empty name `PROCESS`: `cpu` in cores and
    `memory` in bytes, of the `process` and the whole `machine`.
    """

    seconds: float
    frames: int
    dropped: dict[str, int]
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    objects: dict[str, int]
    tracks: dict[str, int]
    counts: dict[str, int]
    events: dict[str, int]
    crossings: dict[str, int] = {}
    inside: dict[str, Inside] = {}
    dwell: dict[str, Dwell] = {}
    cpu: dict[str, float] = {}
    memory: dict[str, int] = {}


PROCESS = ""


@dataclass(frozen=True, slots=True)
class Totals:
    """What was counted of a stream up to a moment. The numbers of another run, which has other `stats`, begin at 0."""

    stats: StreamStats
    frames: int
    dropped: Counter[str]
    latency: Histogram
    objects: Counter[str]
    tracks: Counter[str]
    occupancy: Mapping[str, Counter[int]]
    reported: ReportedEvents

    @classmethod
    def of(cls, stats: StreamStats, *, reported: ReportedEvents, occupancy: Mapping[str, Counter[int]]) -> Totals:
        """The present numbers; `reported` are the events of the stream, of all runs."""
        labels = dict(stats.labels)
        return cls(
            stats,
            stats.finished,
            Counter({str(reason): count for reason, count in stats.dropped.copy().items()}),
            stats.latency.copy(),
            Counter({label: count.objects for label, count in labels.items()}),
            Counter({label: count.tracks for label, count in labels.items()}),
            occupancy,
            reported.copy(),
        )

    def sample(self, before: Totals | None, *, seconds: float, counts: Mapping[str, int]) -> Sample:
        """What came since an earlier moment; since the beginning where there is none."""
        reported = self.reported if before is None else self.reported.since(before.reported)
        if before is None or before.stats is not self.stats:
            before = Totals(self.stats, 0, Counter(), Histogram(), Counter(), Counter(), {}, ReportedEvents())
        latency = self.latency.since(before.latency)
        p50, p95 = (_milliseconds(latency, percent) for percent in (50, 95))
        return Sample(
            round(seconds, 3),
            self.frames - before.frames,
            _largest(self.dropped - before.dropped),
            p50,
            p95,
            _largest(self.objects - before.objects),
            _largest(self.tracks - before.tracks),
            dict(list(counts.items())[:_MOST_KEYS]),
            _largest(reported.events),
            _largest(reported.crossings),
            inside_since(self.occupancy, before.occupancy, most=_MOST_KEYS),
            dwell_by_rule(reported.dwell, most=_MOST_KEYS),
        )


def process_sample(cpu: Mapping[str, float], memory: Mapping[str, int], *, seconds: float) -> Sample:
    """What the process and the machine used in an interval."""
    used = {name: round(cores, 3) for name, cores in cpu.items()}
    return Sample(round(seconds, 3), 0, {}, None, None, {}, {}, {}, {}, cpu=used, memory=dict(memory))


def combined(samples: Sequence[Sample]) -> Sample:
    """One sample in place of successive ones. Its percentiles are estimates: the mean of the medians, and the highest
    of the 95 %.
    """
    frames = sum(one.frames for one in samples)
    p50 = sum((one.latency_p50_ms or 0.0) * one.frames for one in samples) / frames if frames else None
    p95 = [one.latency_p95_ms for one in samples if one.latency_p95_ms is not None]

    def total(of: Callable[[Sample], dict[str, int]]) -> dict[str, int]:
        added: Counter[str] = Counter()
        for one in samples:
            added.update(of(one))
        return _largest(added)

    return Sample(
        round(sum(one.seconds for one in samples), 3),
        frames,
        total(lambda one: one.dropped),
        None if p50 is None else round(p50, 2),
        max(p95, default=None),
        total(lambda one: one.objects),
        total(lambda one: one.tracks),
        samples[-1].counts,
        total(lambda one: one.events),
        total(lambda one: one.crossings),
        added_inside(one.inside for one in samples),
        added_dwell(one.dwell for one in samples),
        {name: round(_mean_cpu(samples, name), 3) for name in samples[-1].cpu},
        {name: max(one.memory.get(name, 0) for one in samples) for name in samples[-1].memory},
    )


def _mean_cpu(samples: Sequence[Sample], name: str) -> float:
    known = [one for one in samples if name in one.cpu and one.seconds > 0]
    seconds = sum(one.seconds for one in known)
    return sum(one.cpu[name] * one.seconds for one in known) / seconds if seconds else 0.0


def flat_counts(counts: Mapping[str, Mapping[str, Counts]], stream: str) -> dict[str, int]:
    """The counts of a stream by `element.rule.name`."""
    return {
        f"{element}.{rule}.{name}": value
        for element, by_stream in counts.items()
        for rule, own in by_stream.get(stream, {}).items()
        for name, value in own.items()
    }


def _milliseconds(latency: Histogram, percent: float) -> float | None:
    return round(latency.percentile_ns(percent) / _MS, 2) if latency.count else None


def _largest(counted: Counter[str]) -> dict[str, int]:
    return dict(counted) if len(counted) <= _MOST_KEYS else dict(counted.most_common(_MOST_KEYS))


Values = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity over time. `values` gives those of a sample by key (the empty key where there is one value), and
    `weight` what the mean of several samples is weighted by. `is_sparse`: a key that a sample lacks means 0.
    `of_process`: of the samples of the process instead of those of streams.
    """

    name: str
    unit: str
    meaning: str
    combine: Combine
    values: Callable[[Sample], Values]
    weight: Callable[[Sample], float]
    is_sparse: bool = False
    of_process: bool = False


def _frames(sample: Sample) -> float:
    return sample.frames


def _seconds(sample: Sample) -> float:
    return sample.seconds


def _by_frame(sample: Sample) -> Values:
    return {label: count / sample.frames for label, count in sample.objects.items()} if sample.frames else {}


def _mean_inside(sample: Sample) -> Values:
    return {name: total / frames for name, (frames, total, _) in sample.inside.items()}


def _rate(sample: Sample) -> Values:
    return {"": sample.frames / sample.seconds if sample.seconds > 0 else None}


SERIES = {
    one.name: one
    for one in (
        Series("fps", "1/s", "Frames processed a second.", "mean", _rate, _seconds),
        Series(
            "latency_p50_ms",
            "ms",
            "Median time of frames from the source to the end of the pipeline.",
            "mean",
            lambda one: {"": one.latency_p50_ms},
            _frames,
        ),
        Series(
            "latency_p95_ms",
            "ms",
            "Time that 95 % of the frames did not exceed.",
            "max",
            lambda one: {"": one.latency_p95_ms},
            _frames,
        ),
        Series("dropped", "frames", "Frames dropped, by reason.", "sum", lambda one: one.dropped, _seconds, True),
        Series("objects", "objects", "Objects on a frame, by label.", "mean", _by_frame, _frames, True),
        Series("tracks", "tracks", "New tracks, by label.", "sum", lambda one: one.tracks, _seconds, True),
        Series(
            "counts",
            "",
            "Counts of rules as `draw` shows them, by element, rule and name.",
            "last",
            lambda one: one.counts,
            _seconds,
        ),
        Series("events", "events", "Events, by element and rule.", "sum", lambda one: one.events, _seconds, True),
        Series(
            "crossings",
            "crossings",
            "Crossings of lines (`in`, `out`) and of the edges of zones (`enter`, `leave`), by element, rule and"
            " direction.",
            "sum",
            lambda one: one.crossings,
            _seconds,
            True,
        ),
        Series("occupancy", "objects", "Objects inside a zone, on average.", "mean", _mean_inside, _frames),
        Series(
            "occupancy_max",
            "objects",
            "Most objects inside a zone on one frame.",
            "max",
            lambda one: {name: largest for name, (_, _, largest) in one.inside.items()},
            _frames,
        ),
        Series(
            "cpu",
            "cores",
            "Cores in use, by the process and in the whole machine.",
            "mean",
            lambda one: one.cpu,
            _seconds,
            of_process=True,
        ),
        Series(
            "memory",
            "bytes",
            "Memory in use, by the process and in the whole machine.",
            "max",
            lambda one: dict(one.memory),
            _seconds,
            of_process=True,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Column:
    """A series of one stream and key: a value for each time, None where nothing is known."""

    name: str
    stream: str
    key: str
    unit: str
    combine: Combine
    values: list[float | None]


class TooMuch(ValueError):
    """The question has too long an answer."""


@dataclass(slots=True)
class _Bins:
    """The values of one key, gathered in `count` intervals."""

    count: int
    total: list[float] = field(init=False)
    weight: list[float] = field(init=False)
    largest: list[float | None] = field(init=False)
    last: list[float | None] = field(init=False)

    def __post_init__(self) -> None:
        self.total, self.weight = [0.0] * self.count, [0.0] * self.count
        self.largest, self.last = [None] * self.count, [None] * self.count

    def add(self, index: int, value: float, *, weight: float, is_total: bool) -> None:
        """Add the value of a sample; the later one of an interval comes later."""
        self.total[index] += value if is_total else value * weight
        self.weight[index] += weight
        largest = self.largest[index]
        self.largest[index] = value if largest is None else max(largest, value)
        self.last[index] = value


class Table:
    """Gathers samples in intervals of equal length, and gives columns."""

    def __init__(
        self, names: Sequence[str], *, start_ms: int, step_ms: int, count: int, combine: Combine | None, most: int
    ) -> None:
        self._series = [SERIES[name] for name in names]
        self._start_ms, self._step_ms, self._count = start_ms, step_ms, count
        self._combine = combine
        self._most = most
        self._bins: dict[tuple[Series, str, str], _Bins] = {}
        self._whole: dict[tuple[Series, str], _Bins] = {}

    def add(self, stream: str, time_ms: int, sample: Sample) -> None:
        """Add a sample that begins at a time. Samples of a stream come in order.

        Raises TooMuch when there are more values than are allowed.
        """
        index = (time_ms - self._start_ms) // self._step_ms
        if not 0 <= index < self._count:
            return
        for series in self._series:
            if series.of_process is not (stream == PROCESS):
                continue
            combine, weight = self._combine or series.combine, series.weight(sample)
            if series.is_sparse:
                whole = self._whole.get((series, stream))
                if whole is None:
                    whole = self._whole[series, stream] = _Bins(self._count)
                whole.add(index, 0.0, weight=weight, is_total=False)
            for key, value in series.values(sample).items():
                if value is None:
                    continue
                bins = self._bins.get((series, stream, key))
                if bins is None:
                    if (len(self._bins) + 1) * self._count > self._most:
                        raise TooMuch(
                            f"the answer has more than {self._most} values: ask for a longer step, a shorter time, "
                            "fewer series or one stream"
                        )
                    bins = self._bins[series, stream, key] = _Bins(self._count)
                bins.add(index, value, weight=weight, is_total=combine == "sum")

    def columns(self) -> list[Column]:
        """All columns, in the order of the series that were asked for, then by stream and key."""
        order = {series: number for number, series in enumerate(self._series)}
        found = sorted(self._bins.items(), key=lambda one: (order[one[0][0]], one[0][1], one[0][2]))
        return [
            Column(
                series.name,
                stream,
                key,
                series.unit,
                self._combine or series.combine,
                [
                    _value(bins, self._whole.get((series, stream), bins), index, self._combine or series.combine)
                    for index in range(self._count)
                ],
            )
            for (series, stream, key), bins in found
        ]


def _value(bins: _Bins, whole: _Bins, index: int, combine: Combine) -> float | None:
    """The value of an interval; `whole` has the weight of all samples in it, also of those that lack the key."""
    if whole.last[index] is None:
        return None
    if combine == "mean":
        weight = whole.weight[index]
        return round(bins.total[index] / weight, 4) if weight > 0 else None
    if combine == "sum":
        return round(bins.total[index], 4)
    found = bins.largest[index] if combine == "max" else bins.last[index]
    return 0.0 if found is None else round(found, 4)


def samples_in(rows: Iterable[tuple[str, int, bytes]]) -> Iterable[tuple[str, int, Sample]]:
    """Read the samples of rows of stream, time and body."""
    for stream, time_ms, body in rows:
        yield stream, time_ms, _decode(body)


encode_sample = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Sample).decode
