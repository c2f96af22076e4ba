"""Metrics in Prometheus' text format."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from sightline.graph import StreamState
from sightline.runtime.scheduling.link import DropReason
from sightline.runtime.stats.counters import LIMITS_NS, ElementStats, Histogram, StreamStats
from sightline.runtime.stats.snapshot import LinkView, RunView

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SELF = Path("/proc/self")


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


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAMESPACE = "sightline"
_LIMITS = tuple(f"{limit / 1e9:g}" for limit in LIMITS_NS)

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


@dataclass(slots=True)
class Exposition:
    """Metrics as text, family by family. A family without samples is left out."""

    _lines: list[str] = field(default_factory=list)

    def counter(self, name: str, meaning: str, samples: Iterable[Sample]) -> None:
        """What only grows; `name` without `_total`."""
        self._family(f"{name}_total", "counter", meaning, samples)

    def gauge(self, name: str, meaning: str, samples: Iterable[Sample]) -> None:
        """What goes up and down."""
        self._family(name, "gauge", meaning, samples)

    def histogram(self, name: str, meaning: str, samples: Iterable[tuple[Labels, Histogram]]) -> None:
        """Durations in seconds."""
        full = self._head(name, "histogram", meaning)
        for labels, histogram in samples:
            *below, count = histogram.cumulative()
            for limit, number in zip(_LIMITS, below, strict=True):
                self._lines.append(_line(f"{full}_bucket", {**labels, "le": limit}, number))
            self._lines.append(_line(f"{full}_bucket", {**labels, "le": "+Inf"}, count))
            self._lines.append(_line(f"{full}_sum", labels, histogram.total_ns / 1e9))
            self._lines.append(_line(f"{full}_count", labels, count))

    def text(self) -> str:
        """Everything."""
        return "\n".join(self._lines) + "\n"

    def _family(self, name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> None:
        listed = list(samples)
        if listed:
            full = self._head(name, kind, meaning)
            self._lines += [_line(full, labels, value) for labels, value in listed]

    def _head(self, name: str, kind: str, meaning: str) -> str:
        full = f"{_NAMESPACE}_{name}"
        self._lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
        return full


def _line(name: str, labels: Labels, value: float) -> str:
    inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    number = str(value) if isinstance(value, int) else repr(float(value))
    return f"{name}{{{inner}}} {number}" if inner else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_VERSION = version("sightline")

_STREAM_COUNTERS: tuple[tuple[str, str, Callable[[StreamStats], float]], ...] = (
    ("stream_frames_received", "Frames that came from the source.", lambda one: one.received),
    ("stream_frames_processed", "Frames that went all the way.", lambda one: one.processed),
    (
        "stream_frames_damaged",
        "Frames that went all the way although their image was not whole.",
        lambda s: s.damaged,
    ),
    ("stream_frames_skipped", "Frames left out on request (max_fps), not received.", lambda one: one.skipped_frames),
    ("stream_packets_damaged", "Packets that did not decode.", lambda one: one.damaged_packets),
    ("stream_packets_lost", "Packets that the network lost.", lambda one: one.lost_packets),
    ("stream_timestamps_repaired", "Frames whose timestamp was put right.", lambda one: one.repaired_timestamps),
    ("stream_reconnects", "How often the stream came back.", lambda one: one.reconnects),
    ("stream_stalls", "How often the stream fell silent.", lambda one: one.stalls),
    ("stream_objects", "Objects on processed frames.", lambda one: one.objects),
    (
        "stream_read_cpu_seconds",
        "CPU time of reading and decoding, in the thread of the source.",
        lambda s: s.read_cpu_ns / 1e9,
    ),
)
_ELEMENT_COUNTERS: tuple[tuple[str, str, Callable[[ElementStats], float]], ...] = (
    ("element_calls", "Batches that were given to the step.", lambda one: one.calls),
    ("element_frames", "Frames that were given to the step.", lambda one: one.frames),
    ("element_busy_seconds", "Time in which the step worked.", lambda one: one.busy_ns / 1e9),
    ("element_cpu_seconds", "CPU time of the step in the pipeline's threads.", lambda one: one.cpu_ns / 1e9),
    (
        "element_result_wait_seconds",
        "Time in which results of the step were waited for.",
        lambda s: s.result_wait_ns / 1e9,
    ),
)
_LINK_GAUGES: tuple[tuple[str, str, Callable[[LinkView], float]], ...] = (
    ("link_depth", "Items that wait: frames behind a source, batches elsewhere.", lambda one: one.depth),
    ("link_capacity", "Items that can wait.", lambda one: one.capacity),
    (
        "link_oldest_age_seconds",
        "Time since the oldest waiting frame left its source.",
        lambda s: s.oldest_age_ns / 1e9,
    ),
)


def metrics_text(view: RunView | None, *, is_ready: bool) -> str:
    """All metrics of a run; those of the process only before it has begun."""
    exposition = Exposition()
    exposition.gauge("build_info", "Always 1; the labels say what runs.", [(_build_labels(), 1)])
    exposition.gauge("ready", "1 when every stream is live or has ended well.", [({}, int(is_ready))])
    _add_process(exposition, Process.now())
    if view is not None:
        _add_run(exposition, view)
        _add_streams(exposition, view)
        _add_elements(exposition, view)
        _add_links(exposition, view)
    return exposition.text()


def _build_labels() -> Labels:
    return {"version": _VERSION, "python": platform.python_version()}


def _add_process(to: Exposition, process: Process) -> None:
    to.counter("process_cpu_seconds", "CPU time of the process.", [({}, process.cpu_seconds)])
    to.gauge("process_threads", "Threads of the process.", [({}, process.threads)])
    if process.resident_bytes is not None:
        to.gauge("process_resident_memory_bytes", "Memory that the process holds.", [({}, process.resident_bytes)])
    if process.open_files is not None:
        to.gauge("process_open_files", "Files and sockets that the process holds.", [({}, process.open_files)])


def _add_run(to: Exposition, view: RunView) -> None:
    to.gauge("pipeline_running", "1 while the pipeline runs.", [({"pipeline": view.pipeline}, int(view.is_running))])
    started = time.time() - view.running_ns / 1e9
    to.gauge("pipeline_start_time_seconds", "When the run began, since the epoch.", [({}, started)])
    to.gauge("overloaded", "1 while live streams drop frames for want of time.", [({}, int(view.overloaded))])


def _add_streams(to: Exposition, view: RunView) -> None:
    to.gauge("stream_state", "1 for the state that the stream is in.", _states(view))
    for name, meaning, value in _STREAM_COUNTERS:
        to.counter(name, meaning, [({"stream": one.stream.name}, value(one)) for one in view.streams])
    to.counter("stream_frames_dropped", "Frames that were received and not processed.", _drops(view))
    overloaded = [({"stream": stream.name}, int(rates.overloaded)) for stream, rates in view.rates.items()]
    to.gauge("stream_overloaded", "1 while the stream drops frames for want of time.", overloaded)
    latencies = [({"stream": one.stream.name}, one.latency) for one in view.streams]
    to.histogram("stream_latency_seconds", "Time of frames from the source to the end of the pipeline.", latencies)


def _states(view: RunView) -> Iterator[Sample]:
    for one in view.streams:
        for state in StreamState:
            yield {"stream": one.stream.name, "state": str(state)}, int(one.state is state)


def _drops(view: RunView) -> Iterator[Sample]:
    """Each reason, from the start on, so that rates are right from the first drop."""
    for one in view.streams:
        for reason in dict.fromkeys([*map(str, DropReason), *map(str, list(one.dropped))]):
            yield {"stream": one.stream.name, "reason": reason}, one.dropped[reason]


def _add_elements(to: Exposition, view: RunView) -> None:
    for name, meaning, value in _ELEMENT_COUNTERS:
        to.counter(name, meaning, [({"element": one.element_id}, value(one)) for one in view.elements])
    latencies = [({"element": one.element_id}, one.latency) for one in view.elements]
    to.histogram("element_latency_seconds", "Time from when a batch is given to a step to its result.", latencies)
    models = view.models.items()
    runs: list[Sample] = [({"element": name}, one.runs) for name, one in models]
    to.counter("engine_runs", "How often a step ran its model.", runs)
    saved: list[Sample] = [({"element": name}, one.saved) for name, one in models]
    to.counter("engine_saved_runs", "How often a step knew the answer without its model.", saved)


def _add_links(to: Exposition, view: RunView) -> None:
    for name, meaning, value in _LINK_GAUGES:
        to.gauge(name, meaning, [(_link_labels(one), value(one)) for one in view.links])
    to.counter("link_sent", "Items that were put in.", [(_link_labels(one), one.statistics.sent) for one in view.links])


def _link_labels(link: LinkView) -> Labels:
    return {"link": link.name, "stream": "" if link.stream is None else link.stream.name}
