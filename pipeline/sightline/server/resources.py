"""What this process and the machine use: processor time and memory, as Linux tells them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from sightline.devices import Device
from sightline.runtime.stats.metrics import Process

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")
_SHORTEST_SECONDS = 1.0
_WAITING = slice(3, 5)
"""The columns of a line of /proc/stat in which a core waits: idle, and waiting for a disk."""
_COUNTED = slice(0, 8)
"""The columns that add up to all of the time; those of guests are in them already."""


@dataclass(frozen=True, slots=True)
class Core:
    """The time of a core since the machine was started, in seconds: busy, and in all."""

    busy: float
    whole: float


@dataclass(frozen=True, slots=True)
class Resources:
    """What was used up to a moment, and the memory in use then; None and nothing where the machine does not tell."""

    at: float
    process_cpu_seconds: float
    process_bytes: int | None
    cores: tuple[Core, ...]
    used_bytes: int | None
    total_bytes: int | None

    @classmethod
    def now(cls) -> Resources:
        """As it is now; takes some tenths of a millisecond."""
        process, memory = Process.now(), _memory()
        total, free = memory.get("MemTotal"), memory.get("MemAvailable")
        used = None if total is None or free is None else total - free
        return cls(time.monotonic(), process.cpu_seconds, process.resident_bytes, _cores(), used, total)

    def cpu_since(self, before: Resources) -> dict[str, float]:
        """Cores in use since an earlier moment: by this `process`, and in the whole `machine`."""
        seconds = max(self.at - before.at, 1e-9)
        used = {"process": max(0.0, self.process_cpu_seconds - before.process_cpu_seconds) / seconds}
        shares = self.shares_since(before)
        return used if shares is None else {**used, "machine": sum(shares)}

    def shares_since(self, before: Resources) -> list[float] | None:
        """How busy each core was since an earlier moment, 0 to 1; None where that is unknown."""
        if not self.cores or len(self.cores) != len(before.cores):
            return None
        pairs = [
            (new.busy - old.busy, new.whole - old.whole) for new, old in zip(self.cores, before.cores, strict=True)
        ]
        return [min(1.0, max(0.0, busy / whole)) if whole > 0 else 0.0 for busy, whole in pairs]

    def memory(self) -> dict[str, int]:
        """Bytes in use: by this `process`, and in the whole `machine`."""
        known = {"process": self.process_bytes, "machine": self.used_bytes}
        return {name: size for name, size in known.items() if size is not None}


class CpuMeter:
    """Measures between those who ask: over at least a second, however many do, and at first since it was made."""

    def __init__(self, read: Callable[[], Resources] = Resources.now) -> None:
        self._read = read
        self._lock = Lock()
        self._before = self._latest = read()

    def read(self) -> tuple[Resources, Resources]:
        """Return two moments to compare, the later one first. From any thread."""
        with self._lock:
            now = self._read()
            if now.at - self._latest.at >= _SHORTEST_SECONDS:
                self._before, self._latest = self._latest, now
            elif self._latest is self._before:
                return now, self._before
            return self._latest, self._before


def usable_cores() -> int:
    """Cores that this process may use."""
    return Device().cores


def _cores() -> tuple[Core, ...]:
    try:
        lines = (_PROC / "stat").read_text().splitlines()
    except OSError:
        return ()
    rows = [line.split() for line in lines if line.startswith("cpu") and line[3].isdigit()]
    return tuple(_core([int(one) / _TICK for one in row[1:]]) for row in rows)


def _core(times: list[float]) -> Core:
    whole = sum(times[_COUNTED])
    return Core(whole - sum(times[_WAITING]), whole)


def _memory() -> dict[str, int]:
    """The sizes of /proc/meminfo in bytes."""
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
    except OSError:
        return {}
    rows = [line.split() for line in lines]
    return {row[0].rstrip(":"): 1024 * int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
