"""Streams, events and kernels of one CUDA device.

Only events order work; the host waits for an event where it needs what is there, and nowhere else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING

from sightline.devices.cuda.driver import (
    Driver,
    DriverError,
    Extent,
    Harm,
    KernelArgument,
    KernelSource,
    Parameter,
    check_launch,
    pack_arguments,
)
from sightline.devices.cuda.progress import Point, Progress
from sightline.errors import CudaError, CudaFailed, GpuOutOfMemory, KernelError
from sightline.media.device_array import DeviceArray, DeviceEvent

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice


@dataclass(frozen=True, slots=True)
class Wait:
    """A thread that waits for a GPU: what for, and since when (`perf_counter_ns`)."""

    doing: str
    since_ns: int


class Guard:
    """Surrounds every use of a driver: `with guard("copying to the host"): driver.copy(...)`.

    It makes the GPU's context current. A DriverError becomes a CudaError that says what was being done. After an error
    that leaves nothing usable, every later use raises CudaFailed with the first cause. From any thread.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.cause: str | None = None
        """Why nothing works any more; None while all is well."""
        self.is_reported = False
        """Whether an error with the cause was raised where somebody may see it."""
        self.waits: dict[int, Wait] = {}
        """Who waits for the GPU now, by thread."""
        self.is_closed = False

    @property
    def where(self) -> str:
        """The GPU in messages: `cuda:0`."""
        return f"cuda:{self._driver.index}"

    def __call__(self, doing: str, *, waits: bool = False) -> Guarded:
        """A block in which the driver is used; with `waits`, the host may wait for the GPU there."""
        return Guarded(self, self._driver, doing, waits=waits)

    def check(self) -> None:
        """Raise CudaFailed when nothing works any more."""
        if self.cause is not None:
            self.is_reported = True
            raise CudaFailed(f"{self.where} cannot be used any more: {self.cause}")
        if self.is_closed:
            raise CudaFailed(f"{self.where} was closed: the run that used it is over")

    def retire(self, address: int, size_bytes: int, *, after: Sequence[int]) -> Sequence[int]:
        """See `Driver.retire`, which needs no context. Raises CudaFailed when nothing works any more."""
        self.check()
        try:
            return self._driver.retire(address, size_bytes, after=after)
        except DriverError as error:
            raise self.failed("taking back memory", error) from error

    def silent(self) -> Silent:
        """A block whose CudaError nobody sees, as where memory goes back. The cause stays for whoever uses the GPU
        next, and for `CudaDevice.close` if nobody does.
        """
        return Silent(self)

    def failed(self, doing: str, error: DriverError) -> CudaError:
        """What to raise for a driver's error."""
        text = f"{self.where}: {doing} failed: {error}"
        if error.harm is Harm.MEMORY:
            return GpuOutOfMemory(f"{text}; use fewer streams or smaller batches, or end other programs that use it")
        if error.harm is Harm.NONE:
            return CudaError(text)
        self.cause = self.cause or f"{doing} failed: {error}"
        self.is_reported = True
        return CudaFailed(f"{self.where} cannot be used any more: {self.cause}")


class Silent:
    """A block that `Guard.silent` describes."""

    __slots__ = ("_guard", "_was_reported")

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._was_reported = guard.is_reported

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, CudaError):
            return False
        self._guard.is_reported = self._was_reported
        return True


class Guarded:
    """One use of the driver, in which its context is current."""

    __slots__ = ("_current", "_doing", "_driver", "_guard", "_waits")

    def __init__(self, guard: Guard, driver: Driver, doing: str, *, waits: bool) -> None:
        self._guard = guard
        self._waits = waits
        self._driver = driver
        self._doing = doing
        self._current: AbstractContextManager[None] | None = None

    def __enter__(self) -> Driver:
        self._guard.check()
        self._current = self._driver.current()
        try:
            self._current.__enter__()
        except DriverError as error:
            raise self._guard.failed(self._doing, error) from error
        if self._waits:
            self._guard.waits[get_ident()] = Wait(self._doing, perf_counter_ns())
        return self._driver

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waits:
            self._guard.waits.pop(get_ident(), None)
        if self._current is not None:
            try:
                self._current.__exit__(kind, error, trace)
            except DriverError as failed:
                raise self._guard.failed(self._doing, failed) from failed
        if isinstance(error, DriverError):
            raise self._guard.failed(self._doing, error) from error


class Handles:
    """The streams and events of one GPU: made when needed, used again when nobody holds them, gone with the GPU."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.idle_streams: deque[int] = deque()
        self.idle_events: deque[int] = deque()
        self._all_streams: list[int] = []
        self._all_events: list[int] = []
        self._progress: dict[int, Progress] = {}
        self._marks: dict[int, CudaEvent] = {}
        self._latest_capture = object()

    def stream(self, name: str) -> CudaStream:
        """A stream; after a time of use by others what they queued may come before."""
        with self.guard("making a stream") as driver:
            handle = taken(self.idle_streams)
            if handle is None:
                handle = driver.create_stream()
                self._all_streams.append(handle)
                self._progress[handle] = Progress()
        return CudaStream(self, handle, name=name, progress=self._progress[handle])

    def event(self, driver: Driver) -> int:
        """An event that nobody holds."""
        handle = taken(self.idle_events)
        if handle is None:
            handle = driver.create_event()
            self._all_events.append(handle)
        return handle

    def record(self, driver: Driver, stream: CudaStream) -> CudaEvent:
        """The point behind everything queued on a stream so far.

        While a stream is captured that is the point before: nothing is queued meanwhile, and an event that became part
        of the capture could be waited for by nobody. When a capture begins just now the event may be part of it.
        """
        while True:
            latest = self._latest_capture
            if (mark := self._marks.get(stream.handle)) is not None:
                return mark
            handle = self.event(driver)
            point = stream.progress.point()
            event = CudaEvent(self, handle, stream=stream, point=point)
            driver.record(handle, stream=stream.handle)
            point.recorded()
            if self._latest_capture is latest:
                return event

    def is_captured(self, stream: int) -> bool:
        """Whether a stream is captured now."""
        return stream in self._marks

    @contextmanager
    def marked(self, stream: CudaStream) -> Iterator[None]:
        """A block in which a stream is captured, as others have to know."""
        self._marks[stream.handle] = stream.record()
        self._latest_capture = object()
        try:
            yield
        finally:
            del self._marks[stream.handle]

    def synchronize(self, driver: Driver) -> None:
        """Wait for everything that is queued on any of them."""
        for stream in self._all_streams:
            driver.synchronize(stream)

    def destroy(self, driver: Driver) -> None:
        """Let go of all of them."""
        for event in self._all_events:
            driver.destroy_event(event)
        for stream in self._all_streams:
            driver.destroy_stream(stream)

    @property
    def counts(self) -> tuple[int, int]:
        """How many streams and events there are, held or idle."""
        return len(self._all_streams), len(self._all_events)


class CudaStream:
    """A stream of work on a GPU, in order. `name` says in messages whose it is. Work may be queued by any thread.

    `handle` is CUDA's, which other libraries take: keep this object alive while they use it.
    """

    __slots__ = ("__weakref__", "_handles", "_is_ours", "handle", "name", "progress")

    def __init__(self, handles: Handles, handle: int, *, name: str, progress: Progress, is_ours: bool = True) -> None:
        self.handle = handle
        self.name = name
        self.progress = progress
        """Which of its points are known to be done."""
        self._handles = handles
        self._is_ours = is_ours

    def __repr__(self) -> str:
        return f"CudaStream({self.name!r}, {self.handle:#x})"

    def __del__(self) -> None:
        if self._is_ours:
            self._handles.idle_streams.append(self.handle)

    def record(self) -> CudaEvent:
        """The point behind everything queued here so far. In a capture: behind what was queued before it."""
        with self._handles.guard(f"recording an event on the stream {self.name!r}") as driver:
            return self._handles.record(driver, self)

    def record_by(self, driver: Driver) -> CudaEvent:
        """The same for whoever is in a block of the guard, whose driver this is: it is not entered again."""
        return self._handles.record(driver, self)

    def wait(self, event: DeviceEvent) -> None:
        """Let what is queued here from now on begin after that point. Returns at once; no thread waits.

        CUDA is not called for a point that is known to be reached.
        Raises CudaError while the stream is captured: a graph cannot wait for what is outside of it.
        """
        if event.stream.handle == self.handle:
            return
        if self._handles.is_captured(self.handle):
            raise CudaError(
                f"the stream {self.name!r} is captured as a graph and cannot wait for another stream's work: wait for "
                "it before the capture, and let the graph use arrays that are ready on its own stream"
            )
        if event.is_known_done:
            return
        with self._handles.guard(f"waiting for an event on the stream {self.name!r}") as driver:
            driver.wait(self.handle, event=event.handle)
        if isinstance(event, CudaEvent):
            self.progress.has_waited(event.point)

    def synchronize(self) -> None:
        """Wait, without the GIL, until everything queued here is done. Not for the steady state: wait for events."""
        with self._handles.guard(f"waiting for the stream {self.name!r}", waits=True) as driver:
            driver.synchronize(self.handle)


class CudaEvent:
    """A point in the work of a stream: behind everything that was queued there when it was recorded."""

    __slots__ = ("_handles", "handle", "point", "stream")

    def __init__(self, handles: Handles, handle: int, *, stream: CudaStream, point: Point) -> None:
        self.handle = handle
        self.stream = stream
        self.point = point
        """Its place among the points of the stream."""
        self._handles = handles

    def __del__(self) -> None:
        self._handles.idle_events.append(self.handle)

    def wait(self) -> None:
        """Wait, without the GIL, until the work before it is done."""
        with self._handles.guard(f"waiting for work of the stream {self.stream.name!r}", waits=True) as driver:
            driver.synchronize_event(self.handle)
        self.point.reached()

    @property
    def is_known_done(self) -> bool:
        """Whether the host has seen that the work before it is done. Asks nobody."""
        return self.point.is_done

    @property
    def is_done(self) -> bool:
        """Whether the work before it is done."""
        with self._handles.guard(f"asking for work of the stream {self.stream.name!r}") as driver:
            is_done = driver.is_done(self.handle)
        if is_done:
            self.point.reached()
        return is_done


def taken(idle: deque[int]) -> int | None:
    """The handle that is idle for longest; None when there is none."""
    try:
        return idle.popleft()
    except IndexError:
        return None


class CudaKernels:
    """The kernels of one source by name: `gpu.kernels(path)["name"](arguments..., grid=, block=, stream=)`."""

    def __init__(self, gpu: CudaDevice, source: KernelSource) -> None:
        self._gpu = gpu
        self._source = source
        with gpu.guard(f"loading {source.name}") as driver:
            self._module = driver.load(source)
        self._kernels: dict[str, CudaKernel] = {}

    def __getitem__(self, name: str) -> CudaKernel:
        """Raises KernelError for a name that the source does not have."""
        if name not in self._kernels:
            if name not in self._source.kernels:
                known = ", ".join(self._source.kernels) or "none"
                raise KernelError(f"{self._source.name} has no kernel {name!r}; it has {known}")
            with self._gpu.guard(f"loading the kernel {name}") as driver:
                function = driver.function(self._module, name)
            self._kernels[name] = CudaKernel(self._gpu, function, name, parameters=self._source.kernels[name])
        return self._kernels[name]


class CudaKernel:
    """One kernel, ready to launch: a `Kernel`. From any thread."""

    def __init__(self, gpu: CudaDevice, function: int, name: str, *, parameters: tuple[Parameter, ...]) -> None:
        self._gpu = gpu
        self._function = function
        self._name = name
        self._parameters = parameters

    def __call__(
        self, *arguments: KernelArgument, grid: Extent, block: Extent, shared: int = 0, stream: object = None
    ) -> None:
        """Queue it on a stream, `gpu.main_stream` when None.

        The stream waits for the content of arrays among the arguments, and their memory is kept until the kernel is
        done. For arrays whose addresses stand in a table the caller does that (`DeviceArray.on`). What the kernel
        writes has other content from then on: `array.written(stream.record())`.

        Raises TypeError for arguments that do not fit, ValueError for a launch that no GPU takes, SurfaceReleased for
        memory that was given back, CudaError.
        """
        where = self._gpu.main_stream if stream is None else stream
        if not isinstance(where, CudaStream):
            raise TypeError(f"kernel {self._name}: stream is a CudaStream (gpu.stream()), not {where!r}")
        blocks, threads = check_launch(self._name, grid=grid, block=block, shared=shared)
        packed = pack_arguments(self._name, parameters=self._parameters, arguments=arguments)
        arrays = [argument.on(where) for argument in arguments if isinstance(argument, DeviceArray)]
        with self._gpu.guard(f"launching the kernel {self._name}") as driver:
            driver.launch(
                self._function,
                packed,
                grid=blocks,
                block=threads,
                shared_bytes=shared,
                stream=where.handle,
                uses=[array.base_address for array in arrays],
            )
