"""What torch and CuPy do with a DLPack capsule, in a few lines: read it, rename it, and let it go some time."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from sightline.media.device_array import DLManagedTensor, DLManagedTensorVersioned

_API = ctypes.pythonapi
_API.PyCapsule_GetName.restype = ctypes.c_char_p
_API.PyCapsule_GetName.argtypes = [ctypes.py_object]
_API.PyCapsule_GetPointer.restype = ctypes.c_void_p
_API.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_API.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


@dataclass(frozen=True)
class Consumed:
    """What stood in a capsule."""

    managed: DLManagedTensor | DLManagedTensorVersioned

    @property
    def address(self) -> int:
        return int(self.managed.tensor.data)

    @property
    def shape(self) -> list[int]:
        tensor = self.managed.tensor
        return [int(length) for length in tensor.shape[: tensor.ndim]]

    @property
    def strides(self) -> list[int]:
        tensor = self.managed.tensor
        return [int(stride) for stride in tensor.strides[: tensor.ndim]]

    @property
    def kind(self) -> tuple[int, int, int]:
        tensor = self.managed.tensor
        return tensor.code, tensor.bits, tensor.lanes

    @property
    def device(self) -> tuple[int, int]:
        return self.managed.tensor.device_type, self.managed.tensor.device_id

    def let_go(self) -> None:
        self.managed.deleter(ctypes.addressof(self.managed))


def name_of(capsule: object) -> bytes:
    name = _API.PyCapsule_GetName(capsule)
    assert isinstance(name, bytes)
    return name


def consume(capsule: object) -> Consumed:
    name = name_of(capsule)
    kind = DLManagedTensor if name == b"dltensor" else DLManagedTensorVersioned
    managed = kind.from_address(_API.PyCapsule_GetPointer(capsule, name))
    assert _API.PyCapsule_SetName(capsule, _USED[name]) == 0
    return Consumed(managed)
