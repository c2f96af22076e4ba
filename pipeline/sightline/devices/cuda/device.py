"""One GPU as a run uses it: its driver, streams, pools, kernels, counters, and whether it still works."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda import transfers
from sightline.devices.cuda.budget import Budget, limit_of
from sightline.devices.cuda.driver import Driver, KernelSource, Span
from sightline.devices.cuda.graphs import Graph, Graphs
from sightline.devices.cuda.memory import PinnedBuffer, when_allowed
from sightline.devices.cuda.pools import CudaPool, PinnedPool
from sightline.devices.cuda.progress import Progress
from sightline.devices.cuda.streams import CudaKernels, CudaStream, Guard, Handles
from sightline.devices.cuda.transfers import HostCopies, TransferCounter
from sightline.errors import CudaError
from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.device_array import DeviceArray, DeviceStream

_LOG = logging.getLogger(__name__)
_MOST_PINNED_BYTES = 4 * 2**30


class CudaDevice:
    """One GPU, for one run; another run, or another library, shares its primary context. From any thread.

    The driver belongs to the device, which closes it. Everything that it makes (streams, arrays, surfaces, kernels)
    needs it open. After `close`, what is still held goes on to work, and the GPU is let go of with the last of it.
    Every call may raise CudaError; when the GPU is broken, CudaFailed with the first cause.
    """

    def __init__(self, driver: Driver, *, pycuda_context: Any = None) -> None:
        self._driver = driver
        self.pycuda_context = pycuda_context
        """The context of pycuda in which it works, and which it keeps alive; None where the program had none."""
        self._lock = RLock()
        self._held = 1
        self._is_closing = False
        self.guard = Guard(driver)
        self.transfers = TransferCounter()
        self._handles = Handles(self.guard)
        self.graphs = Graphs(self._handles, self.transfers)
        """The graphs that `capture` made."""
        self._kernels: dict[str, CudaKernels] = {}
        try:
            with self.guard("asking for its memory") as current:
                free, _ = current.free_memory_bytes()
        except CudaError:
            driver.close()
            raise
        self.budget = Budget(str(self), limit_bytes=limit_of(free))
        """What all pools of this GPU's memory may have together."""
        self._pools: weakref.WeakSet[CudaPool | PinnedPool] = weakref.WeakSet()
        self.memory = self.pool("arrays")
        """Where arrays come from that belong to no pool of their own."""
        host = Budget(f"the host's memory for {self}", limit_bytes=_MOST_PINNED_BYTES)
        self.pinned = PinnedPool(self, name=f"pinned memory for {self}", budget=host, on_host=True)
        """Host memory for copies to and from the GPU."""
        self._pools.add(self.pinned)
        weakref.finalize(self, _forget, self.guard)
        self._abandon = weakref.finalize(self, when_allowed, driver.close)
        """Closes the driver when this device is garbage together with all that holds its memory, as behind an error."""
        self._abandon.atexit = False

    def __str__(self) -> str:
        return f"cuda:{self.index}"

    @property
    def index(self) -> int:
        """The number N of `cuda:N`."""
        return self._driver.index

    @property
    def name(self) -> str:
        """What the GPU is called."""
        return self._driver.name

    @property
    def foreign_context(self) -> int:
        """Another library's context in which it works, a `CUcontext`; 0 for the GPU's primary context."""
        return self._driver.foreign_context

    @property
    def compute_capability(self) -> tuple[int, int]:
        """NVIDIA's compute capability, such as (8, 6)."""
        return self._driver.compute_capability

    @cached_property
    def main_stream(self) -> CudaStream:
        """The stream for work that names none."""
        return self.stream("main")

    def stream(self, name: str) -> CudaStream:
        """A stream of its own for some work; `name` says in messages what for."""
        return self._handles.stream(name)

    def stream_of(self, handle: int) -> CudaStream:
        """Another library's stream, by CUDA's handle; whoever made it keeps it alive."""
        name = f"{handle:#x} of another library"
        return CudaStream(self._handles, handle, name=name, progress=Progress(), is_ours=False)

    def pool(self, name: str, *, limit_count: int | None = None, limit_bytes: int | None = None) -> CudaPool:
        """A bounded store of this GPU's memory, such as the images of one decoder; `limit_count` leases at most."""
        pool = CudaPool(self, name=name, budget=self.budget, limit_bytes=limit_bytes, limit_count=limit_count)
        self._pools.add(pool)
        return pool

    def kernels(self, source: Path | KernelSource) -> CudaKernels:
        """The kernels of a `.cu` file, compiled and loaded at the first call for that content.

        Raises KernelError when the source is wrong, MissingExtra where there is no compiler.
        """
        read = KernelSource.read(source) if isinstance(source, Path) else source
        with self._lock:
            if read.digest not in self._kernels:
                self._kernels[read.digest] = CudaKernels(self, read)
            return self._kernels[read.digest]

    def empty(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike, *, stream: DeviceStream, pool: CudaPool | None = None
    ) -> DeviceArray:
        """A new dense array for use on that stream first; its content is not initialised."""
        element = np.dtype(dtype)
        size = prod(shape) * element.itemsize
        buffer = (pool or self.memory).lease(size, stream=stream)
        return DeviceArray(buffer.address, tuple(shape), element, buffer)

    def new_surface(
        self,
        pixel_format: PixelFormat,
        *,
        size_wh: tuple[int, int],
        stream: DeviceStream,
        matrix: ColorMatrix = ColorMatrix.BT601,
        color_range: ColorRange = ColorRange.LIMITED,
        pool: CudaPool | None = None,
        is_wide: bool = False,
    ) -> Surface:
        """A new surface in this GPU's memory, exclusive, for use on that stream first; pixels are not initialised.

        With `is_wide`, samples have 16 bits of which the upper ones count: what decoders give for 10 and 12 bits.
        Its planes lie one behind the other, with rows at multiples of 256 bytes. When what fills it is queued, say so
        with `surface.written(stream.record())`.
        """
        shapes, sample = pixel_format.plane_shapes(size_wh), np.uint16 if is_wide else np.uint8
        arrays = transfers.place_arrays(pool or self.memory, shapes, dtype=sample, stream=stream)
        return Surface(pixel_format, size_wh, tuple(arrays), matrix, color_range, exclusive=True)

    def upload(self, arrays: Sequence[npt.NDArray[Any]], *, stream: DeviceStream | None = None) -> list[DeviceArray]:
        """Copies of arrays of the host, counted, ready in the order of the stream. The host may change its own at once.

        Arrays of the same type with two or more axes lie as the planes of a surface do.
        """
        with self.guard("copying to the GPU"):
            where = stream or self.stream("to the GPU")
            targets = self._like([array.shape for array in arrays], [array.dtype for array in arrays], stream=where)
            uploaded = transfers.upload(self, arrays, targets, stream=where)
            for array in uploaded:
                if array.ready is not None:
                    array.owner.used_until(array.ready)
            return uploaded

    def upload_into(
        self, arrays: Sequence[npt.NDArray[Any]], targets: Sequence[DeviceArray], *, stream: DeviceStream
    ) -> list[DeviceArray]:
        """Copy arrays of the host into arrays that there are, counted; returns the targets with their new content.

        For a table whose address stays, of which only the first rows are used: `upload_into([jobs],
        [table.rows(0, len(jobs))], stream=stream)`. The host may change its own at once. Work of other streams that
        still reads the targets is waited for by `settle`. Raises ValueError for other shapes or types.
        """
        return transfers.upload(self, arrays, targets, stream=stream)

    def download(self, arrays: Sequence[DeviceArray], *, stream: DeviceStream | None = None) -> HostCopies:
        """Begin to copy arrays to the host, counted; `wait()` of what is returned gives them.

        The copies are made beside other work, or in the order of a stream. Whoever names one tells the memory when the
        stream is done with it: `array.owner.used_until(copies.event)`, or it is kept until what is queued there by then
        is done.
        """
        with self.guard("copying to the host"):
            copies = transfers.download(self, arrays, stream=stream or self.stream("to the host"))
        if stream is None:
            for array in arrays:
                array.owner.used_until(copies.event)
        return copies

    def copy_to_pinned(
        self, array: DeviceArray, target: PinnedBuffer, *, stream: DeviceStream, offset_bytes: int = 0
    ) -> None:
        """Queue a copy of an array, dense, into pinned memory that the caller keeps (`gpu.pinned.lease`), counted.

        `target.array(shape, dtype=..., offset_bytes=...)` shows it when an event behind the copy was waited for, and
        until the next copy. In a capture it belongs to the graph, and is counted at each launch. Raises ValueError when
        it does not fit.
        """
        transfers.copy_to_pinned(self, array, target, offset_bytes=offset_bytes, stream=stream)

    def duplicate(self, arrays: Sequence[DeviceArray], *, stream: DeviceStream | None = None) -> list[DeviceArray]:
        """Copies within this GPU's memory, ready in the order of the stream."""
        with self.guard("copying on the GPU"):
            where = stream or self.stream("copies")
            targets = self._like([array.shape for array in arrays], [array.dtype for array in arrays], stream=where)
            return self.copy(arrays, targets, stream=where)

    def copy(
        self, arrays: Sequence[DeviceArray], targets: Sequence[DeviceArray], *, stream: DeviceStream
    ) -> list[DeviceArray]:
        """Copy arrays into others of the same shapes; returns the targets with their new content.

        Raises ValueError for other shapes or types.
        """
        return transfers.copy_arrays(self, arrays, targets, stream=stream)

    def settle(self, arrays: Sequence[DeviceArray], *, stream: DeviceStream | None = None) -> list[DeviceArray]:
        """The same arrays, to be written to: ready when all work is done that was queued so far and uses them."""
        with self.guard("waiting for work that uses memory"):
            where = stream or self.main_stream
            for owner in {id(array.owner): array.owner for array in arrays}.values():
                for event in owner.last_uses():
                    where.wait(event)
            for array in arrays:
                array.on(where)
            event = where.record()
            return [array.written(event) for array in arrays]

    def fill(self, array: DeviceArray, value: int, *, stream: DeviceStream) -> DeviceArray:
        """Set every byte of an array; returns it with its new content."""
        array.on(stream)
        with self.guard("filling memory") as driver:
            span = Span(array.address, array.pitch_bytes)
            rows = array.shape[0] if array.shape else 1
            if array.nbytes:
                driver.fill(span, value, width_bytes=array.row_bytes, rows=rows, stream=stream.handle)
        return array.written(stream.record())

    def capture(self, stream: CudaStream, queue: Callable[[], object], *, name: str, keep: object = None) -> Graph:
        """What `queue` queues on a stream, as a graph to be launched there; nothing of it is done yet.

        `queue` launches kernels, calls `copy`, `fill` and `copy_to_pinned`, and lets other libraries queue. Addresses
        and numbers are those of now at each launch. It takes no memory, waits for nothing (arrays are ready on this
        stream, or `ready` is None), and nobody else queues on the stream meanwhile. Arrays that are written in a graph
        are ready behind a launch, `array.written(stream.record())`, whatever `copy` or `fill` returned.
        Queue the work plainly once before: what is used first is loaded first, which a capture forbids.

        `keep` is held as long as the graph is: all memory that the work uses. `name` is for messages.

        Raises CudaError when CUDA or the code refuses: then nothing was queued, the stream is as it was, and the same
        work can be queued plainly. What else `queue` raises is passed on.
        """
        return self.graphs.capture(stream, queue, name=name, keep=keep)

    def hold(self) -> None:
        """Somebody holds memory of this GPU."""
        with self._lock:
            self._held += 1

    def let_go(self) -> None:
        """Somebody holds it no more."""
        with self._lock:
            self._held -= 1
            is_last = self._held == 0
        if is_last:
            when_allowed(self._shut)

    def close(self) -> None:
        """The run is over. Waits for what is queued; what is still held goes on to work. Harmless when called again."""
        with self._lock:
            if self._is_closing:
                return
            self._is_closing = True
        self.let_go()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed and nobody holds anything of it any more."""
        return self.guard.is_closed

    @property
    def handle_counts(self) -> tuple[int, int]:
        """How many streams and events were made, whether they are used now or idle."""
        return self._handles.counts

    def _like(
        self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]], *, stream: DeviceStream
    ) -> list[DeviceArray]:
        if len(set(dtypes)) == 1 and all(len(shape) >= 2 for shape in shapes):
            return transfers.place_arrays(self.memory, shapes, dtype=dtypes[0], stream=stream)
        return [self.empty(shape, dtype, stream=stream) for shape, dtype in zip(shapes, dtypes, strict=True)]

    def _shut(self) -> None:
        """Let go of everything; after a failure, of the driver alone. What was not raised yet is logged."""
        if self.guard.is_closed:
            return
        was_reported = self.guard.is_reported
        try:
            with self.guard("finishing its work", waits=True) as driver:
                self._handles.synchronize(driver)
                for pool in list(self._pools):
                    pool.close()
                self.graphs.destroy(driver)
                self._handles.destroy(driver)
        except CudaError as error:
            if not was_reported:
                _LOG.warning("%s", error)
        finally:
            self.guard.is_closed = True
            self._abandon.detach()
            self._driver.close()


def _forget(guard: Guard) -> None:
    """The interpreter ends, or the device is garbage: its leases may ask nothing of the driver any more."""
    guard.is_closed = True
