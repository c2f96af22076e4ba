"""What the driver's library is asked, and what is made of its answers."""

from __future__ import annotations

import ctypes
from typing import Any

from sightline.devices.cuda.libcuda import CudaFacts, DriverFacts, facts_from


class Library:
    """Answers as `libcuda.so.1` does."""

    def __init__(self, *, init: int = 0, gpus: int = 2) -> None:
        self._init = init
        self._gpus = gpus

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return self._init

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = 13020
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = self._gpus
        return 0

    def cuDeviceGet(self, device: Any, index: int) -> int:  # noqa: N802
        device._obj.value = index
        return 0

    def cuDeviceGetName(self, name: Any, size: int, device: ctypes.c_int) -> int:  # noqa: N802
        name.value = f"GPU {device.value}".encode()
        return 0

    def cuDeviceTotalMem_v2(self, memory: Any, device: ctypes.c_int) -> int:  # noqa: N802
        memory._obj.value = 2**33
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, device: ctypes.c_int) -> int:  # noqa: N802
        value._obj.value = {75: 8, 76: 6}[number]
        return 0

    def cuGetErrorName(self, result: int, name: Any) -> int:  # noqa: N802
        name._obj.value = {999: b"CUDA_ERROR_UNKNOWN"}.get(result)
        return 0


def test_gpus_are_described_by_their_driver() -> None:
    assert facts_from(Library()) == DriverFacts(
        (13, 2), (CudaFacts(0, "GPU 0", (8, 6), 2**33), CudaFacts(1, "GPU 1", (8, 6), 2**33))
    )


def test_a_driver_that_does_not_start_is_named_with_its_error() -> None:
    assert facts_from(Library(init=999)).reason == "the NVIDIA driver does not start: CUDA_ERROR_UNKNOWN"
    assert facts_from(Library(init=-5)).reason == "the NVIDIA driver does not start: CUDA error -5"


def test_a_driver_without_gpus_says_so() -> None:
    facts = facts_from(Library(gpus=0))

    assert facts.reason == "the NVIDIA driver knows no GPU that this process may use"
    assert facts.gpus == ()


def test_a_gpu_is_told_in_a_few_words() -> None:
    assert str(CudaFacts(0, "NVIDIA L4", (8, 9), 24 * 2**30)) == "NVIDIA L4, compute capability 8.9, 24.0 GiB"
