"""What data in a GPU's memory asks of the GPU that holds it. `sightline.devices.gpu` does it; nothing here runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sightline.media.device_array import DeviceArray


class DeviceEvent(Protocol):
    """A point in the work of a stream: everything that was queued there before it was recorded."""

    @property
    def handle(self) -> int:
        """What CUDA calls it: a `CUevent`."""
        ...

    @property
    def stream(self) -> DeviceStream:
        """The stream on which it was recorded."""
        ...

    def wait(self) -> None:
        """Wait, without the GIL, until the work before it is done."""
        ...


class DeviceStream(Protocol):
    """Work that a GPU does one after another, beside that of other streams."""

    @property
    def handle(self) -> int:
        """What CUDA calls it: a `CUstream`."""
        ...

    def record(self) -> DeviceEvent:
        """The point that stands behind everything queued so far."""
        ...

    def wait(self, event: DeviceEvent) -> None:
        """Let what is queued from now on begin after that point; returns at once."""
        ...


class DeviceMemory(Protocol):
    """Who holds the memory of an array: a lease of a pool, or the guardian of another library's memory."""

    @property
    def gpu(self) -> PixelDevice:
        """The GPU in whose memory it lies."""
        ...

    def check(self) -> None:
        """Raise SurfaceReleased when the memory was given back."""
        ...

    def used_on(self, stream: DeviceStream) -> None:
        """Work that uses the memory was queued on that stream: nobody else gets it before that work is done."""
        ...

    def done_on(self, stream: DeviceStream) -> None:
        """All work is done that was queued there and uses the memory: somebody waited for it."""
        ...

    def last_uses(self) -> Sequence[DeviceEvent]:
        """The points at which all work is done that was queued so far and uses the memory."""
        ...


class PixelDevice(Protocol):
    """What surfaces and arrays need of a GPU. Every copy between host and GPU is counted."""

    @property
    def index(self) -> int:
        """The number N of `cuda:N`."""
        ...

    def upload(self, arrays: Sequence[npt.NDArray[Any]], *, stream: DeviceStream | None = None) -> list[DeviceArray]:
        """Copies of arrays of the host, ready in the order of the stream."""
        ...

    def download(self, arrays: Sequence[DeviceArray]) -> Download:
        """Begin to copy arrays to the host."""
        ...

    def duplicate(self, arrays: Sequence[DeviceArray], *, stream: DeviceStream | None = None) -> list[DeviceArray]:
        """Copies in the same GPU's memory, ready in the order of the stream."""
        ...

    def settle(self, arrays: Sequence[DeviceArray], *, stream: DeviceStream | None = None) -> list[DeviceArray]:
        """The same arrays, to be written to: ready when all work is done that was queued so far and uses them."""
        ...

    def stream_of(self, handle: int) -> DeviceStream:
        """Another library's stream, by CUDA's handle."""
        ...


class Download(Protocol):
    """Copies to the host that are under way."""

    def wait(self) -> list[npt.NDArray[Any]]:
        """Wait for them, without the GIL. The arrays are read-only and lie in pinned memory; they keep it."""
        ...


@lru_cache(maxsize=1024)
def dense_strides(shape: tuple[int, ...], *, item_bytes: int, pitch_bytes: int | None = None) -> tuple[int, ...]:
    """The strides in bytes of an array whose rows (its first axis) are `pitch_bytes` apart, dense when it is None."""
    strides = [item_bytes]
    for length in reversed(shape[1:]):
        strides.append(strides[-1] * length)
    if pitch_bytes is not None:
        strides[-1] = pitch_bytes
    return tuple(reversed(strides[: len(shape)]))


def row_bytes(shape: tuple[int, ...], *, dtype: np.dtype[Any]) -> int:
    """How many bytes a row (along the first axis) of an array has."""
    return prod(shape[1:]) * dtype.itemsize
