"""The real driver: pycuda and cuda-bindings.

pycuda keeps a stack of contexts for each thread, and aborts the process when a thread goes with one on it. A thread
that still runs when the interpreter ends goes as soon as it comes back from a call; so `end` waits for all to leave.

It follows the sources of pycuda 2026.1 and the documentation of CUDA's driver API.

pycuda keeps a stack of contexts for each thread, and ends the process when a thread ends with one on it. So a context
is pushed for as long as calls are made and popped again; nothing stays behind in any thread. The primary context of a
GPU is retained once in a process and kept to its end: pycuda lets go of it only in the thread that retained it.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache, wraps
from importlib import import_module
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from sightline.devices.cuda.driver import DriverError, Extent3, Harm, KernelSource, PackedArguments, Span
from sightline.devices.cuda.nvrtc import compile_cubin
from sightline.errors import DeviceUnavailable, MissingExtra


class _Innermost(threading.local):
    """The context that this thread made its own last; None outside of all blocks."""

    context: Any = None


_HERE = _Innermost()
_INSIDE = set[int]()
"""The threads that are in a block."""
_ENDING = threading.Event()
_TIMEOUT_SECONDS = 5.0
_GLANCE_SECONDS = 0.002


class Current:
    """A block in which a context is this thread's; it may stand within others, of other GPUs, too.

    Raises DriverError where the context is gone: another library reset the GPU, or the process is a fork.
    """

    __slots__ = ("_before", "_context", "_pycuda")

    def __init__(self, context: Any, pycuda: Any) -> None:
        self._context = context
        self._pycuda = pycuda
        self._before: Any = None

    def __enter__(self) -> None:
        before = _HERE.context
        if before is None:
            _come_in()
        if before is not self._context:
            try:
                self._context.push()
            except self._pycuda.Error as error:
                if before is None:
                    _INSIDE.discard(threading.get_ident())
                raise DriverError(str(error), harm=Harm.DEVICE) from error
        self._before, _HERE.context = before, self._context

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before = _HERE.context = self._before
        try:
            if before is not self._context:
                self._pycuda.Context.pop()
        except self._pycuda.Error as failed:
            raise DriverError(str(failed), harm=Harm.DEVICE) from failed
        finally:
            if before is None:
                _INSIDE.discard(threading.get_ident())


def end(*, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
    """The interpreter ends: let no thread in any more, and wait until all have left."""
    _ENDING.set()
    deadline = time.monotonic() + timeout_seconds
    while _INSIDE - {threading.get_ident()} and time.monotonic() < deadline:
        time.sleep(_GLANCE_SECONDS)


def _come_in() -> None:
    _INSIDE.add(threading.get_ident())  # before the question: `end` answers first, and looks then
    if _ENDING.is_set():
        _INSIDE.discard(threading.get_ident())
        raise DriverError("the program ends", harm=Harm.DEVICE)


P = ParamSpec("P")
R = TypeVar("R")
_NON_BLOCKING = 1
_WITHOUT_TIMING = 2
_PURPOSE = "working on a GPU"
_ABANDONED: list[CudaDriver] = []
"""Drivers of GPUs that broke, with all that they hold: to free it would only give warnings."""


def _told(verb: Callable[Concatenate[CudaDriver, P], R]) -> Callable[Concatenate[CudaDriver, P], R]:
    """Raise pycuda's errors as DriverError."""

    @wraps(verb)
    def calling(self: CudaDriver, /, *args: P.args, **options: P.kwargs) -> R:
        try:
            return verb(self, *args, **options)
        except self._pycuda.Error as error:
            raise self._refused(str(error), out_of_memory=isinstance(error, self._pycuda.MemoryError)) from error

    return calling


class CudaDriver:
    """One GPU, by its primary context, which this process's other libraries use, too: a `Driver`."""

    def __init__(self, index: int) -> None:
        """Raises MissingExtra without the packages, DriverError when the GPU does not give a context."""
        self.index = index
        self._pycuda = _pycuda()
        self._cuda = _bindings()
        self._memory: dict[int, Any] = {}
        self._pinned: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}
        self._modules: list[Any] = []
        self._quiet_stream = 0
        self.name, self.compute_capability, self._context = self._opened()
        with self.current():
            self._quiet_stream = self.create_stream()

    @_told
    def _opened(self) -> tuple[str, tuple[int, int], Any]:
        self._pycuda.init()
        device = self._pycuda.Device(self.index)
        major, minor = device.compute_capability()
        return str(device.name()), (major, minor), _primary_context(self.index)

    def current(self) -> AbstractContextManager[None]:
        """Make the context this thread's; nothing stays on pycuda's stack when the block is left."""
        return Current(self._context, self._pycuda)

    def close(self) -> None:
        """Let go of what is left; the primary context stays for others. A broken GPU takes nothing back."""
        with suppress(DriverError), self.current():
            if self._works:
                self._let_go()
                return
        _ABANDONED.append(self)

    def _let_go(self) -> None:
        for module in self._modules:
            self._cuda.cuModuleUnload(module)
        for kept in (self._modules, self._memory, self._pinned, self._streams):
            kept.clear()

    @_told
    def free_memory_bytes(self) -> tuple[int, int]:
        """How much memory is free, and how much there is."""
        free, total = self._pycuda.mem_get_info()
        return int(free), int(total)

    @_told
    def allocate(self, size_bytes: int) -> int:
        """Memory of the GPU."""
        allocation = self._pycuda.mem_alloc(size_bytes)
        self._memory[int(allocation)] = allocation
        return int(allocation)

    @_told
    def free(self, address: int) -> None:
        """Give it back."""
        self._memory.pop(address).free()

    @_told
    def allocate_pinned(self, size_bytes: int) -> int:
        """Pinned host memory."""
        array = self._pycuda.pagelocked_empty(size_bytes, np.uint8)
        self._pinned[array.ctypes.data] = array
        return int(array.ctypes.data)

    @_told
    def free_pinned(self, address: int) -> None:
        """Give it back."""
        self._pinned.pop(address).base.free()

    def retire(self, address: int, size_bytes: int, *, after: Sequence[int]) -> Sequence[int]:
        """Whoever has it next waits for the same events."""
        del address, size_bytes
        return after

    @_told
    def create_stream(self) -> int:
        """A stream that does not wait for the default stream."""
        stream = self._pycuda.Stream(_NON_BLOCKING)
        self._streams[stream.handle] = stream
        return int(stream.handle)

    @_told
    def destroy_stream(self, stream: int) -> None:
        """Let go of a stream."""
        del self._streams[stream]

    def synchronize(self, stream: int) -> None:
        """Wait for everything queued on a stream."""
        self._call(self._cuda.cuStreamSynchronize, stream)

    def create_event(self) -> int:
        """An event without timing."""
        return int(self._call(self._cuda.cuEventCreate, _WITHOUT_TIMING))

    def destroy_event(self, event: int) -> None:
        """Let go of an event."""
        self._call(self._cuda.cuEventDestroy, event)

    def record(self, event: int, *, stream: int) -> None:
        """The event is the point behind everything queued on that stream."""
        self._call(self._cuda.cuEventRecord, event, stream)

    def wait(self, stream: int, *, event: int) -> None:
        """Let a stream wait for an event."""
        self._call(self._cuda.cuStreamWaitEvent, stream, event, 0)

    def synchronize_event(self, event: int) -> None:
        """Wait for the point of an event."""
        self._call(self._cuda.cuEventSynchronize, event)

    def is_done(self, event: int) -> bool:
        """Whether it is reached."""
        (result,) = self._cuda.cuEventQuery(event)
        if result == self._cuda.CUresult.CUDA_ERROR_NOT_READY:
            return False
        self._check("cuEventQuery", result)
        return True

    @_told
    def copy(self, target: Span, source: Span, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue a copy."""
        copy = self._pycuda.Memcpy2D()
        for span, on_host, on_device in (
            (target, copy.set_dst_host, copy.set_dst_device),
            (source, copy.set_src_host, copy.set_src_device),
        ):
            if span.on_host:
                on_host(_buffer(span, width_bytes=width_bytes, rows=rows))
            else:
                on_device(span.address)
        copy.dst_pitch, copy.src_pitch = max(target.pitch_bytes, width_bytes), max(source.pitch_bytes, width_bytes)
        copy.width_in_bytes, copy.height = width_bytes, rows
        copy(self._streams[stream])

    @_told
    def fill(self, target: Span, value: int, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue that bytes become a value."""
        pitch = max(target.pitch_bytes, width_bytes)
        self._pycuda.memset_d2d8_async(target.address, pitch, value, width_bytes, rows, self._streams[stream])

    def load(self, source: KernelSource) -> int:
        """Compile a source for this GPU and load it."""
        major, minor = self.compute_capability
        cubin = compile_cubin(source, architecture=10 * major + minor)
        module = self._call(self._cuda.cuModuleLoadData, cubin)
        self._modules.append(module)
        return int(module)

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        return int(self._call(self._cuda.cuModuleGetFunction, module, name.encode()))

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
        del uses
        self._call(self._cuda.cuLaunchKernel, function, *grid, *block, shared_bytes, stream, arguments.address, 0)

    def begin_capture(self, stream: int) -> None:
        """Note what is queued on a stream instead of doing it; what other threads do is left alone."""
        mode = self._cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call(self._cuda.cuStreamBeginCapture, stream, mode)

    def end_capture(self, stream: int) -> int:
        """The noted work as an executable graph."""
        graph = self._call(self._cuda.cuStreamEndCapture, stream)
        try:
            return int(self._call(self._cuda.cuGraphInstantiate, graph, 0))
        finally:
            self._call(self._cuda.cuGraphDestroy, graph)

    def abandon_capture(self, stream: int) -> None:
        """Forget the noted work. CUDA says of a capture that was spoiled that it was, and ends it."""
        codes = self._cuda.CUresult
        result, graph = self._cuda.cuStreamEndCapture(stream)
        if result == codes.CUDA_SUCCESS:
            self._call(self._cuda.cuGraphDestroy, graph)
        elif result not in (codes.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, codes.CUDA_ERROR_STREAM_CAPTURE_UNJOINED):
            self._check("cuStreamEndCapture", result)

    def launch_graph(self, graph: int, *, stream: int) -> None:
        """Queue all work of a graph."""
        self._call(self._cuda.cuGraphLaunch, graph, stream)

    def destroy_graph(self, graph: int) -> None:
        """Let go of a graph; CUDA keeps what is under way until it is done."""
        self._call(self._cuda.cuGraphExecDestroy, graph)

    def _call(self, function: Any, *arguments: Any) -> Any:
        result, *values = function(*arguments)
        self._check(function.__name__, result)
        return values[0] if values else None

    def _check(self, call: str, result: Any) -> None:
        codes = self._cuda.CUresult
        if result != codes.CUDA_SUCCESS:
            raise self._refused(f"{call}: {result.name}", out_of_memory=result == codes.CUDA_ERROR_OUT_OF_MEMORY)

    def _refused(self, message: str, *, out_of_memory: bool = False) -> DriverError:
        """The error to raise. After one of a kernel or of the hardware, CUDA answers every question with it."""
        if out_of_memory:
            return DriverError(message, harm=Harm.MEMORY)
        return DriverError(message, harm=Harm.NONE if self._works else Harm.DEVICE)

    @property
    def _works(self) -> bool:
        """Whether the GPU does. A thread that captures gets no answer, for that reason alone."""
        codes = self._cuda.CUresult
        (state,) = self._cuda.cuStreamQuery(self._quiet_stream)
        captures = (codes.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, codes.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        return state in (codes.CUDA_SUCCESS, codes.CUDA_ERROR_NOT_READY, *captures)


def _pycuda() -> Any:
    return _library("pycuda.driver", package="pycuda")


def _bindings() -> Any:
    return _library("cuda.bindings.driver", package="cuda-bindings")


def _library(module: str, *, package: str) -> Any:
    """Imported where it is used: these packages can be imported on machines with a driver only."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(package, extra="gpu", purpose=_PURPOSE) from error
    except ImportError as error:
        raise DeviceUnavailable(f"{_PURPOSE} needs {package}, which cannot be imported: {error}") from error


@lru_cache(maxsize=16)
def _primary_context(index: int) -> Any:
    context = _pycuda().Device(index).retain_primary_context()
    atexit.register(context.detach)  # its destructor takes it for another kind of context, and warns
    atexit.register(end)  # runs first
    return context


def _buffer(span: Span, *, width_bytes: int, rows: int) -> Any:
    """The host memory of a span, as something with a buffer."""
    return (ctypes.c_char * (span.pitch_bytes * (rows - 1) + width_bytes)).from_address(span.address)
