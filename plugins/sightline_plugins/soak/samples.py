"""What a process holds at one moment, and how long frames took since the moment before."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
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
    """Whether this system tells what a process holds (Linux)."""
    return sys.platform == "linux" and (_PROCESS / "statm").exists()


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample, `hours` after the start. Latencies are of the frames, of all streams, since the sample before; None
    when there were none. Memory is what is resident. `frames` went all the way since the start, `dropped` did not.
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
    """Takes samples of this process and of a run in it; one thread."""

    def __init__(self) -> None:
        self._before: Mapping[Stream, Histogram] = {}

    def sample(self, view: RunView) -> Sample:
        """What is held now."""
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
    """The percentile of the stream that is worst off."""
    return max((one.percentile_ns(percent) / _MS for one in histograms), default=None)
