"""A fake CUDA driver: it runs kernels built for the host, lazily, and refuses misuse.

Streams do nothing until somebody waits for them, and then no more than needed: whoever forgets to wait for an event
sees old pixels, or poison. Memory is poisoned the moment it is free, and lent again first. Every address is checked
when work is queued and again when it is done; fences around all memory find kernels that write beside it. Host memory
takes part in copies only when it is pinned. Kernels run on the host build, their threads in a shuffled order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import get_ident
from typing import Literal, NoReturn

import numpy as np

from sightline.devices.cuda.driver import DriverError, Extent3, Harm, KernelSource, PackedArguments, Span
from sightline.media.device_array import DeviceStream
from tests.fakes.cuda import STREAMS_OF_CUDA, Arena, Block, CudaMisuse, Journal, Point, Streams
from tests.fakes.host_build import HostKernel, HostKernels, Order

NOT_WHILE_CAPTURING = frozenset(
    {
        "allocate",
        "allocate_pinned",
        "destroy_graph",
        "free",
        "free_pinned",
        "is_done",
        "load",
        "synchronize",
    }
)
"""What a thread that captures may not do, with any stream or memory. CUDA may be more lenient in some of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Work on memory, which must be the same holder's when it is done. `held` says which, and whose it is to be."""

    run: Callable[[], None]
    held: Sequence[tuple[Arena, Block, int]]
    kernel: str = ""

    def check_promised(self) -> None:
        """Raise CudaMisuse when the memory has not the holder any more that it had when the piece was made."""
        for arena, block, promised in self.held:
            if block.is_free or block.promised > promised:
                raise CudaMisuse(f"{arena.what} at {block.address:#x} was given back since a graph captured its use")

    def check_holders(self) -> None:
        """Raise CudaMisuse when the memory is not the holder's now."""
        for arena, block, promised in self.held:
            place = f"{arena.what} at {block.address:#x}"
            if block.is_free:
                raise CudaMisuse(f"{place} was freed before work that uses it was done")
            if block.reached > promised:
                raise CudaMisuse(f"{place} was given to another before work that uses it was done")
            if block.reached < promised:
                raise CudaMisuse(f"{place} is used before those who had it before are done")


@dataclass(slots=True, eq=False)
class Graph:
    """Pieces of work in their order; `last` is where the last launch of them ends."""

    pieces: list[Piece]
    last: Point | None = None


@dataclass(slots=True, eq=False)
class _Capture:
    """What one stream noted since a thread began; `cause` is why it was spoiled."""

    thread: int
    pieces: list[Piece] = field(default_factory=list)
    cause: str = ""

    def refuse(self, code: str, why: str) -> NoReturn:
        """What was just tried is not allowed, and this capture gives no graph any more."""
        self.cause = self.cause or why
        raise DriverError(f"CUDA_ERROR_{code}: {why}")


class Captures:
    """The captures that are under way, and the graphs that came of others. Not for several threads at once."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._captures: dict[int, _Capture] = {}
        self._captured_events: dict[int, _Capture] = {}
        self._graphs: dict[int, Graph] = {}

    @property
    def count(self) -> int:
        """How many graphs there are."""
        return len(self._graphs)

    def begin(self, stream: int) -> None:
        """The stream notes from now on."""
        if stream in STREAMS_OF_CUDA:
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a default stream cannot be captured")
        if stream in self._captures:
            raise DriverError("CUDA_ERROR_ILLEGAL_STATE: the stream is captured already")
        self._captures[stream] = _Capture(get_ident())

    def end(self, stream: int) -> list[Piece]:
        """What it noted. The capture is over."""
        capture = self._ended(stream)
        if capture.cause:
            raise DriverError(f"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: {capture.cause}")
        return capture.pieces

    def abandon(self, stream: int) -> None:
        """The capture is over, and forgotten."""
        self._ended(stream)

    def add(self, pieces: list[Piece]) -> int:
        """Make a graph."""
        number = next(self._numbers)
        self._graphs[number] = Graph(pieces)
        return number

    def graph(self, number: int) -> Graph:
        """A graph by its number."""
        if number not in self._graphs:
            raise CudaMisuse(f"there is no graph {number}")
        return self._graphs[number]

    def destroy(self, number: int) -> None:
        """Forget a graph."""
        self.graph(number)
        del self._graphs[number]

    def check_thread(self, verb: str) -> None:
        """Raise DriverError when this thread captures and may not do such a thing meanwhile."""
        for capture in self._captures.values():
            if verb in NOT_WHILE_CAPTURING and capture.thread == get_ident():
                capture.refuse("STREAM_CAPTURE_UNSUPPORTED", f"{verb} in a thread that captures a stream")

    def check_stream(self, stream: int, verb: str) -> None:
        """Raise DriverError when the stream is captured: whoever does such a thing with it spoils the capture."""
        if (capture := self._captures.get(stream)) is not None:
            capture.refuse("STREAM_CAPTURE_UNSUPPORTED", f"{verb} of a stream that is captured")

    def check_event(self, event: int) -> None:
        """Raise DriverError when the event is part of a capture, so that its point is nowhere outside."""
        if event in self._captured_events:
            raise DriverError("CUDA_ERROR_CAPTURED_EVENT: the event was recorded in a capture")

    def note(self, stream: int, piece: Piece) -> bool:
        """Note a piece of work; False when the stream is not captured."""
        capture = self._captures.get(stream)
        if capture is None:
            return False
        if capture.cause:
            raise DriverError(f"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: {capture.cause}")
        capture.pieces.append(piece)
        return True

    def record(self, event: int, *, stream: int) -> bool:
        """Record an event as part of a capture; False when the stream is not captured."""
        capture = self._captures.get(stream)
        if capture is None:
            self._captured_events.pop(event, None)
            return False
        self._captured_events[event] = capture
        return True

    def wait(self, stream: int, *, event: int) -> bool:
        """Let a captured stream wait for its own event; False when neither is captured.

        A stream that waits for the captured event of another would be captured, too: nobody here means that.
        """
        capture, origin = self._captures.get(stream), self._captured_events.get(event)
        if (spoiled := capture or origin) is None:
            return False
        if capture is not origin:
            spoiled.refuse("STREAM_CAPTURE_ISOLATION", "a wait across the border of a capture")
        return True

    def _ended(self, stream: int) -> _Capture:
        capture = self._captures.get(stream)
        if capture is None:
            raise DriverError("CUDA_ERROR_ILLEGAL_STATE: the stream is not captured")
        if capture.thread != get_ident():
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: another thread began the capture")
        return self._captures.pop(stream)


Verb = Literal[
    "allocate",
    "allocate_pinned",
    "begin_capture",
    "copy",
    "end_capture",
    "fill",
    "free_pinned",
    "is_done",
    "launch",
    "launch_graph",
    "load",
    "queue",
    "synchronize",
    "work",
]


class FakeDriverCalls:
    """Contexts, faults, misuses and journals of a driver. From any thread; one call at a time is made."""

    def __init__(self) -> None:
        self.misuses: list[CudaMisuse] = []
        self.is_closed = False
        self._captures = Captures()
        self._lock = threading.RLock()
        self._local = threading.local()
        self._faults: dict[str, tuple[str, Harm]] = {}
        self._broken: str | None = None
        self._journals: list[Journal] = []

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

    @contextmanager
    def journaling(self, **streams: DeviceStream) -> Iterator[Journal]:
        """Note the calls of a block: `with driver.journaling(work=stream) as journal: ...` calls that stream `work`."""
        journal = Journal({stream.handle: name for name, stream in streams.items()})
        with self._lock:
            self._journals.append(journal)
        try:
            yield journal
        finally:
            with self._lock:
                self._journals.remove(journal)

    @property
    def _depth(self) -> int:
        depth: int = getattr(self._local, "depth", 0)
        return depth

    @contextmanager
    def _verb(
        self,
        name: str = "",
        what: str = "",
        *,
        stream: int | None = None,
        other: int | None = None,
        needs_context: bool = True,
    ) -> Iterator[None]:
        """One call: `what` it does, for which `stream`, and with which `other`, as journals tell it."""
        with self._lock:
            try:
                if self.is_closed:
                    raise CudaMisuse("the driver is used after it was closed")
                if needs_context and not self._depth:
                    raise CudaMisuse("no context is current in this thread")
                if self._broken is not None:
                    raise DriverError(self._broken, harm=Harm.DEVICE)
                self._fail_if_asked_to(name)
                self._captures.check_thread(name)
                for journal in self._journals if name else ():
                    journal.note(name, what, stream=stream, other=other)
                yield
            except CudaMisuse as misuse:
                raise self._noted(misuse) from None

    def _fail_if_asked_to(self, verb: str) -> None:
        if verb in self._faults:
            message, harm = self._faults.pop(verb)
            if harm is Harm.DEVICE:
                self._broken = message
            raise DriverError(message, harm=harm)

    def _noted(self, misuse: CudaMisuse) -> CudaMisuse:
        self.misuses.append(misuse)
        return misuse


class FakeCudaDriver(FakeDriverCalls):
    """Stands for a GPU: a `Driver`. From any thread.

    What must not happen raises CudaMisuse, and stays in `misuses`, should it be raised where nobody looks. `fail_next`
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
        self.foreign_context = 0
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
            raise self._noted(CudaMisuse("the driver was closed twice"))
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
        with self._verb(needs_context=False):
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
                raise CudaMisuse(f"there is no module {module}")
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
                raise CudaMisuse(f"there is no kernel {function}")

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
