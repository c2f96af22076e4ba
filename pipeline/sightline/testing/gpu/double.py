"""A driver without a GPU, as unkind as a GPU may be: what works on it does not rely on luck.

Streams do nothing until somebody waits for them, and then no more than needed: whoever forgets to wait for an event
sees old pixels, or poison. Memory is poisoned the moment it is free, and lent again first. Every address is checked
when work is queued and again when it is done; fences around all memory find kernels that write beside it. Host memory
takes part in copies only when it is pinned. Kernels run on the host build, their threads in a shuffled order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np

from sightline.devices.gpu.driver import Span
from sightline.devices.gpu.kernel_arguments import PackedArguments
from sightline.devices.gpu.kernel_source import KernelSource
from sightline.devices.gpu.launching import Extent3
from sightline.testing.gpu.double_calls import DoubleCalls
from sightline.testing.gpu.double_graphs import Piece
from sightline.testing.gpu.double_memory import Arena, GpuMisuse
from sightline.testing.gpu.double_streams import Streams
from sightline.testing.gpu.host_kernels import HostKernel, HostKernels, Order


class DoubleDriver(DoubleCalls):
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
        super().__init__()
        self.index = index
        self.name = "double"
        self.compute_capability = compute_capability
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

    @property
    def live_bytes(self) -> tuple[int, int]:
        """How much GPU memory and how much pinned memory is allocated."""
        return self._arenas[False].live_bytes, self._arenas[True].live_bytes

    @property
    def live_graphs(self) -> int:
        """How many graphs are not destroyed."""
        return self._captures.count

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
        with self._verb("allocate", f"{size_bytes} bytes"):
            return self._arenas[False].allocate(size_bytes)

    def free(self, address: int) -> None:
        """Give it back."""
        with self._verb("free"):
            self._arenas[False].free(address)

    def allocate_pinned(self, size_bytes: int) -> int:
        """Pinned host memory."""
        with self._verb("allocate_pinned", f"{size_bytes} bytes"):
            return self._arenas[True].allocate(size_bytes)

    def free_pinned(self, address: int) -> None:
        """Give it back."""
        with self._verb("free_pinned"):
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
        with self._verb("create_stream"):
            return self._streams.create_stream()

    def destroy_stream(self, stream: int) -> None:
        """Let go of a stream."""
        with self._verb("destroy_stream", stream=stream):
            self._captures.check_stream(stream, "destroy_stream")
            self._streams.destroy_stream(stream)

    def synchronize(self, stream: int) -> None:
        """Do everything queued on a stream."""
        with self._verb("synchronize", stream=stream):
            self._captures.check_stream(stream, "synchronize")
            self._streams.finish(stream)

    def create_event(self) -> int:
        """An event."""
        with self._verb("create_event"):
            return self._streams.create_event()

    def destroy_event(self, event: int) -> None:
        """Let go of an event."""
        with self._verb("destroy_event"):
            self._streams.destroy_event(event)

    def record(self, event: int, *, stream: int) -> None:
        """The event is the point behind everything queued on that stream so far."""
        with self._verb("record", stream=stream):
            if not self._captures.record(event, stream=stream):
                self._streams.record(event, stream=stream)

    def wait(self, stream: int, *, event: int) -> None:
        """Let a stream wait for the point of an event."""
        with self._verb("wait", stream=stream, other=self._streams.origin(event)):
            if not self._captures.wait(stream, event=event):
                self._streams.wait(stream, event=event)

    def synchronize_event(self, event: int) -> None:
        """Do what is queued before the point of an event."""
        with self._verb("synchronize", "event", stream=self._streams.origin(event)):
            self._captures.check_event(event)
            self._streams.reach(event)

    def is_done(self, event: int) -> bool:
        """Whether it is reached; asking does not help, unless somebody asks very often."""
        with self._verb("is_done", stream=self._streams.origin(event)):
            self._captures.check_event(event)
            return self._streams.is_reached(event)

    def copy(self, target: Span, source: Span, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue a copy."""
        where = " to host" if target.on_host else " from host" if source.on_host else ""
        with self._verb("copy", f"{width_bytes * rows} bytes{where}", stream=stream):
            to = self._arenas[target.on_host].rows(target, width_bytes=width_bytes, rows=rows)
            what = self._arenas[source.on_host].rows(source, width_bytes=width_bytes, rows=rows)
            spans = ((target.on_host, target.address), (source.on_host, source.address))
            self._enqueue(stream, lambda: np.copyto(to, what), uses=spans)

    def fill(self, target: Span, value: int, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue that bytes become a value."""
        with self._verb("fill", f"{width_bytes * rows} bytes", stream=stream):
            to = self._arenas[False].rows(target, width_bytes=width_bytes, rows=rows)
            self._enqueue(stream, lambda: to.fill(value), uses=((False, target.address),))

    def load(self, source: KernelSource) -> int:
        """Build a source for this machine's processor."""
        with self._verb("load", source.name):
            number = next(self._numbers)
            self._modules[number] = HostKernels(source, order=self._order)
            return number

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        with self._verb("function", name):
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
        name, kernel = self._functions.get(function, ("", None))
        with self._verb("launch", name, stream=stream):
            if kernel is None:
                raise GpuMisuse(f"there is no kernel {function}")

            def run() -> None:
                kernel.run(arguments, grid=grid, block=block, shared=shared_bytes)
                for arena in self._arenas.values():
                    arena.check_fences()

            self._enqueue(stream, run, uses=[(False, address) for address in uses], kernel=name)

    def queue(
        self, stream: int, work: Callable[[], None], *, uses: Sequence[tuple[int, int]], what: str = "work"
    ) -> None:
        """Queue work of a library that stands on this double: `work` reads and writes memory by its address.

        `uses` are that memory's addresses and sizes in bytes; `what` is what journals call it. A graph can hold it.
        """
        with self._verb("queue", what, stream=stream):
            for address, size_bytes in uses:
                self._arena_of(address).block(address, size_bytes=size_bytes)
            self._enqueue(stream, work, uses=[(self._arenas[True].holds(address), address) for address, _ in uses])

    def begin_capture(self, stream: int) -> None:
        """Note what is queued on a stream."""
        with self._verb("begin_capture", stream=stream):
            self._streams.point(stream)
            self._captures.begin(stream)

    def end_capture(self, stream: int) -> int:
        """The noted work as a graph."""
        with self._verb():
            pieces = self._captures.end(stream)
        with self._verb("end_capture", stream=stream):
            return self._captures.add(pieces)

    def abandon_capture(self, stream: int) -> None:
        """Forget the noted work."""
        with self._verb("abandon_capture", stream=stream):
            self._captures.abandon(stream)

    def launch_graph(self, graph: int, *, stream: int) -> None:
        """Queue all work of a graph."""
        with self._verb("launch_graph", str(graph), stream=stream):
            self._captures.check_stream(stream, "launch_graph")
            launched = self._captures.graph(graph)
            for piece in launched.pieces:
                piece.check_promised()
            if launched.last is not None:
                self._streams.follow(stream, launched.last)
            for piece in launched.pieces:
                self._add(stream, piece)
            launched.last = self._streams.point(stream)

    def destroy_graph(self, graph: int) -> None:
        """Let go of a graph."""
        with self._verb("destroy_graph", str(graph)):
            self._captures.destroy(graph)

    def _enqueue(
        self, stream: int, work: Callable[[], None], *, uses: Sequence[tuple[bool, int]], kernel: str = ""
    ) -> None:
        """Queue work on memory, or note it."""
        held = [(arena, arena.block(address)) for on_host, address in uses for arena in [self._arenas[on_host]]]
        piece = Piece(work, [(arena, block, block.promised) for arena, block in held], kernel)
        if not self._captures.note(stream, piece):
            self._add(stream, piece)

    def _add(self, stream: int, piece: Piece) -> None:
        def do() -> None:
            self._fail_if_asked_to("work")
            piece.check_holders()
            piece.run()

        self._streams.add(stream, do)
        if piece.kernel:
            self.launched.append(piece.kernel)

    def _arena_of(self, address: int) -> Arena:
        return next((arena for arena in self._arenas.values() if arena.holds(address)), self._arenas[False])
