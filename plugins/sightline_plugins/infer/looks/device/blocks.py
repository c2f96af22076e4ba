"""One piece of memory, cut into dense arrays that lie one behind the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.media.device_array import DeviceArray

Part: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and element type of an array."""
_ALIGNED_BYTES = 256


def size_of(parts: Sequence[Part]) -> int:
    """How many bytes the arrays take."""
    return sum(_room(part) for part in parts)


def new_block(gpu: Gpu, parts: Sequence[Part], *, stream: GpuStream) -> DeviceArray:
    """New memory of a GPU that holds these arrays: uint8 (bytes,)."""
    return gpu.empty((max(size_of(parts), 1),), np.uint8, stream=stream)


def arrays_in(block: DeviceArray, parts: Sequence[Part]) -> tuple[DeviceArray, ...]:
    """The arrays in memory of a GPU, from its beginning."""
    places = zip(_offsets(parts), parts, strict=True)
    return tuple(DeviceArray(block.base_address + offset, *part, block.owner) for offset, part in places)


def up_to_end(block: DeviceArray, arrays: Sequence[DeviceArray]) -> DeviceArray:
    """The beginning of a block, up to the end of the last of these arrays in it."""
    return block.rows(0, arrays[-1].base_address + arrays[-1].nbytes - block.base_address)


def views_in(content: npt.NDArray[np.uint8], parts: Sequence[Part]) -> list[npt.NDArray[Any]]:
    """The arrays in a copy of that memory, as views."""
    return [
        content[offset : offset + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        for offset, (shape, dtype) in zip(_offsets(parts), parts, strict=True)
    ]


def _offsets(parts: Sequence[Part]) -> Iterator[int]:
    offset = 0
    for part in parts:
        yield offset
        offset += _room(part)


def _room(part: Part) -> int:
    shape, dtype = part
    return -(-prod(shape) * dtype.itemsize // _ALIGNED_BYTES) * _ALIGNED_BYTES
