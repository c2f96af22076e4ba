"""The GPU that a benchmark measures, and what its figures hold for."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.libcuda import driver_release
from sightline.devices.cuda.opening import open_cuda, why_not
from sightline_plugins.decode.nvdec_library import NvdecError

_PACKAGES = (
    "tensorrt",
    "tensorrt_rtx",
    "onnxruntime-gpu",
    "onnxruntime",
    "PyNvVideoCodec",
    "pycuda",
    "cuda-bindings",
    "av",
)


@contextmanager
def measured_gpu(index: int) -> Iterator[CudaDevice]:
    """The GPU `cuda:<index>`, closed at the end. Ends the program with a message where it, or its NVDEC, is missing."""
    reason = why_not(index)
    if reason is not None:
        sys.exit(f"this needs an NVIDIA GPU, its driver and pip install 'sightline[gpu]': {reason}")
    gpu = open_cuda(index)
    try:
        yield gpu
    except NvdecError as error:
        sys.exit(f"NVDEC cannot be used: {error}")
    finally:
        gpu.close()


def describe(gpu: CudaDevice) -> str:
    """What the figures hold for: date, GPU, driver, and the packages that are there."""
    packages = ", ".join(f"{name} {number}" for name in _PACKAGES if (number := _version(name)))
    major, minor = gpu.compute_capability
    where = f"{gpu.name} ({major}.{minor}), driver {driver_release()}, Python {platform.python_version()}"
    return f"{time.strftime('%Y-%m-%d')}, {where}, {packages}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
