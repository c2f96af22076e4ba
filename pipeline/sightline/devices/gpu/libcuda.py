"""The driver's own library, asked directly: which GPUs there are. No package is needed, and no context is made."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

LIBRARY = "libcuda.so.1"
_MAJOR, _MINOR = 75, 76
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU, as its driver describes it. `capability` is NVIDIA's compute capability, (9, 0) for Hopper."""

    index: int
    name: str
    capability: tuple[int, int]
    memory_bytes: int

    def __str__(self) -> str:
        major, minor = self.capability
        return f"{self.name}, compute capability {major}.{minor}, {self.memory_bytes / 2**30:.1f} GiB"


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What the driver says: the newest CUDA that it supports, and its GPUs; or the reason why there are none."""

    cuda_version: tuple[int, int] | None = None
    gpus: tuple[GpuFacts, ...] = ()
    reason: str | None = None


@lru_cache(maxsize=1)
def driver_facts() -> DriverFacts:
    """What the driver says, asked once in a process."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return DriverFacts(reason=f"no NVIDIA driver on this machine ({LIBRARY} is missing)")
    return facts_from(library)


def facts_from(library: Any) -> DriverFacts:
    """What this library says."""
    if result := library.cuInit(0):
        return DriverFacts(reason=f"the NVIDIA driver does not start: {_error_name(library, result)}")
    version, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    if result := library.cuDeviceGetCount(ctypes.byref(count)):
        return DriverFacts(reason=f"the NVIDIA driver does not say its GPUs: {_error_name(library, result)}")
    cuda_version = version.value // 1000, version.value % 1000 // 10
    if not count.value:
        return DriverFacts(cuda_version, reason="the NVIDIA driver knows no GPU that this process may use")
    return DriverFacts(cuda_version, tuple(_gpu(library, index) for index in range(count.value)))


def driver_release() -> str | None:
    """The release of the kernel module, such as 580.65.06; None when it does not say."""
    try:
        words = _KERNEL_MODULE.read_text().split()
    except OSError:
        return None
    return next((word for word in words if word[0].isdigit() and word.count(".") >= 1), None)


def _gpu(library: Any, index: int) -> GpuFacts:
    device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    library.cuDeviceGet(ctypes.byref(device), index)
    library.cuDeviceGetName(name, len(name), device)
    library.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    capability = _attribute(library, _MAJOR, device), _attribute(library, _MINOR, device)
    return GpuFacts(index, name.value.decode(errors="replace"), capability, memory.value)


def _attribute(library: Any, number: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value


def _error_name(library: Any, result: int) -> str:
    name = ctypes.c_char_p()
    library.cuGetErrorName(result, ctypes.byref(name))
    return name.value.decode() if name.value else f"CUDA error {result}"
