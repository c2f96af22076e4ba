"""CUDA and pinned memory as its users hold it: leases of pools, and what other libraries lend.

A lease may be dropped in whatever thread; its memory is lent again once the GPU has done what was queued with it. Using
it after an explicit release raises.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.errors import CudaError, SurfaceReleased
from sightline.media.device_array import DeviceEvent, DeviceStream

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice
    from sightline.devices.cuda.pools import Pool


class _Postponed(threading.local):
    """What a thread does later; None where it captures nothing, on whatever GPU."""

    works: deque[Callable[[], None]] | None = None


_HERE = _Postponed()


@contextmanager
def postponing() -> Iterator[None]:
    """A block in which this thread captures; at its end it does what was postponed."""
    _HERE.works = works = deque[Callable[[], None]]()
    try:
        yield
    finally:
        _HERE.works = None
        for work in works:
            with suppress(CudaError):  # the guard keeps the cause, and names it to whoever uses the GPU next
                work()


def when_allowed(work: Callable[[], None]) -> None:
    """Do it now, or behind the capture of this thread: what CUDA refuses to a thread that captures, and spoils it."""
    if _HERE.works is None:
        work()
    else:
        _HERE.works.append(work)


class _Held:
    """Memory with the streams on which it is used."""

    __slots__ = ("__weakref__", "_address", "_ends", "_gpu", "_is_released", "_streams", "size_bytes", "what")

    def __init__(self, gpu: CudaDevice, address: int, *, size_bytes: int, what: str) -> None:
        self.size_bytes = size_bytes
        self.what = what
        self._gpu = gpu
        self._address = address
        self._is_released = False
        self._streams: dict[int, DeviceStream] = {}
        self._ends: dict[int, DeviceEvent] = {}

    def __repr__(self) -> str:
        state = "released" if self._is_released else f"{self._address:#x}"
        return f"{type(self).__name__}({self.what}, {self.size_bytes} bytes, {state})"

    @property
    def gpu(self) -> CudaDevice:
        """The GPU whose memory it is, or that copies to and from it."""
        return self._gpu

    @property
    def address(self) -> int:
        """Where it lies. Raises SurfaceReleased after its release."""
        self.check()
        return self._address

    def check(self) -> None:
        """Raise SurfaceReleased after its release."""
        if self._is_released:
            raise SurfaceReleased(f"{self.what}: memory was used after it was given back")

    def used_on(self, stream: DeviceStream) -> None:
        """Work that uses it was, or is about to be, queued on that stream."""
        self.check()
        self._streams[stream.handle] = stream
        self._ends.pop(stream.handle, None)

    def used_until(self, event: DeviceEvent) -> None:
        """All work on that event's stream that uses the memory is queued, and done at that point. Nothing is recorded
        then when it goes back; whoever goes on to use it there says `used_on` again.
        """
        for known in [end for end in list(self._ends.values()) if end.is_known_done]:
            self._ends.pop(known.stream.handle, None)
        self._ends[event.stream.handle] = event
        self._streams.pop(event.stream.handle, None)

    @property
    def is_open(self) -> bool:
        """Whether work may still be queued that uses it: `last_uses` has to ask CUDA for points."""
        return bool(self._streams)

    def last_uses(self) -> list[DeviceEvent]:
        """The points at which everybody is done with it to whom work on it was given so far; not those that are known
        to be reached.
        """
        ends = [event for event in list(self._ends.values()) if not event.is_known_done]
        return ends + [stream.record() for stream in list(self._streams.values())]


class Lease(_Held):
    """Memory of a pool."""

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool, address: int, *, size_bytes: int) -> None:
        super().__init__(pool.gpu, address, size_bytes=size_bytes, what=pool.name)
        self._pool = pool

    def __del__(self) -> None:
        self._give_back()

    def _give_back(self) -> None:
        if self._is_released or self._gpu.guard.is_closed:
            return
        self._is_released = True
        last_uses, is_open = self.last_uses, self.is_open
        self._pool.take_back(self._address, size_bytes=self.size_bytes, last_uses=last_uses, is_open=is_open)


class CudaBuffer(Lease):
    """Memory of a GPU."""

    __slots__ = ()

    def release(self) -> None:
        """Give it back now, though others may still hold it: whoever uses it from now on gets SurfaceReleased. Harmless
        when it was given back before.
        """
        self._give_back()


class PinnedBuffer(Lease):
    """Host memory that the GPU copies to and from by itself. It goes back when no view of it is left."""

    __slots__ = ()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.size_bytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def array(
        self, shape: tuple[int, ...], *, dtype: npt.DTypeLike = np.uint8, offset_bytes: int = 0
    ) -> npt.NDArray[Any]:
        """A dense view of a part; it keeps the memory."""
        bytes_ = prod(shape) * np.dtype(dtype).itemsize
        return np.asarray(self)[offset_bytes : offset_bytes + bytes_].view(dtype).reshape(shape)


class BorrowedMemory(_Held):
    """Memory of a GPU that another library owns and may take back: a decoder's image, another library's tensor.

    `keep` is held as long as this is. The lender is told nothing: whoever borrowed calls `release` before the memory
    is the lender's again, and lets the lender's stream wait for the points that it returns.
    """

    __slots__ = ("_keep",)

    def __init__(self, gpu: CudaDevice, address: int, *, size_bytes: int, what: str, keep: object = None) -> None:
        super().__init__(gpu, address, size_bytes=size_bytes, what=what)
        self._keep = keep

    def release(self) -> list[DeviceEvent]:
        """Arrays of this memory raise SurfaceReleased from now on. Returns the points at which its users are done."""
        if self._is_released:
            return []
        self._is_released = True
        self._keep = None
        return self.last_uses()
