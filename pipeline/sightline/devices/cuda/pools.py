"""Pools: bounded stores of CUDA and pinned memory, which all draw on the budget of their GPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Condition, RLock
from time import monotonic
from typing import TYPE_CHECKING

from sightline.devices.cuda.budget import Budget
from sightline.devices.cuda.memory import CudaBuffer, PinnedBuffer, when_allowed
from sightline.errors import GpuOutOfMemory
from sightline.media.device_array import DeviceEvent, DeviceStream

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice

ALIGNMENT_BYTES = 256
TIMEOUT_SECONDS = 10.0
"""How long somebody waits for memory to come back before that is an error."""
_GLANCE_SECONDS = 0.25


@dataclass(slots=True, eq=False)
class _Block:
    """Memory that nobody holds: free to use after these events, by their handles; `uses` keeps them. Who takes one out
    of a pool owns it.
    """

    address: int
    size_bytes: int
    after: Sequence[int]
    uses: Sequence[DeviceEvent]


class Pool:
    """Lends memory, at most `limit_bytes` and `limit_count` leases; who asks for more waits until some comes back.

    What was given back is lent again when somebody asks for about the same size: what the GPU is done with, else new
    memory while limit and budget allow, else what the GPU will be done with first. Where the budget is used up, idle
    memory of its other pools makes room; where the GPU has none left, all idle memory is freed, and it is asked once
    more. Idle memory is freed when nobody holds the pool or anything of it. From any thread.
    """

    def __init__(
        self,
        gpu: CudaDevice,
        *,
        name: str,
        budget: Budget,
        limit_bytes: int | None = None,
        limit_count: int | None = None,
        on_host: bool = False,
    ) -> None:
        self.gpu = gpu
        self.name = name
        self._budget = budget
        self._limit_bytes = budget.limit_bytes if limit_bytes is None else min(limit_bytes, budget.limit_bytes)
        self._limit_count = limit_count
        self._on_host = on_host
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._waiting = 0
        self._idle: dict[int, deque[_Block]] = {}
        self._lent = self._made = self._lent_bytes = self._idle_bytes = 0
        self._is_closed = False
        budget.add(self)

    def __del__(self) -> None:
        if not self.gpu.guard.is_closed:
            with self.gpu.guard.silent():
                self.close()

    @property
    def lent(self) -> int:
        """How many leases are held."""
        return self._lent

    @property
    def allocated_bytes(self) -> int:
        """How much memory it has, lent and idle."""
        return self._lent_bytes + self._idle_bytes

    @property
    def idle_bytes(self) -> int:
        """How much memory it keeps that nobody holds."""
        return self._idle_bytes

    def take_back(
        self, address: int, *, size_bytes: int, last_uses: Callable[[], Sequence[DeviceEvent]], is_open: bool
    ) -> None:
        """A lease ends, and its users are done after its last uses. When the GPU failed, the memory is lost.

        `is_open` says whether asking for the last uses calls CUDA.
        """
        block, guard = None, self.gpu.guard
        with guard.silent():
            if is_open:
                with guard(f"taking back memory of {self.name}"):
                    uses = last_uses()
            else:
                uses = last_uses()
            after = guard.retire(address, size_bytes, after=[use.handle for use in uses])
            block = _Block(address, size_bytes, after, uses)
        try:
            with guard.silent():
                self._enter(block, size_bytes)
        finally:
            self.gpu.let_go()

    def close(self) -> None:
        """Free what nobody holds, and what comes back, too."""
        self._is_closed = True
        while self.free_one():
            pass

    def free_one(self) -> int:
        """Free a block that nobody holds; returns its size, 0 where there is none."""
        block = self._any_idle()
        if block is None:
            return 0
        self._free(block)
        return block.size_bytes

    def _acquire(self, wanted_bytes: int, *, stream: DeviceStream | None, timeout_seconds: float) -> tuple[int, int]:
        """Address and size of memory that is ready to be used on that stream, or by the host when it is None."""
        self.gpu.graphs.check_may_lend(self.name)
        size = _rounded(wanted_bytes)
        if size > self._limit_bytes:
            limit = f"{self._limit_bytes / 2**20:.1f} MiB"
            raise GpuOutOfMemory(f"{self.name}: {size / 2**20:.1f} MiB are asked for, and {limit} is all that it lends")
        deadline = monotonic() + timeout_seconds
        self.gpu.hold()
        try:
            while True:
                self.gpu.guard.check()
                if (block := self._idle_of(size, stream)) is not None:
                    return self._awaited(block, stream), size
                if self._reserve(size):
                    return self._allocated(size), size
                if self.free_one() or self._budget.make_room(size):
                    continue
                if monotonic() >= deadline:
                    raise GpuOutOfMemory(self._all_held(size, timeout_seconds))
                self._wait_for_change(size, deadline)
        except BaseException:
            self.gpu.let_go()
            raise

    def _idle_of(self, size: int, stream: DeviceStream | None) -> _Block | None:
        """The block that is idle for longest, taken out; none when it is still in use and one more may be made."""
        with self._lock:
            blocks = self._idle.get(size)
            if not blocks:
                return None
            block = blocks.popleft()
            self._idle_bytes -= size
            self._lent += 1
            self._lent_bytes += size
        if not block.after:
            return block
        if _is_known_free(block, stream) or self._is_free(block):
            block.after = ()
            return block
        with self._lock:
            if self._may_grow(size):
                self._enter(block, size, at_front=True)
                return None
        return block

    def _is_free(self, block: _Block) -> bool:
        """Whether the GPU is done with a block that was taken out; one of which nobody knows is lost."""
        try:
            with self.gpu.guard(f"looking for memory of {self.name}") as driver:
                return all(driver.is_done(event) for event in block.after)
        except BaseException:
            self._enter(None, block.size_bytes)
            raise

    def _any_idle(self) -> _Block | None:
        with self._lock:
            for blocks in list(self._idle.values()):  # a lease that the garbage collector ends just now adds to them
                if blocks:
                    block = blocks.popleft()
                    self._idle_bytes -= block.size_bytes
                    self._made -= 1
                    return block
        return None

    def _may_grow(self, size: int) -> bool:
        by_count = self._limit_count is None or self._made < self._limit_count
        return by_count and self.allocated_bytes + size <= self._limit_bytes and self._budget.fits(size)

    def _reserve(self, size: int) -> bool:
        with self._lock:
            if not self._may_grow(size) or not self._budget.take(size):
                return False
            self._made += 1
            self._lent += 1
            self._lent_bytes += size
            return True

    def _allocated(self, size: int) -> int:
        try:
            try:
                return self._new(size)
            except GpuOutOfMemory:
                if not self._budget.trim():
                    raise
            return self._new(size)
        except GpuOutOfMemory as error:
            self._enter(None, size)
            raise GpuOutOfMemory(f"{error} ({self._budget.described()})") from error
        except BaseException:
            self._enter(None, size)
            raise

    def _new(self, size: int) -> int:
        with self.gpu.guard(f"allocating {size} bytes for {self.name}") as driver:
            return driver.allocate_pinned(size) if self._on_host else driver.allocate(size)

    def _awaited(self, block: _Block, stream: DeviceStream | None) -> int:
        if not block.after:
            return block.address
        try:
            with self.gpu.guard(f"lending memory of {self.name}", waits=True) as driver:
                for event in block.after:
                    if stream is not None:
                        driver.wait(stream.handle, event=event)
                    elif not driver.is_done(event):
                        driver.synchronize_event(event)
        except BaseException:
            self._enter(None, block.size_bytes)
            raise
        return block.address

    def _enter(self, block: _Block | None, size: int, *, at_front: bool = False) -> None:
        """One lease less; its memory is idle now, or lost."""
        keep = block is not None and not self._is_closed
        with self._lock:
            self._lent -= 1
            self._lent_bytes -= size
            if block is not None and keep:
                blocks = self._idle.get(size)
                if blocks is None:
                    blocks = self._idle[size] = deque()
                if at_front:
                    blocks.appendleft(block)
                else:
                    blocks.append(block)
                self._idle_bytes += size
            else:
                self._made -= 1
                if block is None:
                    self._budget.give_back(size)
            if self._waiting:
                self._changed.notify_all()
        if block is not None and not keep:
            self._free(block)

    def _free(self, block: _Block) -> None:
        when_allowed(partial(_freed, block, gpu=self.gpu, pool=self.name, budget=self._budget, on_host=self._on_host))

    def _wait_for_change(self, size: int, deadline: float) -> None:
        with self._changed:
            if self._may_grow(size) or any(self._idle.values()):
                return
            self._waiting += 1
            try:
                self._changed.wait(min(_GLANCE_SECONDS, max(deadline - monotonic(), 0.0)))
            finally:
                self._waiting -= 1

    def _all_held(self, size: int, timeout_seconds: float) -> str:
        limit = f"{self._limit_bytes / 2**20:.0f} MiB"
        if self._limit_count is not None:
            limit = f"{self._limit_count} buffers, {limit}"
        return (
            f"{self.name}: no memory of {size / 2**20:.1f} MiB came back within {timeout_seconds:g} s: "
            f"{self._lent} buffers are held, the limit is {limit}, and {self._budget.described()}; hold fewer images "
            f"at once, or use fewer streams"
        )


def _is_known_free(block: _Block, stream: DeviceStream | None) -> bool:
    """Whether a block can be used on that stream without a question: its users were there before, or are done."""
    on = None if stream is None else stream.handle
    return all(use.stream.handle == on or use.is_known_done for use in block.uses)


def _freed(block: _Block, *, gpu: CudaDevice, pool: str, budget: Budget, on_host: bool) -> None:
    try:
        with gpu.guard(f"freeing memory of {pool}", waits=True) as driver:
            for event in block.after:
                driver.synchronize_event(event)
            if on_host:
                driver.free_pinned(block.address)
            else:
                driver.free(block.address)
    finally:
        budget.give_back(block.size_bytes)  # what a broken GPU does not free is lost with it


@lru_cache(maxsize=1024)
def _rounded(wanted_bytes: int) -> int:
    """The size that is lent, at most an eighth more: so there are few sizes, and memory is used again."""
    step = max(ALIGNMENT_BYTES, 1 << max(wanted_bytes.bit_length() - 4, 0))
    return -(-max(wanted_bytes, 1) // step) * step


class CudaPool(Pool):
    """Lends memory of a GPU."""

    def lease(self, size_bytes: int, *, stream: DeviceStream, timeout_seconds: float = TIMEOUT_SECONDS) -> CudaBuffer:
        """Memory to be used on that stream first, which waits for those who used it before.

        Raises GpuOutOfMemory when none comes back for so long.
        """
        address, size = self._acquire(size_bytes, stream=stream, timeout_seconds=timeout_seconds)
        buffer = CudaBuffer(self, address, size_bytes=size)
        buffer.used_on(stream)
        return buffer


class PinnedPool(Pool):
    """Lends pinned host memory."""

    def lease(
        self, size_bytes: int, *, stream: DeviceStream | None = None, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> PinnedBuffer:
        """Memory that the host may write to at once, or (with `stream`) that the GPU writes to on that stream first.

        Raises GpuOutOfMemory when none comes back for so long.
        """
        address, size = self._acquire(size_bytes, stream=stream, timeout_seconds=timeout_seconds)
        return PinnedBuffer(self, address, size_bytes=size)
