"""DLPack capsules of arrays in GPU memory, by the structures of dlpack.h (1.0), without any library.

A capsule holds a `DLManagedTensor` (`dltensor`) or, for consumers of version 1, a `DLManagedTensorVersioned`
(`dltensor_versioned`). Who consumes it renames it to `used_...` and calls the deleter when he is done; until then,
the array and the lease of its memory are kept here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

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
