"""What is counted while a pipeline runs: per stream, element, link and destination, and of its telemetry.

A counter is one line here: a field of `StreamStats`, `ElementStats`, `LinkStats`, `DeliveryStats` or `TelemetryStats`
that is declared with `_counter`.
The report, the status, the metrics and `Pipeline.status` iterate over these fields.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import accumulate
from threading import Lock
from typing import Any

from sightline.graph import StreamState
from sightline.media import Batch, Objects, Stream, TimeSource

_STEPS_PER_OCTAVE = 8
_MS = 1_000_000

LIMITS_NS = tuple(round(ms * _MS) for ms in (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000))
"""Durations at which a histogram counts exactly how many were not longer."""


class Histogram:
    """Durations in buckets that grow by an eighth of an octave: percentiles within 9 %, memory that does not grow.

    One thread adds, any thread may read.
    """

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self._between = [0] * (len(LIMITS_NS) + 1)
        self.count = 0
        self.total_ns = 0
        self.maximum_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count one duration."""
        self._between[bisect_left(LIMITS_NS, duration_ns)] += 1
        self.total_ns += duration_ns
        bucket = int(math.log2(max(duration_ns, 1)) * _STEPS_PER_OCTAVE)
        self._buckets[bucket] += 1
        self.count += 1
        self.maximum_ns = max(self.maximum_ns, duration_ns)

    def percentile_ns(self, percent: float) -> int:
        """The duration that `percent` of those counted do not exceed; 0 when nothing was counted."""
        buckets = dict(self._buckets)
        wanted, seen = sum(buckets.values()) * percent / 100, 0
        for bucket in sorted(buckets):
            seen += buckets[bucket]
            if seen >= wanted:
                return min(self.maximum_ns, round(2 ** ((bucket + 1) / _STEPS_PER_OCTAVE)))
        return self.maximum_ns

    def copy(self) -> Histogram:
        """What is counted now, which does not change any more."""
        return self.since(Histogram())

    def since(self, earlier: Histogram) -> Histogram:
        """What was counted after `earlier` was copied from this one; its maximum is that of its largest bucket."""
        new = Histogram()
        buckets = Counter(dict(self._buckets))
        buckets.subtract(earlier._buckets)
        new._buckets = +buckets
        new._between = [now - then for now, then in zip(list(self._between), earlier._between, strict=True)]
        new.count = sum(new._buckets.values())
        new.total_ns = self.total_ns - earlier.total_ns
        largest = max(new._buckets, default=None)
        new.maximum_ns = 0 if largest is None else min(self.maximum_ns, round(2 ** ((largest + 1) / _STEPS_PER_OCTAVE)))
        return new

    def add_all(self, other: Histogram) -> None:
        """Count what another one has counted, too."""
        self._buckets.update(dict(other._buckets))
        self._between = [own + its for own, its in zip(self._between, list(other._between), strict=True)]
        self.count += other.count
        self.total_ns += other.total_ns
        self.maximum_ns = max(self.maximum_ns, other.maximum_ns)

    def cumulative(self) -> list[int]:
        """How many were not longer than each of LIMITS_NS, and how many there are."""
        return list(accumulate(list(self._between)))


class DropReason(StrEnum):
    """Why a frame was dropped: the pipeline could not keep up with a live stream, the image was damaged and the source
    leaves such images out, the run was stopped, the GPU that worked on it failed and the stream moved to another, the
    process that worked on it has failed, or a step failed on it and the change that had brought the step was reverted.
    """

    OVERLOADED = "overloaded"
    DAMAGED = "damaged"
    STOPPED = "stopped"
    GPU_LOST = "gpu lost"
    WORKER_LOST = "worker lost"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class CounterInfo:
    """How a counter is published: `field` of the stats is `key` in JSON and, when it has a `metric`, that metric, which
    `meaning` explains. A field that ends in `_ns` is published in seconds. `label` names what a counter with several
    values counts by, and `values` are those that are published from the start.
    """

    field: str
    key: str
    metric: str | None
    meaning: str
    label: str | None
    values: tuple[str, ...]
    from_reader: bool

    def value(self, stats: Stats) -> int | float | dict[str, int]:
        """Return the present value."""
        value = getattr(stats, self.field)
        if self.label is not None:
            return {str(name): count for name, count in value.copy().items()}
        return round(value / 1e9, 6) if self.field.endswith("_ns") else int(value)


def _counter(
    metric: str | None = None,
    meaning: str = "",
    *,
    key: str | None = None,
    label: str | None = None,
    values: Sequence[str] = (),
    from_reader: bool = False,
) -> Any:
    """A field that counts; see `CounterInfo`. `from_reader` counters are read from the attribute of the same name of
    the source's reader.
    """
    options = (key, metric, meaning, label, tuple(values), from_reader)
    metadata = {"counter": options}
    return field(default=0, metadata=metadata) if label is None else field(default_factory=Counter, metadata=metadata)


@dataclass(slots=True, eq=False)
class LinkStats:
    """Counts of one link; times are summed over all calls."""

    sent: int = _counter("link_sent", "Items that were sent.")
    received: int = 0
    dropped: int = _counter()
    peak_depth: int = _counter()
    send_wait_ns: int = _counter()
    receive_wait_ns: int = _counter()


@dataclass(slots=True)
class LabelCount:
    """How often a class was seen: detections over all frames, and distinct tracks."""

    objects: int = 0
    tracks: int = 0


class _RecentIds:
    """Tells whether a track id is new, with bounded memory: ids only ever grow, and old ones do not come back."""

    _LIMIT = 4096

    def __init__(self) -> None:
        self._seen: dict[int, None] = {}

    def add(self, track_id: int) -> bool:
        if track_id in self._seen:
            return False
        self._seen[track_id] = None
        if len(self._seen) > self._LIMIT:
            for old in list(self._seen)[: self._LIMIT // 2]:
                del self._seen[old]
        return True


@dataclass(slots=True, eq=False)
class StreamStats:
    """Counts and state of one stream. Every frame received ends in exactly one counter: `processed`, `damaged` (also
    processed, but its image was not whole) or `dropped`, with the reason.

    `cause` is why a stream is in trouble now, and `next_attempt_ns` when it is tried again (monotonic); `error` is why
    it failed, or the trouble in which it ended. `present` has the number of objects by label on the newest processed
    frame, and `received_ns` is when the newest frame was received (monotonic).
    """

    stream: Stream
    state: StreamState = StreamState.CONNECTING
    state_since_ns: int | None = None
    cause: str | None = None
    next_attempt_ns: int | None = None
    received: int = _counter("stream_frames_received", "Frames received from the source.")
    processed: int = _counter("stream_frames_processed", "Frames processed completely.")
    dropped: Counter[str] = _counter(
        "stream_frames_dropped", "Frames received and not processed.", label="reason", values=tuple(DropReason)
    )
    damaged: int = _counter("stream_frames_damaged", "Frames processed whose image was not whole.")
    damaged_packets: int = _counter("stream_packets_damaged", "Packets that did not decode.", from_reader=True)
    lost_packets: int = _counter("stream_packets_lost", "Packets that the network lost.", from_reader=True)
    skipped_frames: int = _counter(
        "stream_frames_skipped", "Frames left out on request (max_fps), not received.", key="skipped", from_reader=True
    )
    repaired_timestamps: int = _counter(
        "stream_timestamps_repaired", "Frames whose timestamp was repaired.", from_reader=True
    )
    reconnects: int = _counter("stream_reconnects", "How often the stream was lost and came back.")
    stalls: int = _counter("stream_stalls", "How often the stream stalled.")
    read_cpu_ns: int = _counter("stream_read_cpu_seconds", "CPU time of reading and decoding, in the source's thread.")
    objects: int = _counter("stream_objects", "Objects on processed frames.")
    codec: str | None = None
    decoder: str | None = None
    decoder_reason: str | None = None
    size_wh: tuple[int, int] | None = None
    time_source: TimeSource | None = None
    frame_count: int | None = None
    error: str | None = None
    labels: dict[str, LabelCount] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)
    position_ns: int = 0
    received_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    _is_closed: bool = False
    _lock: Lock = field(default_factory=Lock)
    _tracks: _RecentIds = field(default_factory=_RecentIds)

    def __getstate__(self) -> dict[str, Any]:
        """What another process gets: the counts as they are now, without the track ids that were seen."""
        kept = [one.name for one in fields(self) if one.name not in ("_lock", "_tracks")]
        state = {name: getattr(self, name) for name in kept}
        labels = {label: replace(count) for label, count in self.labels.copy().items()}
        return {**state, "labels": labels, "dropped": self.dropped.copy(), "latency": self.latency.copy()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._lock, self._tracks = Lock(), _RecentIds()

    @property
    def decoded_by(self) -> str | None:
        """What decodes it, with the reason when the run's GPU does not, or with what is put right: `nvdec`,
        `cpu (the reason)`.
        """
        return self.decoder if self.decoder_reason is None else f"{self.decoder} ({self.decoder_reason})"

    @property
    def finished(self) -> int:
        """Frames that were processed completely, damaged ones included."""
        return self.processed + self.damaged

    def receive(self) -> None:
        """Count a frame that the source delivered; from one thread."""
        with self._lock:
            if not self._is_closed:
                self.received += 1

    def finish(self, *, damaged: bool, latency_ns: int) -> None:
        """Count a frame that was processed completely; from one thread."""
        if damaged:
            self.damaged += 1
        else:
            self.processed += 1
        self.latency.add(latency_ns)

    def drop(self, reason: str, count: int = 1) -> None:
        """Count frames that were received and not processed; from any thread."""
        with self._lock:
            if not self._is_closed:
                self.dropped[reason] += count

    def close(self) -> None:
        """Count no more frames: the run is over and its report is final, whatever the source still delivers. A frame
        that has not ended in a counter counts as not received.
        """
        with self._lock:
            self._is_closed = True
            self.received = self.finished + self.dropped.total()

    def see(self, label: str, track_id: int) -> None:
        """Count one object on a processed frame."""
        counted = self.labels.get(label)
        if counted is None:
            counted = self.labels[label] = LabelCount()
        counted.objects += 1
        self.objects += 1
        if track_id >= 0 and self._tracks.add(track_id):
            counted.tracks += 1


@dataclass(slots=True, eq=False)
class ElementStats:
    """Counts of one element: how often it ran, on how many frames, and for how long.

    `latency` is the time from when a batch is given to the element until its result is there; for pending results this
    includes the time that they wait for each other. `failures` counts the errors after which the run went on, by type;
    `last_failure` is the last one that was skipped.
    """

    element_id: str
    name: str
    calls: int = _counter("element_calls", "Batches given to the element.")
    frames: int = _counter("element_frames", "Frames given to the element.")
    busy_ns: int = _counter("element_busy_seconds", "Time in which the element worked.")
    cpu_ns: int = _counter("element_cpu_seconds", "CPU time of the element in the pipeline's threads.")
    result_wait_ns: int = _counter("element_result_wait_seconds", "Time spent waiting for results of the element.")
    failures: Counter[str] = _counter(label="error")
    last_failure: str = ""
    latency: Histogram = field(default_factory=Histogram)


class DeliveryState(StrEnum):
    """How a destination is: `waiting` before the first delivery, `connected`, `lost` (it cannot be reached or does not
    answer), or `refused` (it does not let us in). It is tried again in every case.
    """

    WAITING = "waiting"
    CONNECTED = "connected"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(slots=True, eq=False)
class DeliveryStats:
    """Counts and state of one destination. Every record `found` in the outbox at the start or `put` there ends in one
    counter: `delivered`, `refused` (set aside), or `dropped`, with the reason; the others wait.

    `error` is why the destination is in trouble now; `oldest_ns` is when the oldest record that waits was made.
    """

    destination: str
    address: str
    state: DeliveryState = DeliveryState.WAITING
    error: str | None = None
    oldest_ns: int | None = None
    found: int = _counter("delivery_records_found", "Records that earlier runs left in the outbox.")
    put: int = _counter("delivery_records", "Records made for the destination.")
    delivered: int = _counter("delivery_records_delivered", "Records that the destination has acknowledged.")
    refused: int = _counter("delivery_records_refused", "Records that the destination refused; they are set aside.")
    dropped: Counter[str] = _counter(
        "delivery_records_dropped", "Records that were lost.", label="reason", values=("full", "age", "disk")
    )
    retries: int = _counter("delivery_retries", "Deliveries that failed and were tried again.")

    @property
    def depth(self) -> int:
        """How many records wait."""
        return max(self.found + self.put - self.delivered - self.refused - self.dropped.total(), 0)


@dataclass(slots=True, eq=False)
class TelemetryStats:
    """Counts of what was sent to a collector of OpenTelemetry."""

    traces: int = _counter("telemetry_traces", "Frames that were traced.")
    spans: int = _counter("telemetry_spans_sent", "Spans that the collector has taken.")
    spans_dropped: int = _counter("telemetry_spans_dropped", "Spans that the collector did not take.")
    exports: int = _counter("telemetry_metric_exports", "Exports of metrics that the collector has taken.")
    exports_failed: int = _counter(
        "telemetry_metric_exports_failed", "Exports of metrics that the collector did not take."
    )


Stats = StreamStats | ElementStats | LinkStats | DeliveryStats | TelemetryStats

_COUNTERS = {
    of: tuple(
        CounterInfo(one.name, key or one.name.replace("_ns", "_seconds"), *options)
        for one in fields(of)
        if "counter" in one.metadata
        for key, *options in [one.metadata["counter"]]
    )
    for of in (StreamStats, ElementStats, LinkStats, DeliveryStats, TelemetryStats)
}


def counters(of: type[Stats]) -> tuple[CounterInfo, ...]:
    """Return the counters of a class of stats, in the order of its fields."""
    return _COUNTERS[of]


def snapshot(stats: Stats) -> dict[str, Any]:
    """Return what was counted as plain data: numbers, times in seconds, and numbers by reason."""
    return {info.key: info.value(stats) for info in counters(type(stats))}


def add_up(parts: Sequence[ElementStats]) -> ElementStats:
    """Return the stats of one element that runs in several places: the stats themselves when there is one place, else
    a sum at this moment.
    """
    if len(parts) == 1:
        return parts[0]
    whole = ElementStats(parts[0].element_id, parts[0].name)
    for part in parts:
        whole.latency.add_all(part.latency)
        whole.last_failure = part.last_failure or whole.last_failure
        for info in counters(ElementStats):
            value = getattr(part, info.field)
            total = getattr(whole, info.field) + (value if info.label is None else value.copy())
            setattr(whole, info.field, total)
    return whole


def count_objects(batch: Batch, statistics: list[StreamStats]) -> None:
    """Add what was found on a processed batch to the statistics of its frames' streams."""
    objects: Objects = batch.objects
    found: list[dict[str, int]] = [{} for _ in statistics]
    if len(objects):
        rows = zip(objects.frame.tolist(), objects.labels(), objects.track_id.tolist(), strict=True)
        for frame, label, track_id in rows:
            statistics[frame].see(label, track_id)
            found[frame][label] = found[frame].get(label, 0) + 1
    for stats, present in zip(statistics, found, strict=True):
        stats.present = present
