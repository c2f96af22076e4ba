"""The real driver, through cuda-bindings 12.9 or 13: what CUDA's driver API calls and returns, and nothing more.

A GPU has one primary context in a process, which torch, ONNX Runtime and TensorRT use, too. A driver retains it and
releases it at `close`; a context that another library made is used as it is. No thread keeps a context: it is pushed
for as long as calls are made, and popped again. The host waits for events without spinning (`BLOCKING_SYNC`), and no
event measures time.

Signatures are those of cuda-bindings 12.9.1 to 13.5.0, which do not differ for the calls made here. 12.9.0 has them,
too, but keeps the GIL while it waits, and every other thread with it.

What returns at once (contexts, events, copies that are only queued) is called without the bindings, which release the
GIL for every call and make an object of its result: with many streams the threads then spend more time on waiting for
it again than on all their work.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from importlib import import_module
from types import TracebackType
from typing import Any

from sightline.devices.cuda.driver import DriverError, Extent3, Harm, KernelSource, PackedArguments, Span
from sightline.devices.cuda.libcuda import BINDINGS, LIBRARY, driver_facts, extra_for_driver
from sightline.devices.cuda.nvrtc import compile_cubin
from sightline.errors import DeviceUnavailable, MissingExtra

_PURPOSE = "working on a GPU"
_STREAM_NON_BLOCKING = 1
_EVENT_BLOCKING_SYNC = 1
_EVENT_DISABLE_TIMING = 2
_NAME_BYTES = 256
_NOT_READY = 600
_DESTROYERS = (
    "cuGraphExecDestroy",
    "cuModuleUnload",
    "cuEventDestroy",
    "cuStreamDestroy",
    "cuMemFree",
    "cuMemFreeHost",
)
"""How each kind of object is destroyed, in the order in which `close` does."""


_ON_HOST, _ON_DEVICE = 1, 2


class _CopyEnd(ctypes.Structure):
    """Where `_Copy2d` reads or writes."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("first_byte", "first_row")),
        ("memory_type", ctypes.c_uint),
        *((name, ctypes.c_void_p) for name in ("host", "device", "array")),
        ("pitch_bytes", ctypes.c_size_t),
    )


class _Copy2d(ctypes.Structure):
    """CUDA_MEMCPY2D of cuda.h."""

    _fields_ = (
        ("source", _CopyEnd),
        ("target", _CopyEnd),
        ("width_bytes", ctypes.c_size_t),
        ("rows", ctypes.c_size_t),
    )


def _copy_end(span: Span, pitch_bytes: int) -> _CopyEnd:
    if span.on_host:
        return _CopyEnd(0, 0, _ON_HOST, span.address, None, None, pitch_bytes)
    return _CopyEnd(0, 0, _ON_DEVICE, None, span.address, None, pitch_bytes)


@lru_cache(maxsize=1)
def _quick_calls() -> ctypes.PyDLL:
    """The driver's library, for calls that keep the GIL. Raises OSError where it is missing."""
    library = ctypes.PyDLL(LIBRARY)
    pointer = ctypes.c_void_p
    library.cuCtxPushCurrent_v2.argtypes = [pointer]
    library.cuCtxPopCurrent_v2.argtypes = [pointer]
    library.cuEventRecord.argtypes = [pointer, pointer]
    library.cuEventQuery.argtypes = [pointer]
    library.cuStreamWaitEvent.argtypes = [pointer, pointer, ctypes.c_uint]
    library.cuMemcpyAsync.argtypes = [pointer, pointer, ctypes.c_size_t, pointer]
    library.cuMemcpy2DAsync_v2.argtypes = [ctypes.POINTER(_Copy2d), pointer]
    return library


class _Innermost(threading.local):
    """The driver whose context this thread made current last; None outside of all blocks."""

    driver: CudaDriver | None = None


_HERE = _Innermost()


class Current:
    """A block in which a driver's context is current in this thread. Blocks nest, those of other GPUs included.

    Raises DriverError where the context is gone: another library reset the GPU, or the process is a fork.
    """

    __slots__ = ("_before", "_driver")

    def __init__(self, driver: CudaDriver) -> None:
        self._driver = driver
        self._before: CudaDriver | None = None

    def __enter__(self) -> None:
        before = _HERE.driver
        if before is not self._driver:
            self._driver.push()
        self._before, _HERE.driver = before, self._driver

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before = _HERE.driver = self._before
        if before is self._driver:
            return
        try:
            self._driver.pop()
        except DriverError as failed:
            if isinstance(error, DriverError):  # the first cause
                raise DriverError(str(error), harm=Harm.DEVICE) from error
            raise failed


class CudaDriver:
    """One GPU, by its primary context or by the context of another library: a `Driver`."""

    def __init__(self, index: int, context: int | None = None) -> None:
        """Open the GPU `cuda:index`. Without `context`, its primary context is retained until `close`.

        `context` is a `CUcontext` of that GPU, as an integer. It belongs to whoever made it: it is neither retained nor
        released, and has to live until this driver is closed.

        Raises MissingExtra without cuda-bindings, DeviceUnavailable where it cannot be used, DriverError when the GPU
        gives no context, or `context` is one of another GPU.
        """
        self.index = index
        self.foreign_context = context or 0
        self._cuda = _bindings()
        self._live: dict[str, set[int]] = {destroyer: set() for destroyer in _DESTROYERS}
        self._inside: list[None] = []
        self._is_closed = False
        self._retained: list[Any] = []
        """The GPU while this driver retains its primary context."""
        self._quiet_stream = 0
        self._device = self._found(index)
        self._quick = _quick_calls()
        self.name = self._name()
        self.compute_capability = self._attribute("MAJOR"), self._attribute("MINOR")
        self._context = int(self._retain()) if context is None else context
        try:
            with self.current():
                if context is not None:
                    self._check_device()
                self._quiet_stream = self.create_stream()
        except DriverError:
            self.close()
            raise

    def current(self) -> AbstractContextManager[None]:
        """Make the context this thread's; no thread keeps it when the outermost block is left."""
        return Current(self)

    def push(self) -> None:
        """Make the context current, for `Current`. Raises DriverError; then nothing was pushed."""
        self._inside.append(None)  # before the question: `close` answers first, and counts then
        try:
            if self._is_closed:
                raise DriverError(f"cuda:{self.index} was closed", harm=Harm.DEVICE)
            self._checked("cuCtxPushCurrent", self._quick.cuCtxPushCurrent_v2(self._context))
        except DriverError as error:
            self._left()
            raise DriverError(str(error), harm=Harm.DEVICE) from error

    def pop(self) -> None:
        """Make the context current that was so before, for `Current`. Raises DriverError."""
        try:
            self._checked("cuCtxPopCurrent", self._quick.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p())))
        except DriverError as error:
            raise DriverError(str(error), harm=Harm.DEVICE) from error
        finally:
            self._left()

    def _left(self) -> None:
        """The last thread that leaves a closed driver releases the context."""
        self._inside.pop()
        if self._is_closed and not self._inside:
            self._release()

    def close(self) -> None:
        """Destroy what is left and release the primary context, once no thread is in a block. Raises nothing.

        On a broken GPU nothing is destroyed: every call would only return its error again.
        """
        try:
            with suppress(DriverError), self.current():
                if self._works:
                    self._destroy_all()
                self._is_closed = True  # within the block: whoever leaves last releases the context
        finally:
            self._is_closed = True
            if not self._inside:
                self._release()

    def _destroy_all(self) -> None:
        """Whatever a call returns, the others are made; none is questioned, since the quiet stream goes, too."""
        for destroyer, handles in self._live.items():
            while handles:
                self._asked(getattr(self._cuda, destroyer), handles.pop())

    def _release(self) -> None:
        with suppress(IndexError):
            device = self._retained.pop()  # by one thread only
            self._asked(self._cuda.cuDevicePrimaryCtxRelease, device)

    def _found(self, index: int) -> Any:
        try:
            self._call(self._cuda.cuInit, 0)
        except RuntimeError as error:  # the bindings do not find the driver's library
            raise DeviceUnavailable(f"cuda:{index} cannot be used: {driver_facts().reason or error}") from error
        return self._call(self._cuda.cuDeviceGet, index)

    def _name(self) -> str:
        name: bytes = self._call(self._cuda.cuDeviceGetName, _NAME_BYTES, self._device)
        return name.partition(b"\0")[0].decode(errors="replace")

    def _attribute(self, part: str) -> int:
        number = getattr(self._cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}")
        return int(self._call(self._cuda.cuDeviceGetAttribute, number, self._device))

    def _retain(self) -> Any:
        context = self._call(self._cuda.cuDevicePrimaryCtxRetain, self._device)
        self._retained.append(self._device)
        return context

    def _check_device(self) -> None:
        device = int(self._call(self._cuda.cuCtxGetDevice))
        if device != int(self._device):
            raise DriverError(f"the given context is one of cuda:{device}, not of cuda:{self.index}")

    def free_memory_bytes(self) -> tuple[int, int]:
        """How much memory is free, and how much there is."""
        free, total = self._called(self._cuda.cuMemGetInfo)
        return int(free), int(total)

    def allocate(self, size_bytes: int) -> int:
        """Memory of the GPU."""
        return self._made("cuMemFree", self._cuda.cuMemAlloc, size_bytes)

    def free(self, address: int) -> None:
        """Give it back."""
        self._destroyed("cuMemFree", address)

    def allocate_pinned(self, size_bytes: int) -> int:
        """Pinned host memory."""
        return self._made("cuMemFreeHost", self._cuda.cuMemHostAlloc, size_bytes, 0)

    def free_pinned(self, address: int) -> None:
        """Give it back."""
        self._destroyed("cuMemFreeHost", address)

    def retire(self, address: int, size_bytes: int, *, after: Sequence[int]) -> Sequence[int]:
        """Whoever has it next waits for the same events."""
        del address, size_bytes
        return after

    def create_stream(self) -> int:
        """A stream that does not wait for the default stream."""
        return self._made("cuStreamDestroy", self._cuda.cuStreamCreate, _STREAM_NON_BLOCKING)

    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream."""
        self._destroyed("cuStreamDestroy", stream)

    def synchronize(self, stream: int) -> None:
        """Wait for everything queued on a stream. CUDA may spin meanwhile: the steady state waits for events."""
        self._call(self._cuda.cuStreamSynchronize, stream)

    def create_event(self) -> int:
        """An event without timing, for which the host waits without spinning."""
        return self._made("cuEventDestroy", self._cuda.cuEventCreate, _EVENT_BLOCKING_SYNC | _EVENT_DISABLE_TIMING)

    def destroy_event(self, event: int) -> None:
        """Destroy an event."""
        self._destroyed("cuEventDestroy", event)

    def record(self, event: int, *, stream: int) -> None:
        """The event is the point behind everything queued on that stream."""
        self._checked("cuEventRecord", self._quick.cuEventRecord(event, stream))

    def wait(self, stream: int, *, event: int) -> None:
        """Let a stream wait for an event."""
        self._checked("cuStreamWaitEvent", self._quick.cuStreamWaitEvent(stream, event, 0))

    def synchronize_event(self, event: int) -> None:
        """Wait for the point of an event."""
        self._call(self._cuda.cuEventSynchronize, event)

    def is_done(self, event: int) -> bool:
        """Whether it is reached."""
        code = self._quick.cuEventQuery(event)
        if code == _NOT_READY:
            return False
        self._checked("cuEventQuery", code)
        return True

    def copy(self, target: Span, source: Span, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue a copy: of one piece where rows touch each other, which costs the host less, else of rows."""
        target_pitch, source_pitch = max(target.pitch_bytes, width_bytes), max(source.pitch_bytes, width_bytes)
        if rows == 1 or width_bytes == target_pitch == source_pitch:
            code = self._quick.cuMemcpyAsync(target.address, source.address, width_bytes * rows, stream)
            self._checked("cuMemcpyAsync", code)
            return
        copy = _Copy2d(_copy_end(source, source_pitch), _copy_end(target, target_pitch), width_bytes, rows)
        self._checked("cuMemcpy2DAsync", self._quick.cuMemcpy2DAsync_v2(copy, stream))

    def fill(self, target: Span, value: int, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue that bytes become a value."""
        pitch = max(target.pitch_bytes, width_bytes)
        self._call(self._cuda.cuMemsetD2D8Async, target.address, pitch, value, width_bytes, rows, stream)

    def load(self, source: KernelSource) -> int:
        """Compile a source for this GPU and load it."""
        major, minor = self.compute_capability
        cubin = compile_cubin(source, architecture=10 * major + minor)
        return self._made("cuModuleUnload", self._cuda.cuModuleLoadData, cubin)

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
            executable = self._made("cuGraphExecDestroy", self._cuda.cuGraphInstantiate, graph, 0)
        except DriverError:  # the first cause
            self._asked(self._cuda.cuGraphDestroy, graph)
            raise
        self._call(self._cuda.cuGraphDestroy, graph)
        return executable

    def abandon_capture(self, stream: int) -> None:
        """Forget the noted work. CUDA reports that a capture was spoiled, and ends it."""
        codes = self._cuda.CUresult
        result, values = self._asked(self._cuda.cuStreamEndCapture, stream)
        if result == codes.CUDA_SUCCESS:
            self._call(self._cuda.cuGraphDestroy, *values)
        elif result not in (codes.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, codes.CUDA_ERROR_STREAM_CAPTURE_UNJOINED):
            self._check("cuStreamEndCapture", result)

    def launch_graph(self, graph: int, *, stream: int) -> None:
        """Queue all work of a graph."""
        self._call(self._cuda.cuGraphLaunch, graph, stream)

    def destroy_graph(self, graph: int) -> None:
        """Destroy a graph; CUDA keeps what is under way until it is done."""
        self._destroyed("cuGraphExecDestroy", graph)

    def _made(self, destroyer: str, maker: Callable[..., Any], *arguments: Any) -> int:
        """A new object, which `close` destroys unless somebody did."""
        handle = int(self._call(maker, *arguments))
        self._live[destroyer].add(handle)
        return handle

    def _destroyed(self, destroyer: str, handle: int) -> None:
        self._call(getattr(self._cuda, destroyer), handle)
        self._live[destroyer].discard(handle)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        values = self._called(function, *arguments)
        return values[0] if values else None

    def _called(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        result, values = self._asked(function, *arguments)
        self._check(function.__name__, result)
        return values

    def _asked(self, function: Callable[..., Any], *arguments: Any) -> tuple[Any, list[Any]]:
        """The result and the values of a call. A result that these bindings do not know is an unknown error."""
        try:
            result, *values = function(*arguments)
        except (KeyError, ValueError):  # a driver may be newer than the bindings
            return self._cuda.CUresult.CUDA_ERROR_UNKNOWN, []
        return result, values

    def _checked(self, call: str, code: int) -> None:
        """Look at the result of a quick call, a number."""
        if code:
            try:
                result = self._cuda.CUresult(code)
            except ValueError:  # a driver may be newer than the bindings
                result = self._cuda.CUresult.CUDA_ERROR_UNKNOWN
            self._check(call, result)

    def _check(self, call: str, result: Any) -> None:
        codes = self._cuda.CUresult
        if result != codes.CUDA_SUCCESS:
            raise self._refused(f"{call}: {result.name}", out_of_memory=result == codes.CUDA_ERROR_OUT_OF_MEMORY)

    def _refused(self, message: str, *, out_of_memory: bool) -> DriverError:
        """The error to raise. After one of a kernel or of the hardware, CUDA answers every question with it."""
        if out_of_memory:
            return DriverError(message, harm=Harm.MEMORY)
        return DriverError(message, harm=Harm.NONE if self._works else Harm.DEVICE)

    @property
    def _works(self) -> bool:
        """Whether the GPU does. A thread that captures gets no answer, for that reason alone."""
        codes = self._cuda.CUresult
        state, _ = self._asked(self._cuda.cuStreamQuery, self._quiet_stream)
        captures = (codes.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, codes.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        return state in (codes.CUDA_SUCCESS, codes.CUDA_ERROR_NOT_READY, *captures)


def _bindings() -> Any:
    """Imported where it is used: few machines have it."""
    try:
        return import_module("cuda.bindings.driver")
    except ModuleNotFoundError as error:
        raise MissingExtra(BINDINGS, extra=extra_for_driver(), purpose=_PURPOSE) from error
    except ImportError as error:
        raise DeviceUnavailable(f"{_PURPOSE} needs cuda-bindings, which cannot be imported: {error}") from error
