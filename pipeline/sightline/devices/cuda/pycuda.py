"""pycuda beside Sightline on one GPU: one context, arrays without copies, kernels in the order of our streams.

pycuda keeps a stack of contexts for each thread, and what it makes (modules, streams, memory) belongs to the context on
top. Its calls go by the context that CUDA knows, which is the same one in a block of `Pycuda`.

It follows the sources of pycuda 2026.1. Two things of pycuda are in the way: it ends the process when a thread ends
with a context on its stack, so a block pops what it pushed; and an object that is dropped elsewhere is not freed, so
drop pycuda's objects within a block.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sightline.devices.cuda.memory import BorrowedMemory
from sightline.errors import CudaError, MissingExtra
from sightline.media.device_array import DeviceArray

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice
    from sightline.media.device_array import DeviceStream

_PURPOSE = "sharing a GPU with pycuda"


def current_context(index: int) -> Any:
    """The context of pycuda on `cuda:index` in which this thread works; None where it works in none.

    pycuda is not imported for the question.
    """
    if (pycuda := sys.modules.get("pycuda.driver")) is None or (context := pycuda.Context.get_current()) is None:
        return None
    cuda = import_module("cuda.bindings.driver")
    result, device = cuda.cuCtxGetDevice()
    return context if result == cuda.CUresult.CUDA_SUCCESS and int(device) == index else None


@lru_cache
def primary_context(index: int) -> Any:
    """The primary context of `cuda:index` as pycuda retains it, to the end of the process: what pycuda makes does not
    outlive its context object, and pycuda releases one only in the thread that retained it.
    """
    return sys.modules["pycuda.driver"].Device(index).retain_primary_context()


def is_primary(context: int, index: int) -> bool:
    """Whether a context is the primary one of `cuda:index`."""
    cuda = import_module("cuda.bindings.driver")
    _, device = cuda.cuDeviceGet(index)
    _, _, is_active = cuda.cuDevicePrimaryCtxGetState(device)
    if not is_active:  # retaining it would make it
        return False
    _, primary = cuda.cuDevicePrimaryCtxRetain(device)
    cuda.cuDevicePrimaryCtxRelease(device)
    return int(primary) == context


class Pycuda:
    """A block in which pycuda works in the context of an open GPU; for one thread at a time, and it may be nested.

    Example: a kernel of `SourceModule` as an element's operator, in the order of the frames:

    ```python
    class Brighten(Operator):
        def __init__(self, gpu: CudaDevice) -> None:
            self._pycuda = Pycuda(gpu)
            with self._pycuda:
                self._kernel = SourceModule(CODE).get_function("brighten")
                self._stream = pycuda.driver.Stream()
            self._queue = gpu.stream_of(self._stream.handle)  # the same stream, as Sightline calls it

        def process(self, batch: Batch) -> Batch:
            return batch.with_surfaces([self._brightened(frame.surface) for frame in batch.frames])

        def _brightened(self, surface: Surface) -> Surface:
            own = surface.writable(stream=self._queue)
            luma, _ = own.arrays_on(self._queue)
            height, width = luma.shape
            with self._pycuda:
                self._kernel(luma, np.int32(luma.strides[0]), np.int32(width), np.int32(height),
                             grid=(-(-width // 32), height), block=(32, 1, 1), stream=self._stream)
            return own.written(self._queue.record())
    ```
    """

    def __init__(self, gpu: CudaDevice) -> None:
        """Raises MissingExtra without pycuda, CudaError when pycuda has no context of this GPU."""
        self.gpu = gpu
        try:
            self._driver = import_module("pycuda.driver")
            self._arrays = import_module("pycuda.gpuarray")
        except ImportError as error:
            raise MissingExtra("pycuda", extra="pycuda", purpose=_PURPOSE) from error
        try:
            self._driver.init()
            self._context = gpu.pycuda_context or primary_context(gpu.index)
        except self._driver.Error as error:
            raise CudaError(f"{gpu}: pycuda cannot work on it: {error}") from error

    def __enter__(self) -> Self:
        """Raises CudaError; CudaFailed when the GPU is broken or closed."""
        self.gpu.guard.check()
        try:
            self._context.push()
        except self._driver.Error as error:
            raise CudaError(f"{self.gpu}: pycuda cannot enter its context: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver.Context.pop()

    def gpu_array(self, array: DeviceArray, *, stream: DeviceStream) -> Any:
        """An array as pycuda's `GPUArray`: the same memory, which it keeps. To be used on that stream, within a block.

        The stream waits for the content. `stream` is one of pycuda, as Sightline calls it: `gpu.stream_of(s.handle)`.
        Whoever writes to it passes on `array.written(stream.record())`.
        """
        array.on(stream)
        return self._arrays.GPUArray(array.shape, array.dtype, base=array, gpudata=array.address, strides=array.strides)

    def array(self, gpu_array: Any, *, stream: DeviceStream) -> DeviceArray:
        """A `GPUArray` as an array of Sightline: the same memory, which it keeps. Its content is there when what is
        queued on that stream so far is done.

        Drop it within a block when nobody else holds the `GPUArray`. Raises ValueError when its rows are not dense.
        """
        address, size = int(gpu_array.gpudata), gpu_array.mem_size * gpu_array.dtype.itemsize
        owner = BorrowedMemory(self.gpu, address, size_bytes=size, what="a GPUArray", keep=gpu_array)
        array = DeviceArray(address, gpu_array.shape, gpu_array.dtype, owner, gpu_array.strides)
        return array.written(stream.record())
