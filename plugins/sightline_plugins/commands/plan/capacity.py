"""How many streams fit, by what was measured: processor and memory, on this machine and on others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sightline_plugins.commands.plan.measured import Measured

THREAD_BOUND = 0.85
"""A run that used less of all cores, as fast as it could, waited for something else than the processor."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a pipeline takes on a machine, as measured: CPU milliseconds a frame for decoding, by stream, and for all
    else; the share of the cores that it can use; and memory, without streams and for each of them.

    `rates` are frames a second of each stream. `memory_bytes` is what was free for it, with what it held itself.
    """

    processor: str
    cores: int
    memory_bytes: int
    rates: Mapping[str, float]
    decode_ms: Mapping[str, float]
    steps_ms: float
    usable: float
    base_bytes: int
    stream_bytes: int
    bottleneck: str

    @classmethod
    def of(cls, few: Measured, many: Measured, *, processor: str, memory_bytes: int) -> Figures:
        """From a run with each stream once and one with as many as keep the machine busy."""
        read_ms = statistics.fmean(many.decode_ms.values())
        grown = many.resident_bytes - few.resident_bytes
        stream_bytes = max(0, grown // max(1, many.streams - few.streams))
        return cls(
            processor=processor,
            cores=many.cores,
            memory_bytes=memory_bytes,
            rates={name: many.rates[name] for name in few.rates if name in many.rates},
            decode_ms={name: many.decode_ms[name] for name in few.decode_ms},
            steps_ms=max(0.0, many.cpu_ms - read_ms),
            usable=min(1.0, many.used),
            base_bytes=max(0, few.resident_bytes - few.streams * stream_bytes),
            stream_bytes=stream_bytes,
            bottleneck=many.measurement.bottleneck(),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @property
    def is_bound_by_a_thread(self) -> bool:
        """Whether cores stay idle because one thread has no more time, or sources are slow."""
        return self.usable < THREAD_BOUND

    def cpu_ms_a_second(self, *, fps: float | None = None) -> float:
        """CPU milliseconds that one stream, the mean of all, takes in a second; `fps` analyses no more frames than that
        (`max_fps`), but all are decoded.
        """
        costs = [
            rate * self.decode_ms[name] + min(rate, fps or rate) * self.steps_ms for name, rate in self.rates.items()
        ]
        return statistics.fmean(costs)

    def streams_by_processor(self, *, fps: float | None = None, cores: float | None = None) -> float:
        """How many streams the cores can do at most; with a fraction."""
        return 1000 * self.usable * (self.cores if cores is None else cores) / self.cpu_ms_a_second(fps=fps)

    def streams_by_memory(self, memory_bytes: int | None = None) -> float:
        """How many streams the memory has room for; without end where they take none."""
        room = (self.memory_bytes if memory_bytes is None else memory_bytes) - self.base_bytes
        return max(0.0, room / self.stream_bytes) if self.stream_bytes else math.inf

    def streams(
        self,
        *,
        headroom: float = 0.0,
        cores: float | None = None,
        memory_bytes: int | None = None,
    ) -> int:
        """How many streams fit when that share of processor and memory stays free, here or on another machine."""
        most = min(self.streams_by_processor(cores=cores), self.streams_by_memory(memory_bytes))
        return math.floor((1 - headroom) * most + 1e-9)

    def runs_out(self) -> str:
        """What is short first."""
        return "memory" if self.streams_by_memory() < self.streams_by_processor() else "the processor"
