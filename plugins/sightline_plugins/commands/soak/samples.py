"""Sample a process, and judge whether anything grows."""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.media import Stream
from sightline.runtime.stats.counters import Histogram
from sightline.runtime.stats.snapshot import RunView

_MIB = 2**20
_MS = 1e6
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROCESS = Path("/proc/self")


def can_sample() -> bool:
    """Whether this system reports the resources of a process (Linux)."""
    return sys.platform == "linux" and (_PROCESS / "statm").exists()


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample, `hours` after the start.

    Latencies are of the frames of all streams since the sample before, None without frames. Memory is the resident set.
    `frames` and `dropped` count finished and dropped frames since the start.
    """

    hours: float
    memory_mib: float
    threads: int
    files: int
    frames: int
    dropped: int
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    latency_worst_ms: float | None


class Sampler:
    """Samples this process and the run in it; used by one thread."""

    def __init__(self) -> None:
        self._before: Mapping[Stream, Histogram] = {}

    def sample(self, view: RunView) -> Sample:
        """Take a sample."""
        now = {stream.stream: stream.latency.copy() for stream in view.streams}
        new = [one.since(self._before.get(stream, Histogram())) for stream, one in now.items()]
        self._before = now
        new = [one for one in new if one.count]
        return Sample(
            hours=view.running_ns / 3.6e12,
            memory_mib=int((_PROCESS / "statm").read_text().split()[1]) * _PAGE_BYTES / _MIB,
            threads=threading.active_count(),
            files=sum(1 for _ in (_PROCESS / "fd").iterdir()) - 1,  # one of them is the listing itself
            frames=sum(stream.finished for stream in view.streams),
            dropped=sum(sum(list(stream.dropped.values())) for stream in view.streams),
            latency_p50_ms=_worst_percentile_ms(new, 50),
            latency_p95_ms=_worst_percentile_ms(new, 95),
            latency_worst_ms=max((one.maximum_ns / _MS for one in new), default=None),
        )


def _worst_percentile_ms(histograms: list[Histogram], percent: float) -> float | None:
    """The highest percentile of all streams."""
    return max((one.percentile_ns(percent) / _MS for one in histograms), default=None)


WARM_UP = 0.25
"""Share of a run, at its beginning, that is not judged: caches fill, and allocators find their sizes."""
WARM_UP_HOURS = 0.25
"""Longest warm-up."""
LEAST_WARM_UP_HOURS = 1 / 60
"""Shortest warm-up, unless that is more than half of the run."""
FEWEST_SAMPLES = 5
"""Minimum number of samples for a slope."""
MEMORY_MIB_AN_HOUR = 1.0
SHORT_MEMORY_MIB = 5.0
"""Allowed growth of memory in runs of less than an hour, whose slope is not certain to 1 MiB an hour."""
LATENCY_GROWTH, LATENCY_MS = 0.2, 10.0
"""Allowed growth of the 95th percentile over the run: that share of its median, or that many milliseconds."""
_MOST_PAIRED = 1_000


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a value: its slope an hour, and its growth over the judged time, which must be below `allowed`."""

    what: str
    unit: str
    median: float
    slope_an_hour: float
    growth: float
    allowed: float

    @property
    def grew(self) -> bool:
        """Whether it grew by as much as `allowed` or more."""
        return self.growth >= self.allowed


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes of all pairs of points (Theil 1950, Sen 1968): up to 29 % of outliers do not move it.

    Of more than a thousand points every n-th is taken. 0 when there are fewer than two.
    """
    step = max(1, -(-len(times) // _MOST_PAIRED))
    points = list(zip(times[::step], values[::step], strict=True))
    pairs = itertools.combinations(points, 2)
    slopes = [(later - value) / (after - time) for (time, value), (after, later) in pairs if after > time]
    return statistics.median(slopes) if slopes else 0.0


def after_warm_up(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples after the warm-up."""
    if not samples:
        return samples
    hours = samples[-1].hours
    begin = min(max(hours * WARM_UP, min(LEAST_WARM_UP_HOURS, hours / 2)), WARM_UP_HOURS)
    return [sample for sample in samples if sample.hours > begin]


def judge(samples: Sequence[Sample]) -> tuple[Judged, ...]:
    """Judge memory, threads, files and latency after the warm-up.

    Threads and files must be flat: less than one more by the slope over the whole time. Raises ValueError when there
    are too few samples.
    """
    samples = after_warm_up(samples)
    if len(samples) < FEWEST_SAMPLES:
        raise ValueError(f"{len(samples)} samples after warming up, {FEWEST_SAMPLES} are needed: let it run longer")
    times = [sample.hours for sample in samples]
    hours = times[-1] - times[0]
    memory = MEMORY_MIB_AN_HOUR * hours if hours >= 1 else SHORT_MEMORY_MIB
    judged = [
        _judged("memory", "MiB", times, [sample.memory_mib for sample in samples], allowed=memory),
        _judged("threads", "threads", times, [float(sample.threads) for sample in samples], allowed=1.0),
        _judged("open files", "files", times, [float(sample.files) for sample in samples], allowed=1.0),
    ]
    timed = [(sample.hours, sample.latency_p95_ms) for sample in samples if sample.latency_p95_ms is not None]
    latencies = [latency for _, latency in timed]
    if latencies:
        allowed = max(statistics.median(latencies) * LATENCY_GROWTH, LATENCY_MS)
        judged.append(_judged("latency p95", "ms", [time for time, _ in timed], latencies, allowed=allowed))
    return tuple(judged)


def _judged(what: str, unit: str, times: Sequence[float], values: Sequence[float], *, allowed: float) -> Judged:
    per_hour = slope(times, values)
    growth = per_hour * (times[-1] - times[0])
    return Judged(what, unit, statistics.median(values), per_hour, growth, allowed)
