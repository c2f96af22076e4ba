"""Open a CUDA device, or state why there is none."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sightline.devices.cuda.libcuda import DriverFacts, driver_facts
from sightline.errors import CudaError, DeviceUnavailable

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice

_NEEDED = {"cuda.bindings": "cuda-bindings"}
_COMPILES = "cuda-bindings"
_OLDEST = (7, 5)


def why_not(index: int) -> str | None:
    """Why `cuda:N` cannot be used here; None when it can."""
    facts = driver_facts()
    if facts.reason is not None:
        return facts.reason
    if index >= len(facts.gpus):
        known = ", ".join(f"cuda:{gpu.index} ({gpu.name})" for gpu in facts.gpus)
        return f"there is no GPU of that number; there is {known}"
    gpu = facts.gpus[index]
    if gpu.capability < _OLDEST:
        return f"{gpu} is older than Turing, compute capability 7.5"
    missing = [package for module, package in _NEEDED.items() if not _is_installed(module)]
    if missing:
        return f"{gpu} is there, but not the package {' and '.join(missing)}: pip install 'sightline[gpu]'"
    return _too_old(facts)


def _too_old(facts: DriverFacts) -> str | None:
    """Why this driver loads no kernel that the installed packages compile. It loads those of its own CUDA's first
    number and of older ones; the second number does not matter.
    """
    try:
        needed = int(version(_COMPILES).partition(".")[0])
    except PackageNotFoundError:
        return None
    if facts.cuda_version is None or facts.cuda_version[0] >= needed:
        return None
    newest = "{}.{}".format(*facts.cuda_version)
    return (
        f"the NVIDIA driver is for CUDA up to {newest}, and {_COMPILES} is for CUDA {needed}: install a newer driver "
        f"(CUDA 13 needs release 580)"
    )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def open_cuda(index: int, context: int | None = None) -> CudaDevice:
    """The GPU, for one run; `close` it.

    It works in the GPU's primary context, or in `context`: the context of another library (a `CUcontext` of that GPU,
    as an integer), which is neither retained nor released and has to live until the device is closed.

    Raises DeviceUnavailable where there is no such GPU, CudaError where it fails.
    """
    reason = why_not(index)
    if reason is not None:
        raise DeviceUnavailable(f"cuda:{index} cannot be used: {reason}")
    from sightline.devices.cuda.cuda_driver import CudaDriver
    from sightline.devices.cuda.device import CudaDevice
    from sightline.devices.cuda.driver import DriverError

    try:
        return CudaDevice(CudaDriver(index, context))
    except DriverError as error:
        raise CudaError(f"cuda:{index} cannot be opened: {error}") from error
