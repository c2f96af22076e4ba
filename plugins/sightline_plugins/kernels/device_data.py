"""What launching modules ask of an array in the device's memory."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class DeviceData(Protocol):
    """An array in the device's memory: a `DeviceArray`, and in tests of the host build an array of the host."""

    @property
    def address(self) -> int:
        """Where its first byte lies."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """How many elements it has along each axis."""
        ...

    @property
    def strides(self) -> tuple[int, ...]:
        """How many bytes its elements are apart along each axis."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """What its elements are."""
        ...


def check_array(array: DeviceData, *, what: str, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> None:
    """Raises ValueError when an array has other elements, another shape (None: any size) or gaps between its rows."""
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, found) for found, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        wanted = " x ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{what} is {dtype} of {wanted}, not {array.dtype} of {' x '.join(map(str, array.shape))}")
    step = dtype.itemsize
    for size, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if size > 1 and stride != step:
            raise ValueError(f"{what} must be dense: strides {array.strides} of shape {array.shape} leave gaps")
        step *= size
