"""Arrays in CUDA memory: protocols of memory, streams and events, DLPack.

A capsule holds a `DLManagedTensor` (`dltensor`) or, for consumers of version 1, a `DLManagedTensorVersioned`
(`dltensor_versioned`). Who consumes it renames it to `used_...` and calls the deleter when he is done; until then,
the array and the lease of its memory are kept here.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np
import numpy.typing as npt


class DeviceEvent(Protocol):
    """A point in the work of a stream: everything that was queued there before it was recorded."""

    @property
    def handle(self) -> int:
        """What CUDA calls it: a `CUevent`."""
        ...

    @property
    def stream(self) -> DeviceStream:
        """The stream on which it was recorded."""
        ...

    @property
    def is_known_done(self) -> bool:
        """Whether the host has seen that the work before it is done. Asks nobody."""
        ...

    def wait(self) -> None:
        """Wait, without the GIL, until the work before it is done."""
        ...


class DeviceStream(Protocol):
    """Work that a GPU does one after another, beside that of other streams."""

    @property
    def handle(self) -> int:
        """What CUDA calls it: a `CUstream`."""
        ...

    def record(self) -> DeviceEvent:
        """The point that stands behind everything queued so far."""
        ...

    def wait(self, event: DeviceEvent) -> None:
        """Let what is queued from now on begin after that point; returns at once."""
        ...


class DeviceMemory(Protocol):
    """Who holds the memory of an array: a lease of a pool, or the guardian of another library's memory."""

    @property
    def gpu(self) -> PixelDevice:
        """The GPU in whose memory it lies."""
        ...

    def check(self) -> None:
        """Raise SurfaceReleased when the memory was given back."""
        ...

    def used_on(self, stream: DeviceStream) -> None:
        """Work that uses the memory was queued on that stream: nobody else gets it before that work is done."""
        ...

    def used_until(self, event: DeviceEvent) -> None:
        """All work on that event's stream that uses the memory is queued, and is done at that point."""
        ...

    def last_uses(self) -> Sequence[DeviceEvent]:
        """The points at which all work is done that was queued so far and uses the memory. Those that are known to be
        reached are left out.
        """
        ...


class PixelDevice(Protocol):
    """What surfaces and arrays need of a GPU. Every copy between host and GPU is counted."""

    @property
    def index(self) -> int:
        """The number N of `cuda:N`."""
        ...

    def upload(self, arrays: Sequence[npt.NDArray[Any]], *, stream: DeviceStream | None = None) -> list[DeviceArray]:
        """Copies of arrays of the host, ready in the order of the stream."""
        ...

    def download(self, arrays: Sequence[DeviceArray]) -> Download:
        """Begin to copy arrays to the host."""
        ...

    def duplicate(self, arrays: Sequence[DeviceArray], *, stream: DeviceStream | None = None) -> list[DeviceArray]:
        """Copies in the same GPU's memory, ready in the order of the stream."""
        ...

    def settle(self, arrays: Sequence[DeviceArray], *, stream: DeviceStream | None = None) -> list[DeviceArray]:
        """The same arrays, to be written to: ready when all work is done that was queued so far and uses them."""
        ...

    def stream_of(self, handle: int) -> DeviceStream:
        """Another library's stream, by CUDA's handle."""
        ...


class Download(Protocol):
    """Copies to the host that are under way."""

    def wait(self) -> list[npt.NDArray[Any]]:
        """Wait for them, without the GIL. The arrays are read-only and lie in pinned memory; they keep it."""
        ...


@lru_cache(maxsize=1024)
def dense_strides(shape: tuple[int, ...], *, item_bytes: int, pitch_bytes: int | None = None) -> tuple[int, ...]:
    """The strides in bytes of an array whose rows (its first axis) are `pitch_bytes` apart, dense when it is None."""
    strides = [item_bytes]
    for length in reversed(shape[1:]):
        strides.append(strides[-1] * length)
    if pitch_bytes is not None:
        strides[-1] = pitch_bytes
    return tuple(reversed(strides[: len(shape)]))


def row_bytes(shape: tuple[int, ...], *, dtype: np.dtype[Any]) -> int:
    """How many bytes a row (along the first axis) of an array has."""
    return prod(shape[1:]) * dtype.itemsize


CUDA = 2
"""kDLCUDA: the number of NVIDIA GPUs among DLPack's devices."""
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Exportable(Protocol):
    """What a capsule can be made of."""

    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


class DLTensor(ctypes.Structure):
    """`DLTensor`: address, device, type, shape and strides in elements."""

    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    """`DLManagedTensor`, the form before version 1."""

    _fields_: ClassVar = [("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", _Deleter)]


class DLManagedTensorVersioned(ctypes.Structure):
    """`DLManagedTensorVersioned`, the form since version 1."""

    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


_NAMES: dict[str, Any] = {"dltensor": DLManagedTensor, "dltensor_versioned": DLManagedTensorVersioned}
_C_NAMES = {name: name.encode() for name in _NAMES}
"""Names in bytes that live as long as any capsule, which keeps no copy."""
_new_capsule: Callable[..., object] = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_is_valid: Callable[..., int] = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_of: Callable[..., int] = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_given_away: dict[int, tuple[object, ...]] = {}
"""What consumers still use, by the addresses of their structures."""


def dlpack_capsule(array: Exportable, *, is_versioned: bool) -> object:
    """A capsule of that array, which is kept alive until the consumer has called the deleter.

    Raises BufferError for a type that DLPack has no number for.
    """
    name = "dltensor_versioned" if is_versioned else "dltensor"
    count = len(array.shape)
    lengths = (ctypes.c_int64 * count)(*array.shape)
    steps = (ctypes.c_int64 * count)(*(stride // array.dtype.itemsize for stride in array.strides))
    managed = _NAMES[name]()
    managed.deleter = _DELETER
    if is_versioned:
        managed.major, managed.minor, managed.flags = 1, 0, 0
    _describe(managed.tensor, array)
    managed.tensor.shape, managed.tensor.strides = lengths, steps
    address = ctypes.addressof(managed)
    _given_away[address] = (array, managed, lengths, steps)
    return _new_capsule(address, _C_NAMES[name], ctypes.cast(_DROPPED, ctypes.c_void_p))


def _describe(tensor: Any, array: Exportable) -> None:
    code = _CODES.get(array.dtype.kind)
    if code is None:
        raise BufferError(f"DLPack has no elements of type {array.dtype}")
    tensor.data = array.address
    tensor.device_type, tensor.device_id = array.__dlpack_device__()
    tensor.ndim = len(array.shape)
    tensor.code, tensor.bits, tensor.lanes = code, array.dtype.itemsize * 8, 1


def _let_go(address: int) -> None:
    _given_away.pop(address, None)


def _drop(capsule: int) -> None:
    """A capsule goes: when nobody has consumed (and so renamed) it, neither will anybody call the deleter."""
    for name in _C_NAMES.values():
        if _is_valid(capsule, name):
            _given_away.pop(_pointer_of(capsule, name), None)


_DELETER = _Deleter(_let_go)
_DROPPED = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """An array in a GPU's memory; the host cannot look into it, only copy it (`to_host`).

    `shape` counts elements and `strides` bytes, as in NumPy; rows (the first axis) may be padded, a row is dense.
    `owner` holds the memory: while an array is there, nobody else gets it, and after an explicit release every use
    raises SurfaceReleased. `ready` is the point from which the content is there; None when it is there already.
    Work on another stream begins with `on(stream)`, which waits for that point on the GPU.

    torch, CuPy and others take it as it is, through DLPack or `__cuda_array_interface__`, and keep its memory alive.
    They may write to it where they should not: what is shared is only read.
    """

    base_address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: DeviceMemory
    strides: tuple[int, ...] = ()
    ready: DeviceEvent | None = None

    def __post_init__(self) -> None:
        if not self.strides:
            object.__setattr__(self, "strides", dense_strides(self.shape, item_bytes=self.dtype.itemsize))
        if len(self.strides) != len(self.shape):
            raise ValueError(f"an array of shape {self.shape} has {len(self.shape)} strides, not {len(self.strides)}")
        dense = dense_strides(self.shape, item_bytes=self.dtype.itemsize)
        if self.strides[1:] != dense[1:] or (self.strides and self.strides[0] < dense[0]):
            raise ValueError(f"strides {self.strides} of shape {self.shape}: rows must be dense and not overlap")

    @property
    def address(self) -> int:
        """Where its first byte lies. Raises SurfaceReleased when the memory was given back."""
        self.owner.check()
        return self.base_address

    @property
    def nbytes(self) -> int:
        """How many bytes its elements take, without the padding of rows."""
        return self.shape[0] * self.row_bytes if self.shape else self.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """How many bytes of a row are its own."""
        return row_bytes(self.shape, dtype=self.dtype) if self.shape else self.dtype.itemsize

    @property
    def pitch_bytes(self) -> int:
        """How many bytes one row stands behind the row before it."""
        return self.strides[0] if self.shape else self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether there is nothing between its rows."""
        return self.pitch_bytes == self.row_bytes

    def on(self, stream: DeviceStream) -> DeviceArray:
        """The same array for work on that stream, to be queued after this call and before the array is released.

        The stream waits for the content, and the memory is not given to others before the stream has done what is
        queued there when the array is released.
        """
        use_on(stream, (self,))
        return self

    def written(self, event: DeviceEvent) -> DeviceArray:
        """The same array with other content, which is there from that point on."""
        return dataclasses.replace(self, ready=event)

    def rows(self, start: int, stop: int) -> DeviceArray:
        """The rows from `start` to before `stop`, as an array that shares the memory."""
        if not 0 <= start <= stop <= self.shape[0]:
            raise ValueError(f"rows {start} to {stop} are not all among the {self.shape[0]} rows of the array")
        address = self.base_address + start * self.pitch_bytes
        return dataclasses.replace(self, base_address=address, shape=(stop - start, *self.shape[1:]))

    def to_host(self) -> npt.NDArray[Any]:
        """A copy in host memory, read-only; counted. Waits, without the GIL."""
        return self.owner.gpu.download([self]).wait()[0]

    def __array__(self, *args: object, **options: object) -> NoReturn:
        raise TypeError("this array lies in a GPU's memory, where NumPy cannot read: to_host() gives a copy of it")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3. Its `stream` is the one on which the content is written; who takes it lets his own wait."""
        return {
            "shape": self.shape,
            "strides": None if self.is_dense else self.strides,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "stream": None if self.ready is None else self.ready.stream.handle,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.owner.gpu.index

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule, whose memory is kept until the consumer lets it go.

        `stream` is the consumer's: it waits for the content (-1: it does not, None is the legacy default stream).
        """
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("the array stays where it is: to_host() gives a copy in host memory")
        if stream == 0:
            raise ValueError("DLPack does not allow stream 0: 1 is the legacy default stream, 2 that of the thread")
        if stream != -1:
            self.on(self.owner.gpu.stream_of(stream or 1))
        return dlpack_capsule(self, is_versioned=max_version is not None and max_version >= (1, 0))


def use_on(stream: DeviceStream, arrays: Sequence[DeviceArray]) -> None:
    """`DeviceArray.on` for several, such as the planes of an image: what they have in common is done once."""
    owners = {id(array.owner): array.owner for array in arrays}.values()
    for owner in owners:
        owner.check()
    for event in {id(array.ready): array.ready for array in arrays}.values():
        if event is not None:
            stream.wait(event)
    for owner in owners:
        owner.used_on(stream)
