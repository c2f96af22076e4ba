"""Planes as NVENC takes them: dense rows, one plane behind the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.media.device_array import DeviceArray

_LEVEL = np.dtype(np.uint8)


def without_padding(arrays: Sequence[DeviceArray], *, gpu: Gpu, stream: GpuStream) -> Sequence[DeviceArray]:
    """The planes of 8 bits with dense rows: themselves, or a copy within the GPU's memory, made on that stream."""
    if all(array.is_dense for array in arrays):
        return arrays
    whole = gpu.empty((sum(array.nbytes for array in arrays),), _LEVEL, stream=stream)
    targets, address = [], whole.address
    for array in arrays:
        targets.append(DeviceArray(address, array.shape, _LEVEL, whole.owner))
        address += array.nbytes
    return gpu.copy(arrays, targets, stream=stream)
