"""What is counted while a pipeline runs: per stream, per element, and where the time goes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Lock

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
    """One stream. Every frame received ends in exactly one counter: `processed`, `damaged` (it went all the way too,
    but its image was not whole) or `dropped`, with the reason.

    `cause` is why a stream is in trouble now, and `next_attempt_ns` when it is tried again (monotonic); `error` is why
    it failed, or the trouble in which it ended.
    """

    stream: Stream
    state: StreamState = StreamState.CONNECTING
    state_since_ns: int | None = None
    cause: str | None = None
    next_attempt_ns: int | None = None
    received: int = 0
    processed: int = 0
    damaged: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    damaged_packets: int = 0
    skipped_frames: int = 0
    lost_packets: int = 0
    repaired_timestamps: int = 0
    codec: str | None = None
    decoder: str | None = None
    decoder_reason: str | None = None
    size_wh: tuple[int, int] | None = None
    time_source: TimeSource | None = None
    frame_count: int | None = None
    reconnects: int = 0
    stalls: int = 0
    error: str | None = None
    objects: int = 0
    labels: dict[str, LabelCount] = field(default_factory=dict)
    position_ns: int = 0
    started_ns: int | None = None
    ended_ns: int | None = None
    read_cpu_ns: int = 0
    latency: Histogram = field(default_factory=Histogram)
    _is_left: bool = False
    _lock: Lock = field(default_factory=Lock)
    _tracks: _RecentIds = field(default_factory=_RecentIds)

    @property
    def decoded_by(self) -> str | None:
        """What decodes it, with the reason where the run's GPU does not: `nvdec`, `cpu (the reason)`."""
        return self.decoder if self.decoder_reason is None else f"{self.decoder} ({self.decoder_reason})"

    @property
    def finished(self) -> int:
        """Frames that went all the way, damaged ones among them."""
        return self.processed + self.damaged

    def receive(self) -> None:
        """Count a frame that came; from one thread."""
        with self._lock:
            if not self._is_left:
                self.received += 1

    def finish(self, *, damaged: bool, latency_ns: int) -> None:
        """Count a frame that went all the way; from one thread."""
        if damaged:
            self.damaged += 1
        else:
            self.processed += 1
        self.latency.add(latency_ns)

    def drop(self, reason: str, count: int = 1) -> None:
        """Count frames that were received and not processed; from any thread."""
        with self._lock:
            if not self._is_left:
                self.dropped[reason] += count

    def leave(self) -> None:
        """Count no more frames: the run is over, and its report stands, whatever the input still hands out. A frame
        that has not ended in a counter was not received.
        """
        with self._lock:
            self._is_left = True
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
    """One element: how often it ran, on how many frames, and for how long. `latency` is the time from when a batch is
    given to it to when its result is there; of pending results, with what they wait for each other.
    """

    element_id: str
    name: str
    calls: int = 0
    frames: int = 0
    busy_ns: int = 0
    cpu_ns: int = 0
    result_wait_ns: int = 0
    latency: Histogram = field(default_factory=Histogram)
    failures: Counter[str] = field(default_factory=Counter)
    """How often it failed and was skipped, by the type of the error."""


def added_up(parts: Sequence[ElementStats]) -> ElementStats:
    """What was counted of one element in several places: itself where it is one, else a sum that does not go on."""
    if len(parts) == 1:
        return parts[0]
    whole = ElementStats(parts[0].element_id, parts[0].name)
    for part in parts:
        whole.calls += part.calls
        whole.frames += part.frames
        whole.busy_ns += part.busy_ns
        whole.cpu_ns += part.cpu_ns
        whole.result_wait_ns += part.result_wait_ns
        whole.latency.add_all(part.latency)
        whole.failures.update(dict(part.failures))
    return whole


def count_objects(batch: Batch, statistics: list[StreamStats]) -> None:
    """Add what was found on a processed batch to the statistics of its frames' streams."""
    objects: Objects = batch.objects
    if not len(objects):
        return
    rows = zip(objects.frame.tolist(), objects.labels(), objects.track_id.tolist(), strict=True)
    for frame, label, track_id in rows:
        statistics[frame].see(label, track_id)
