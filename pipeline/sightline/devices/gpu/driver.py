"""The driver: the thinnest verbs that everything on a GPU is made of. `cuda_driver.py` is the real one; the one in
`sightline.testing.gpu` stands for it on machines without a GPU, and is as unkind as a GPU may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sightline.devices.gpu.kernel_arguments import PackedArguments
from sightline.devices.gpu.kernel_source import KernelSource
from sightline.devices.gpu.launching import Extent3


class Harm(StrEnum):
    """What a failed call leaves behind.

    `none`    the call was refused, all else goes on
    `memory`  there was not enough memory; with more of it free, the same call may succeed
    `device`  nothing works any more in this process: CUDA's errors of kernels and hardware are of this kind
    """

    NONE = "none"
    MEMORY = "memory"
    DEVICE = "device"


class DriverError(Exception):
    """A call of the driver failed; `Gpu` makes a `GpuError` of it."""

    def __init__(self, message: str, *, harm: Harm = Harm.NONE) -> None:
        super().__init__(message)
        self.harm = harm


@dataclass(frozen=True, slots=True)
class Span:
    """Where a copy reads or writes: rows that lie `pitch_bytes` apart, on the GPU or in pinned host memory."""

    address: int
    pitch_bytes: int
    on_host: bool = False


class Driver(Protocol):
    """One GPU, by its driver. Streams, events, modules and functions are opaque numbers: CUDA's own handles, which
    other libraries take, too. From any thread; calls hold the GIL only where they do not wait. All raise DriverError.
    """

    @property
    def index(self) -> int:
        """The number N of `cuda:N`."""
        ...

    @property
    def name(self) -> str:
        """What the GPU is called."""
        ...

    @property
    def compute_capability(self) -> tuple[int, int]:
        """NVIDIA's compute capability, such as (8, 6)."""
        ...

    def current(self) -> AbstractContextManager[None]:
        """Make the GPU's context this thread's for a while; every verb below needs it. May be nested."""
        ...

    def close(self) -> None:
        """Let go of the context. What was allocated and made is gone; no verb may be called any more."""
        ...

    def free_memory_bytes(self) -> tuple[int, int]:
        """How much memory the GPU has free, and how much in all."""
        ...

    def allocate(self, size_bytes: int) -> int:
        """Memory of the GPU: its address, aligned to 256 bytes."""
        ...

    def free(self, address: int) -> None:
        """Give it back. Nothing queued may still use it."""
        ...

    def allocate_pinned(self, size_bytes: int) -> int:
        """Host memory that the GPU can copy to and from by itself: its address."""
        ...

    def free_pinned(self, address: int) -> None:
        """Give it back. Nothing queued may still use it."""
        ...

    def retire(self, address: int, size_bytes: int, *, after: Sequence[int]) -> Sequence[int]:
        """Nobody holds this memory any more, and whoever used it is done at the events `after`.

        Returns the events that the next holder has to wait for. A real GPU does nothing here; the double spoils it.
        """
        ...

    def create_stream(self) -> int:
        """A stream that does not wait for the default stream."""
        ...

    def destroy_stream(self, stream: int) -> None:
        """Let go of a stream; what is queued is still done."""
        ...

    def synchronize(self, stream: int) -> None:
        """Wait, without the GIL, until everything queued on a stream is done."""
        ...

    def create_event(self) -> int:
        """An event that is not recorded, without timing."""
        ...

    def destroy_event(self, event: int) -> None:
        """Let go of an event."""
        ...

    def record(self, event: int, *, stream: int) -> None:
        """The event is the point behind everything queued on that stream so far."""
        ...

    def wait(self, stream: int, *, event: int) -> None:
        """What is queued on the stream from now on begins when the point of the event, as it is now, is reached."""
        ...

    def synchronize_event(self, event: int) -> None:
        """Wait, without the GIL, until the point of the event is reached."""
        ...

    def is_done(self, event: int) -> bool:
        """Whether it is reached."""
        ...

    def copy(self, target: Span, source: Span, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue a copy of `rows` rows of `width_bytes`."""
        ...

    def fill(self, target: Span, value: int, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue that every byte of `rows` rows in the GPU's memory becomes `value`."""
        ...

    def load(self, source: KernelSource) -> int:
        """Compile a source for this GPU (kept between runs) and load it: a module. Raises KernelError, too."""
        ...

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        ...

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
        """Queue a kernel. `uses` are addresses among the arguments, for drivers that can check them."""
        ...

    def begin_capture(self, stream: int) -> None:
        """What this thread queues on the stream from now on is noted and not done, until the capture ends.

        Meanwhile this thread may not allocate, free, load, destroy graphs, wait or ask for events; nobody may wait for
        the stream, nor let it wait for an event from outside. What is refused spoils the capture, too.
        """
        ...

    def end_capture(self, stream: int) -> int:
        """The noted work as a graph that can be launched. For the thread that began; the capture is over, even when
        this raises DriverError because the capture was spoiled or the graph cannot be made.
        """
        ...

    def abandon_capture(self, stream: int) -> None:
        """End a capture, spoiled or not, and forget the noted work. For the thread that began."""
        ...

    def launch_graph(self, graph: int, *, stream: int) -> None:
        """Queue all work of a graph. Launches of the same graph follow one another, on whatever streams."""
        ...

    def destroy_graph(self, graph: int) -> None:
        """Let go of a graph; launches that are queued are still done."""
        ...
