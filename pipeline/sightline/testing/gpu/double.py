"""A driver without a GPU, as unkind as a GPU may be: what works on it does not rely on luck.

Streams do nothing until somebody waits for them, and then no more than needed: whoever forgets to wait for an event
sees old pixels, or poison. Memory is poisoned the moment it is free, and lent again first. Every address is checked
when work is queued and again when it is done; fences around all memory find kernels that write beside it. Host memory
takes part in copies only when it is pinned. Kernels run on the host build, their threads in a shuffled order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Literal

import numpy as np

from sightline.devices.gpu.driver import DriverError, Harm, Span
from sightline.devices.gpu.kernel_arguments import PackedArguments
from sightline.devices.gpu.kernel_source import KernelSource
from sightline.devices.gpu.launching import Extent3
from sightline.testing.gpu.double_memory import Arena, Block, GpuMisuse
from sightline.testing.gpu.double_streams import Streams
from sightline.testing.gpu.host_kernels import HostKernel, HostKernels, Order

Verb = Literal["allocate", "allocate_pinned", "copy", "fill", "launch", "load", "synchronize", "work"]


class DoubleDriver:
    """Stands for a GPU: a `Driver`. From any thread.

    What must not happen raises GpuMisuse, and stays in `misuses`, should it be raised where nobody looks. `fail_next`
    lets a verb fail as CUDA would; `work` is what is done when a stream is waited for.
    """

    def __init__(
        self,
        *,
        index: int = 0,
        memory_bytes: int = 2**30,
        pinned_bytes: int = 2**28,
        order: Order = "shuffled",
        compute_capability: tuple[int, int] = (8, 6),
    ) -> None:
        self.index = index
        self.name = "double"
        self.compute_capability = compute_capability
        self.misuses: list[GpuMisuse] = []
        self.launched: list[str] = []
        """The names of all kernels that were queued."""
        self._memory_bytes = memory_bytes
        self._arenas = {
            False: Arena("GPU memory", size_bytes=memory_bytes),
            True: Arena("pinned memory", size_bytes=pinned_bytes),
        }
        self._order = order
        self._streams = Streams()
        self._numbers = count(1)
        self._modules: dict[int, HostKernels] = {}
        self._functions: dict[int, tuple[str, HostKernel]] = {}
        self._lock = threading.RLock()
        self._local = threading.local()
        self._faults: dict[str, tuple[str, Harm]] = {}
        self._broken: str | None = None
        self.is_closed = False

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the context this thread's."""
        self._local.depth = self._depth + 1
        try:
            yield
        finally:
            self._local.depth -= 1

    def fail_next(self, verb: Verb, message: str, *, harm: Harm = Harm.DEVICE) -> None:
        """Let the next call of that verb fail."""
        self._faults[verb] = (message, harm)

    def check(self) -> None:
        """Raise the first misuse, if there was any."""
        if self.misuses:
            raise self.misuses[0]

    @property
    def live_bytes(self) -> tuple[int, int]:
        """How much GPU memory and how much pinned memory is allocated."""
        return self._arenas[False].live_bytes, self._arenas[True].live_bytes

    @property
    def undone(self) -> int:
        """How many pieces of work are queued and not done."""
        return self._streams.undone

    def close(self) -> None:
        """Let go of the context."""
        if self.is_closed:
            raise self._noted(GpuMisuse("the driver was closed twice"))
        self.is_closed = True

    def free_memory_bytes(self) -> tuple[int, int]:
        """How much memory is free, and how much there is."""
        with self._verb():
            return self._memory_bytes - self._arenas[False].live_bytes, self._memory_bytes

    def allocate(self, size_bytes: int) -> int:
        """Memory of the GPU."""
        with self._verb("allocate"):
            return self._arenas[False].allocate(size_bytes)

    def free(self, address: int) -> None:
        """Give it back."""
        with self._verb():
            self._arenas[False].free(address)

    def allocate_pinned(self, size_bytes: int) -> int:
        """Pinned host memory."""
        with self._verb("allocate_pinned"):
            return self._arenas[True].allocate(size_bytes)

    def free_pinned(self, address: int) -> None:
        """Give it back."""
        with self._verb():
            self._arenas[True].free(address)

    def retire(self, address: int, size_bytes: int, *, after: Sequence[int]) -> Sequence[int]:
        """Poison memory as soon as its users are done."""
        with self._verb():
            arena = self._arena_of(address)
            block = arena.block(address, size_bytes=size_bytes)
            block.promised += 1

            def pass_on() -> None:
                block.reached += 1
                arena.poison(block)

            block.event = block.event or self._streams.create_event()
            self._streams.when_reached(after, pass_on, event=block.event)
            return [block.event]

    def create_stream(self) -> int:
        """A stream."""
        with self._verb():
            return self._streams.create_stream()

    def destroy_stream(self, stream: int) -> None:
        """Let go of a stream."""
        with self._verb():
            self._streams.destroy_stream(stream)

    def synchronize(self, stream: int) -> None:
        """Do everything queued on a stream."""
        with self._verb("synchronize"):
            self._streams.finish(stream)

    def create_event(self) -> int:
        """An event."""
        with self._verb():
            return self._streams.create_event()

    def destroy_event(self, event: int) -> None:
        """Let go of an event."""
        with self._verb():
            self._streams.destroy_event(event)

    def record(self, event: int, *, stream: int) -> None:
        """The event is the point behind everything queued on that stream so far."""
        with self._verb():
            self._streams.record(event, stream=stream)

    def wait(self, stream: int, *, event: int) -> None:
        """Let a stream wait for the point of an event."""
        with self._verb():
            self._streams.wait(stream, event=event)

    def synchronize_event(self, event: int) -> None:
        """Do what is queued before the point of an event."""
        with self._verb("synchronize"):
            self._streams.reach(event)

    def is_done(self, event: int) -> bool:
        """Whether it is reached; asking does not help, unless somebody asks very often."""
        with self._verb():
            return self._streams.is_reached(event)

    def copy(self, target: Span, source: Span, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue a copy."""
        with self._verb("copy"):
            to = self._arenas[target.on_host].rows(target, width_bytes=width_bytes, rows=rows)
            what = self._arenas[source.on_host].rows(source, width_bytes=width_bytes, rows=rows)
            spans = ((target.on_host, target.address), (source.on_host, source.address))
            self._enqueue(stream, lambda: np.copyto(to, what), uses=spans)

    def fill(self, target: Span, value: int, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue that bytes become a value."""
        with self._verb("fill"):
            to = self._arenas[False].rows(target, width_bytes=width_bytes, rows=rows)
            self._enqueue(stream, lambda: to.fill(value), uses=((False, target.address),))

    def load(self, source: KernelSource) -> int:
        """Build a source for this machine's processor."""
        with self._verb("load"):
            number = next(self._numbers)
            self._modules[number] = HostKernels(source, order=self._order)
            return number

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        with self._verb():
            if module not in self._modules:
                raise GpuMisuse(f"there is no module {module}")
            number = next(self._numbers)
            self._functions[number] = (name, self._modules[module][name])
            return number

    def launch(
        self,
        function: int,
        arguments: PackedArguments,
        *,
        grid: Extent3,
        block: Extent3,
        shared_bytes: int,
        stream: int,
        uses: Sequence[int] = (),
    ) -> None:
        """Queue a kernel."""
        with self._verb("launch"):
            if function not in self._functions:
                raise GpuMisuse(f"there is no kernel {function}")
            name, kernel = self._functions[function]
            self.launched.append(name)

            def run() -> None:
                kernel.run(arguments, grid=grid, block=block, shared=shared_bytes)
                for arena in self._arenas.values():
                    arena.check_fences()

            self._enqueue(stream, run, uses=[(False, address) for address in uses])

    def queue(self, stream: int, work: Callable[[], None], *, uses: Sequence[tuple[int, int]]) -> None:
        """Queue work of a library that stands on this double: `work` reads and writes memory by its address.

        `uses` are that memory's addresses and sizes in bytes.
        """
        with self._verb("launch"):
            for address, size_bytes in uses:
                self._arenas[False].block(address, size_bytes=size_bytes)
            self._enqueue(stream, work, uses=[(False, address) for address, _ in uses])

    def _enqueue(self, stream: int, work: Callable[[], None], *, uses: Sequence[tuple[bool, int]]) -> None:
        """Queue work on memory, which must be the same holder's when it is done."""
        held = [(arena, arena.block(address)) for on_host, address in uses for arena in [self._arenas[on_host]]]
        promised = [block.promised for _, block in held]

        def checked() -> None:
            self._fail_if_asked_to("work")
            for (arena, block), number in zip(held, promised, strict=True):
                _check_holder(arena, block, number)
            work()

        self._streams.add(stream, checked)

    def _arena_of(self, address: int) -> Arena:
        return next((arena for arena in self._arenas.values() if arena.holds(address)), self._arenas[False])

    @property
    def _depth(self) -> int:
        depth: int = getattr(self._local, "depth", 0)
        return depth

    @contextmanager
    def _verb(self, name: str = "") -> Iterator[None]:
        with self._lock:
            try:
                if self.is_closed:
                    raise GpuMisuse("the driver is used after it was closed")
                if not self._depth:
                    raise GpuMisuse("no context is current in this thread")
                if self._broken is not None:
                    raise DriverError(self._broken, harm=Harm.DEVICE)
                self._fail_if_asked_to(name)
                yield
            except GpuMisuse as misuse:
                raise self._noted(misuse) from None

    def _fail_if_asked_to(self, verb: str) -> None:
        if verb in self._faults:
            message, harm = self._faults.pop(verb)
            if harm is Harm.DEVICE:
                self._broken = message
            raise DriverError(message, harm=harm)

    def _noted(self, misuse: GpuMisuse) -> GpuMisuse:
        self.misuses.append(misuse)
        return misuse


def _check_holder(arena: Arena, block: Block, promised: int) -> None:
    if block.is_free:
        raise GpuMisuse(f"{arena.what} at {block.address:#x} was freed before work that uses it was done")
    if block.reached > promised:
        raise GpuMisuse(f"{arena.what} at {block.address:#x} was given to another before work that uses it was done")
    if block.reached < promised:
        raise GpuMisuse(f"{arena.what} at {block.address:#x} is used before those who had it before are done")
