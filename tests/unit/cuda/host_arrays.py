"""Arrays in host memory instead of CUDA memory, for kernels of the host build."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class HostArray:
    """An array whose memory kernels of the host build work on; `values` shows it."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values
        self.address = values.ctypes.data
        self.shape: tuple[int, ...] = values.shape
        self.strides: tuple[int, ...] = values.strides
        self.dtype = values.dtype


def dense(values: npt.NDArray[Any]) -> HostArray:
    """A dense array with these values."""
    return HostArray(np.ascontiguousarray(values))


def unset(*shape: int, dtype: npt.DTypeLike) -> HostArray:
    """An array that holds nothing sensible yet."""
    values = np.empty(shape, dtype)
    values.view(np.uint8)[...] = 0xCD
    return HostArray(values)
