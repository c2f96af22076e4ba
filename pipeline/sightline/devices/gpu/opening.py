"""The way to a GPU that can be used."""

from __future__ import annotations

from sightline.devices.gpu.availability import why_not
from sightline.devices.gpu.driver import DriverError
from sightline.devices.gpu.gpu import Gpu
from sightline.errors import DeviceUnavailable, GpuError


def open_gpu(index: int) -> Gpu:
    """The GPU, for one run; `close` it. Raises DeviceUnavailable where there is none, GpuError where it fails."""
    reason = why_not(index)
    if reason is not None:
        raise DeviceUnavailable(f"cuda:{index} cannot be used: {reason}")
    from sightline.devices.gpu.cuda_driver import CudaDriver

    try:
        return Gpu(CudaDriver(index))
    except DriverError as error:
        raise GpuError(f"cuda:{index} cannot be opened: {error}") from error
