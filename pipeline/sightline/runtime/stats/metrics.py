"""The metrics of a run: what each is called, what it means, and its samples; for every way in which they are published.

A counter of the stats is a metric by its declaration (`counters.CounterInfo`); everything else is listed here.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

from sightline.graph import StreamState
from sightline.runtime.stats.counters import (
    CounterInfo,
    DeliveryState,
    DeliveryStats,
    ElementStats,
    Histogram,
    LinkStats,
    Stats,
    StreamStats,
    TelemetryStats,
    counters,
)
from sightline.runtime.stats.snapshot import LinkView, RunView

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SELF = Path("/proc/self")
_VERSION = version("sightline")

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


class MetricKind(StrEnum):
    """A `counter` only grows, a `gauge` goes up and down, a `histogram` counts durations in seconds."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric with its samples, one for each set of labels. `name` has its unit at its end (`_seconds`, `_bytes`), and
    neither a namespace nor `_total`. A histogram has `histograms` instead of samples.
    """

    name: str
    kind: MetricKind
    meaning: str
    samples: tuple[Sample, ...] = ()
    histograms: tuple[tuple[Labels, Histogram], ...] = ()


@dataclass(slots=True)
class Families:
    """Collects families. One without samples is left out."""

    all: list[MetricFamily] = field(default_factory=list)

    def counter(self, name: str, meaning: str, samples: Iterable[Sample]) -> None:
        """Add what only grows."""
        self._add(MetricFamily(name, MetricKind.COUNTER, meaning, tuple(samples)))

    def gauge(self, name: str, meaning: str, samples: Iterable[Sample]) -> None:
        """Add what goes up and down."""
        self._add(MetricFamily(name, MetricKind.GAUGE, meaning, tuple(samples)))

    def histogram(self, name: str, meaning: str, histograms: Iterable[tuple[Labels, Histogram]]) -> None:
        """Add durations in seconds, also where none was counted."""
        self.all.append(MetricFamily(name, MetricKind.HISTOGRAM, meaning, histograms=tuple(histograms)))

    def _add(self, family: MetricFamily) -> None:
        if family.samples:
            self.all.append(family)


def metric_families(view: RunView | None, *, is_ready: bool) -> list[MetricFamily]:
    """Return all metrics of a run; those of the process only before it has begun."""
    found = Families()
    found.gauge("build_info", "Always 1; the labels say what runs.", [(_build_labels(), 1)])
    found.gauge("ready", "1 when every stream is live or has ended well.", [({}, int(is_ready))])
    _add_process(found, Process.now())
    if view is not None:
        _add_run(found, view)
        _add_streams(found, view)
        _add_elements(found, view)
        _add_comparisons(found, view)
        _add_drifts(found, view)
        _add_alarms(found, view)
        _add_links(found, view)
        _add_deliveries(found, view)
        _add_gpus(found, view)
        if view.telemetry is not None:
            _add_counters(found, [({}, view.telemetry)], of=TelemetryStats)
    return found.all


@dataclass(frozen=True, slots=True)
class Process:
    """Memory, threads and files of this process; None where the machine does not tell."""

    resident_bytes: int | None
    threads: int
    open_files: int | None
    cpu_seconds: float

    @classmethod
    def now(cls) -> Process:
        """As it is now."""
        return cls(_resident_bytes(), _threads(), _open_files(), time.process_time())


def _resident_bytes() -> int | None:
    try:
        return int((_SELF / "statm").read_text().split()[1]) * _PAGE
    except OSError:
        return None


def _threads() -> int:
    """All threads of the process; those of Python where the machine does not tell."""
    try:
        return len(os.listdir(_SELF / "task"))  # noqa: PTH208  counting is all that is wanted
    except OSError:
        return threading.active_count()


def _open_files() -> int | None:
    try:
        return len(os.listdir(_SELF / "fd"))  # noqa: PTH208  counting is all that is wanted
    except OSError:
        return None


def _build_labels() -> Labels:
    return {"version": _VERSION, "python": platform.python_version()}


def _add_process(to: Families, process: Process) -> None:
    to.counter("process_cpu_seconds", "CPU time of the process.", [({}, process.cpu_seconds)])
    to.gauge("process_threads", "Threads of the process.", [({}, process.threads)])
    if process.resident_bytes is not None:
        to.gauge("process_resident_memory_bytes", "Memory that the process holds.", [({}, process.resident_bytes)])
    if process.open_files is not None:
        to.gauge("process_open_files", "Files and sockets that the process holds.", [({}, process.open_files)])


def _add_run(to: Families, view: RunView) -> None:
    to.gauge("pipeline_running", "1 while the pipeline runs.", [({"pipeline": view.pipeline}, int(view.is_running))])
    began = view.began_epoch_ns / 1e9
    to.gauge("pipeline_start_time_seconds", "When the run began, since the epoch.", [({}, began)])
    to.gauge("overloaded", "1 while live streams drop frames for want of time.", [({}, int(view.overloaded))])


def _add_streams(to: Families, view: RunView) -> None:
    to.gauge("stream_state", "1 for the state that the stream is in.", _states(view))
    _add_counters(to, [({"stream": one.stream.name}, one) for one in view.streams], of=StreamStats)
    overloaded = [({"stream": stream.name}, int(rates.overloaded)) for stream, rates in view.rates.items()]
    to.gauge("stream_overloaded", "1 while the stream drops frames for want of time.", overloaded)
    latencies = [({"stream": one.stream.name}, one.latency) for one in view.streams]
    to.histogram("stream_latency_seconds", "Time of frames from the source to the end of the pipeline.", latencies)


def _states(view: RunView) -> Iterator[Sample]:
    for one in view.streams:
        for state in StreamState:
            yield {"stream": one.stream.name, "state": str(state)}, int(one.state is state)


def _add_counters(to: Families, rows: Sequence[tuple[Labels, Stats]], *, of: type[Stats]) -> None:
    """Add every counter of a class of stats that is a metric."""
    for info in counters(of):
        if info.metric is not None:
            to.counter(
                info.metric, info.meaning, [one for labels, stats in rows for one in _samples(info, labels, stats)]
            )


def _samples(info: CounterInfo, labels: Labels, stats: Stats) -> Iterator[Sample]:
    """A counter's values; known reasons from the start on, so that rates are right from the first drop."""
    value = info.value(stats)
    if isinstance(value, dict):
        for name, count in {**dict.fromkeys(info.values, 0), **value}.items():
            yield {**labels, str(info.label): name}, count
    else:
        yield labels, value


def _add_deliveries(to: Families, view: RunView) -> None:
    rows = [({"destination": one.destination}, one) for one in view.deliveries]
    _add_counters(to, rows, of=DeliveryStats)
    connected = [(labels, int(one.state is DeliveryState.CONNECTED)) for labels, one in rows]
    to.gauge("delivery_connected", "1 while the destination accepts records.", connected)
    to.gauge(
        "delivery_records_waiting", "Records that wait in the outbox.", [(labels, one.depth) for labels, one in rows]
    )
    now_ns = time.time_ns()
    ages = [(labels, 0.0 if one.oldest_ns is None else max(now_ns - one.oldest_ns, 0) / 1e9) for labels, one in rows]
    to.gauge("delivery_oldest_record_seconds", "Age of the oldest record that waits.", ages)


def _add_gpus(to: Families, view: RunView) -> None:
    uses = [({"gpu": use.gpu}, use) for use in view.gpu_memory]
    limits = [(labels, use.limit_bytes) for labels, use in uses]
    to.gauge("gpu_memory_limit_bytes", "Memory of the GPU that the pipeline may use.", limits)
    used = [(labels, use.used_bytes) for labels, use in uses]
    to.gauge("gpu_memory_used_bytes", "Memory of the GPU that the pipeline has, idle memory included.", used)
    to.gauge("gpu_memory_idle_bytes", "The part of it that nobody holds.", [(one, use.idle_bytes) for one, use in uses])
    retries = [(labels, use.retries) for labels, use in uses]
    to.counter("gpu_memory_retries", "How often the GPU had no memory left until idle memory was freed.", retries)


def _add_elements(to: Families, view: RunView) -> None:
    _add_counters(to, [({"element": one.element_id}, one) for one in view.elements], of=ElementStats)
    latencies = [({"element": one.element_id}, one.latency) for one in view.elements]
    to.histogram("element_latency_seconds", "Time from when a batch is given to a step to its result.", latencies)
    models = view.models.items()
    runs: list[Sample] = [({"element": name}, one.runs) for name, one in models]
    to.counter("engine_runs", "How often a step ran its model.", runs)
    saved: list[Sample] = [({"element": name}, one.saved) for name, one in models]
    to.counter("engine_saved_runs", "How often a step knew the answer without its model.", saved)


def _add_comparisons(to: Families, view: RunView) -> None:
    known = [
        ({"element": name, "role": one.role, "model": one.model}, one)
        for name, own in view.comparisons.items()
        for one in own
    ]
    meaning = "Frames on which a second model was compared with the one that serves."
    to.counter("model_compared_frames", meaning, [(labels, one.frames) for labels, one in known])
    dropped: list[Sample] = [(labels, one.dropped) for labels, one in known]
    to.counter("model_dropped_frames", "Frames that a shadow had no time for.", dropped)
    for name, meaning, field_name in (
        ("model_disagreement", "Share of the newest results that differ.", "disagreement"),
        ("model_run_seconds", "Time of a run of the second model, a median.", "run_seconds"),
        ("model_beside_run_seconds", "Time of a run of the model that serves, a median.", "run_seconds_beside"),
    ):
        values = [(labels, getattr(one, field_name)) for labels, one in known]
        to.gauge(name, meaning, [(labels, value) for labels, value in values if value is not None])


def _add_drifts(to: Families, view: RunView) -> None:
    known = [
        ({"element": name, "stream": one.stream, "quantity": one.quantity, "label": one.label}, one)
        for name, own in view.drifts.items()
        for one in own
    ]
    for name, meaning, field_name in (
        ("drift_distance", "How far a quantity is from its baseline, 0 to 1.", "distance"),
        ("drift_limit", "The distance from which on it drifts.", "limit"),
        ("drift_baseline_median", "Median of the quantity in the baseline; the mean of counts.", "before"),
        ("drift_median", "Median of the quantity in the newest window; the mean of counts.", "now"),
        ("drift_active", "1 while the quantity drifts.", "drifts"),
    ):
        to.gauge(name, meaning, [(labels, float(getattr(one, field_name))) for labels, one in known])


def _add_alarms(to: Families, view: RunView) -> None:
    known: list[Sample] = [
        ({"element": name, "stream": one.stream, "rule": one.rule, "outcome": one.outcome}, one.count)
        for name, own in view.alarms.items()
        for one in own
    ]
    to.counter("verified_alarms", "Alarms that a model was asked about, by what came of them.", known)


def _add_links(to: Families, view: RunView) -> None:
    links = [(_link_labels(one), one) for one in view.links]
    waiting = "Items that wait: frames behind a source, batches elsewhere."
    to.gauge("link_depth", waiting, [(labels, one.depth) for labels, one in links])
    to.gauge("link_capacity", "Items that can wait.", [(labels, one.capacity) for labels, one in links])
    ages: list[Sample] = [(labels, one.oldest_age_ns / 1e9) for labels, one in links]
    to.gauge("link_oldest_age_seconds", "Time since the oldest waiting frame left its source.", ages)
    _add_counters(to, [(_link_labels(one), one.stats) for one in view.links], of=LinkStats)


def _link_labels(link: LinkView) -> Labels:
    return {"link": link.name, "stream": "" if link.stream is None else link.stream.name}
