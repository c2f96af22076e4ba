"""The memory of one GPU that a run may have: all pools draw on it, and idle memory of one makes room for another.

Without it every pool may take what it likes up to its own limit, and the first to find the GPU full fails while others
keep memory that nobody uses. Engines, decoders and encoders allocate by themselves: the part of the memory that is
kept back is theirs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Protocol
from weakref import WeakSet

from sightline.errors import ConfigurationError

FRACTION_VARIABLE = "SIGHTLINE_GPU_MEMORY_FRACTION"
_FRACTION = 0.8
_MIB = 2**20


class Store(Protocol):
    """A pool, as its budget sees it."""

    @property
    def name(self) -> str:
        """What it is for, in messages."""
        ...

    @property
    def allocated_bytes(self) -> int:
        """How much memory it has, lent and idle."""
        ...

    @property
    def idle_bytes(self) -> int:
        """How much of that nobody holds."""
        ...

    def free_one(self) -> int:
        """Free the memory that nobody holds for longest; returns its size, 0 where all is held."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """How much of a GPU's memory Sightline has, in bytes."""

    gpu: str
    """`cuda:0`."""
    limit_bytes: int
    """The budget."""
    used_bytes: int
    """What all pools have, lent and idle."""
    idle_bytes: int
    """How much of that nobody holds."""
    peak_bytes: int
    """The most they had at once."""
    retries: int
    """How often the GPU had no memory left until idle memory was freed."""
    by_pool: Mapping[str, int] = field(default_factory=dict)
    """What the pools of each name have."""

    def to_json(self) -> dict[str, object]:
        """As plain data, for the report and the status."""
        return {
            "limit_bytes": self.limit_bytes,
            "used_bytes": self.used_bytes,
            "idle_bytes": self.idle_bytes,
            "peak_bytes": self.peak_bytes,
            "retries": self.retries,
            "by_pool": dict(self.by_pool),
        }


class Budget:
    """At most `limit_bytes` of one GPU's memory, for all pools of a run. From any thread.

    A pool takes before it allocates and gives back after it freed; what it keeps idle counts. Runs that open
    the GPU themselves have a budget each, of what was free when they began.
    """

    def __init__(self, gpu: str, *, limit_bytes: int) -> None:
        self.gpu = gpu
        self.limit_bytes = limit_bytes
        self._lock = RLock()  # a lease that the garbage collector ends may give back while this thread is here
        self._stores: WeakSet[Store] = WeakSet()
        self._used = self._peak = self._retries = 0

    def add(self, store: Store) -> None:
        """A pool draws on this budget from now on, as long as somebody holds it."""
        with self._lock:
            self._stores.add(store)

    def fits(self, size_bytes: int) -> bool:
        """Whether so much may be taken now."""
        return self._used + size_bytes <= self.limit_bytes

    def take(self, size_bytes: int) -> bool:
        """Take memory, if there is so much."""
        with self._lock:
            if not self.fits(size_bytes):
                return False
            self._used += size_bytes
            self._peak = max(self._peak, self._used)
            return True

    def give_back(self, size_bytes: int) -> None:
        """Memory was freed, or is lost with its GPU."""
        with self._lock:
            self._used -= size_bytes

    def make_room(self, size_bytes: int) -> bool:
        """Free idle memory of pools, most of it first, until so much fits; returns whether anything was freed."""
        freed = False
        while not self.fits(size_bytes):
            stores = sorted(self._all_stores(), key=lambda store: store.idle_bytes, reverse=True)
            if not any(store.free_one() for store in stores):
                return freed
            freed = True
        return freed

    def trim(self) -> int:
        """Free all memory that nobody holds, because the GPU has none left; returns how much it was."""
        freed = 0
        for store in self._all_stores():
            while size := store.free_one():
                freed += size
        if freed:
            with self._lock:
                self._retries += 1
        return freed

    def use(self) -> MemoryUse:
        """What is used now."""
        stores, by_pool = self._all_stores(), Counter[str]()
        for store in stores:
            by_pool[store.name] += store.allocated_bytes
        idle = sum(store.idle_bytes for store in stores)
        with self._lock:
            return MemoryUse(
                self.gpu,
                limit_bytes=self.limit_bytes,
                used_bytes=self._used,
                idle_bytes=idle,
                peak_bytes=self._peak,
                retries=self._retries,
                by_pool={name: size for name, size in by_pool.most_common() if size},
            )

    def described(self) -> str:
        """The budget and who has most of it, for messages."""
        use = self.use()
        holders = ", ".join(f"{name} {_mib(size)}" for name, size in list(use.by_pool.items())[:3])
        held = f"; most of it: {holders}" if holders else ""
        used, limit = _mib(use.used_bytes), _mib(use.limit_bytes)
        return f"{used} of the {limit} that Sightline may use of {self.gpu} are used{held}"

    def _all_stores(self) -> list[Store]:
        with self._lock:
            return list(self._stores)


def limit_of(free_bytes: int) -> int:
    """The budget where so much memory is free: four fifths of it, or the part that the environment names.

    Raises ConfigurationError when that is no part.
    """
    return int(free_bytes * memory_fraction())


def memory_fraction() -> float:
    """The part of a GPU's free memory that a process may use. Raises ConfigurationError when the environment names
    none.
    """
    given = os.environ.get(FRACTION_VARIABLE, "").strip()
    try:
        fraction = float(given) if given else _FRACTION
    except ValueError:
        fraction = 0.0
    if not 0.0 < fraction <= 1.0:
        raise ConfigurationError(
            f"{FRACTION_VARIABLE}={given}: the part of a GPU's free memory that Sightline may use is a number above 0 "
            f"and at most 1, such as {_FRACTION}"
        )
    return fraction


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:.0f} MiB" if size_bytes >= 10 * _MIB else f"{size_bytes / _MIB:.1f} MiB"
