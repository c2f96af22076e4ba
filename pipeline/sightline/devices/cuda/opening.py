"""Open a CUDA device, or state why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.devices.cuda.compatibility import reason_against
from sightline.devices.cuda.libcuda import driver_facts
from sightline.errors import CudaError, DeviceUnavailable

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice


def why_not(index: int) -> str | None:
    """Why `cuda:N` cannot be used here, and what to do; None when it can."""
    facts = driver_facts()
    if facts.reason is not None:
        return facts.reason
    if index >= len(facts.gpus):
        known = ", ".join(f"cuda:{gpu.index} ({gpu.name})" for gpu in facts.gpus)
        return f"there is no GPU of that number; there is {known}"
    return reason_against(facts.gpus[index], facts)


def open_cuda(index: int) -> CudaDevice:
    """The GPU, for one run; `close` it.

    It works in pycuda's context where this thread works in one of that GPU, so that there is no second one, and keeps
    that alive; else in the GPU's primary context.

    Raises DeviceUnavailable where there is no such GPU, CudaError where it fails.
    """
    reason = why_not(index)
    if reason is not None:
        raise DeviceUnavailable(f"cuda:{index} cannot be used: {reason}")
    from sightline.devices.cuda.cuda_driver import CudaDriver
    from sightline.devices.cuda.device import CudaDevice
    from sightline.devices.cuda.driver import DriverError
    from sightline.devices.cuda.pycuda import current_context, is_primary

    try:
        adopted = current_context(index)
        is_other = adopted is not None and not is_primary(adopted.handle, index)
        return CudaDevice(CudaDriver(index, adopted.handle) if is_other else CudaDriver(index), pycuda_context=adopted)
    except DriverError as error:
        raise CudaError(f"cuda:{index} cannot be opened: {error}") from error
