"""Stands for `cuda.bindings.driver`, with the names and codes of the real one: notes calls, and answers on request.

For answers that the null driver does not give, and for arguments that it does not log.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import pytest

from sightline.devices.cuda.cuda_driver import CudaDriver

CUDA: Any = import_module("cuda.bindings.driver")
CODES = CUDA.CUresult
SUCCESS = CODES.CUDA_SUCCESS
_NUMBERS = {"cuDevicePrimaryCtxRetain": 0xC0, "cuDeviceGet": 0, "cuCtxGetDevice": 0, "cuDeviceGetAttribute": 8}
_MAKERS = ("cuStreamCreate", "cuEventCreate", "cuMemAlloc", "cuMemHostAlloc", "cuModuleLoadData", "cuGraphInstantiate")


class Bindings:
    """One GPU of compute capability 8.8."""

    CUresult = CODES
    CUstreamCaptureMode = CUDA.CUstreamCaptureMode
    CUdevice_attribute = CUDA.CUdevice_attribute
    CUmemorytype = CUDA.CUmemorytype
    CUDA_MEMCPY2D = CUDA.CUDA_MEMCPY2D
    CUcontext = int

    def __init__(self, **answers: tuple[object, ...] | Exception) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.answers = answers
        self._made = 0

    def names(self) -> list[str]:
        """What was called."""
        return [str(name) for name, *_ in self.calls]

    def __getattr__(self, name: str) -> Callable[..., tuple[object, ...]]:
        """A function of that name, which the real library must have."""

        @wraps(getattr(CUDA, name))
        def call(*arguments: object) -> tuple[object, ...]:
            self.calls.append((name, *arguments))
            answer = self.answers.get(name) or self._usual(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def _usual(self, name: str) -> tuple[object, ...]:
        if name in _MAKERS:
            self._made += 1
            return SUCCESS, 1000 + self._made
        if name == "cuDeviceGetName":
            return SUCCESS, b"A GPU\0and what lay behind"
        return (SUCCESS, _NUMBERS[name]) if name in _NUMBERS else (SUCCESS,)


class Quick:
    """Stands for the driver's library, whose calls return a number: the bindings are asked."""

    def __init__(self, cuda: Bindings) -> None:
        self._cuda = cuda

    def __getattr__(self, name: str) -> Callable[..., int]:
        """A function of that name."""
        function = getattr(self._cuda, name.removesuffix("_v2"))

        def call(*arguments: object) -> int:
            code, *_ = function(*(one for one in arguments if isinstance(one, int | ctypes.Structure)))
            return int(code)

        return call


def driver_with(cuda: Bindings) -> CudaDriver:
    """An open driver whose calls of CUDA go there, without those that opened it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sightline.devices.cuda.cuda_driver.import_module", lambda name: cuda)
        patch.setattr("sightline.devices.cuda.cuda_driver._quick_calls", lambda: Quick(cuda))
        driver = CudaDriver(0)
    cuda.calls.clear()
    return driver
