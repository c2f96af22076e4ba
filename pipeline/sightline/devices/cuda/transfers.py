"""Copies between host and GPU, and within the GPU. Those between the two are counted, and there are no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.driver import Driver, Span
from sightline.devices.cuda.memory import CudaBuffer, PinnedBuffer
from sightline.devices.cuda.pools import ALIGNMENT_BYTES, CudaPool
from sightline.media.device_array import DeviceArray, DeviceEvent, DeviceStream, dense_strides, row_bytes, use_on

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice

_STAGED_AT_BYTES = 64
Alike: TypeAlias = DeviceArray | npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class TransferCounts:
    """How much crossed between host and GPU, in bytes and copies."""

    host_to_device_bytes: int = 0
    device_to_host_bytes: int = 0
    host_to_device_copies: int = 0
    device_to_host_copies: int = 0


class TransferCounter:
    """Counts copies between host and GPU; from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = TransferCounts()

    @property
    def counts(self) -> TransferCounts:
        """What was counted so far."""
        return self._counts

    def to_device(self, size_bytes: int) -> None:
        """A copy to the GPU."""
        with self._lock:
            now = self._counts
            self._counts = TransferCounts(
                now.host_to_device_bytes + size_bytes,
                now.device_to_host_bytes,
                now.host_to_device_copies + 1,
                now.device_to_host_copies,
            )

    def to_host(self, size_bytes: int) -> None:
        """A copy to the host."""
        with self._lock:
            now = self._counts
            self._counts = TransferCounts(
                now.host_to_device_bytes,
                now.device_to_host_bytes + size_bytes,
                now.host_to_device_copies,
                now.device_to_host_copies + 1,
            )


class HostCopies:
    """Copies to the host that are under way."""

    def __init__(self, arrays: list[npt.NDArray[Any]], event: DeviceEvent) -> None:
        self._arrays = arrays
        self.event = event
        """The point at which they are done."""

    def wait(self) -> list[npt.NDArray[Any]]:
        """Wait for them, without the GIL. The arrays are read-only and lie in pinned memory, which they keep."""
        self.event.wait()
        return self._arrays


def place_arrays(
    pool: CudaPool, shapes: Sequence[tuple[int, ...]], *, dtype: npt.DTypeLike, stream: DeviceStream
) -> list[DeviceArray]:
    """New arrays of these shapes, one behind the other in one buffer, all rows of them equally far apart.

    Rows start at multiples of 256 bytes. The content is not initialised.
    """
    element = np.dtype(dtype)
    longest = max(row_bytes(shape, dtype=element) for shape in shapes)
    pitch = -(-longest // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    buffer = pool.lease(pitch * sum(shape[0] for shape in shapes), stream=stream)
    return _arrays_in(buffer, shapes, element=element, pitch_bytes=pitch)


def _arrays_in(
    buffer: CudaBuffer, shapes: Sequence[tuple[int, ...]], *, element: np.dtype[Any], pitch_bytes: int
) -> list[DeviceArray]:
    arrays, address = [], buffer.address
    for shape in shapes:
        strides = dense_strides(shape, item_bytes=element.itemsize, pitch_bytes=pitch_bytes)
        arrays.append(DeviceArray(address, shape, element, buffer, strides))
        address += pitch_bytes * shape[0]
    return arrays


def upload(
    gpu: CudaDevice, arrays: Sequence[npt.NDArray[Any]], targets: Sequence[DeviceArray], *, stream: DeviceStream
) -> list[DeviceArray]:
    """Copy arrays of the host into arrays of the GPU, of the same shapes; the host may change its own at once."""
    _check_alike(arrays, targets)
    offset = 0
    with gpu.guard("copying to the GPU") as driver:
        staging = gpu.pinned.lease(sum(_aligned(array.nbytes) for array in arrays))
        staging.used_on(stream)
        use_on(stream, targets)
        for array, target in zip(arrays, targets, strict=True):
            staged = staging.array(array.shape, dtype=array.dtype, offset_bytes=offset)
            np.copyto(staged, array)
            source = Span(staging.address + offset, target.row_bytes, on_host=True)
            _copy(driver, _span(target), source, extent=_extent(target), stream=stream)
            gpu.transfers.to_device(array.nbytes)
            offset += _aligned(array.nbytes)
        event = stream.record()
        staging.used_until(event)
        return [target.written(event) for target in targets]


def download(gpu: CudaDevice, arrays: Sequence[DeviceArray], *, stream: DeviceStream) -> HostCopies:
    """Begin to copy arrays of the GPU to the host, behind what makes their content."""
    copies, offset = [], 0
    with gpu.guard("copying to the host") as driver:
        staging = gpu.pinned.lease(sum(_aligned(array.nbytes) for array in arrays), stream=stream)
        staging.used_on(stream)
        use_on(stream, arrays)
        for array in arrays:
            target = Span(staging.address + offset, array.row_bytes, on_host=True)
            _copy(driver, target, _span(array), extent=_extent(array), stream=stream)
            gpu.transfers.to_host(array.nbytes)
            copies.append(_view(staging, array, offset))
            offset += _aligned(array.nbytes)
        event = stream.record()
        staging.used_until(event)
        return HostCopies(copies, event)


def copy_to_pinned(
    gpu: CudaDevice, array: DeviceArray, target: PinnedBuffer, *, offset_bytes: int, stream: DeviceStream
) -> None:
    """Queue a copy into pinned memory that the caller keeps."""
    if offset_bytes < 0 or offset_bytes + array.nbytes > target.size_bytes:
        raise ValueError(
            f"{array.nbytes} bytes at {offset_bytes} do not fit into {target.size_bytes} bytes of pinned memory"
        )
    place = Span(target.address + offset_bytes, array.row_bytes, on_host=True)
    target.used_on(stream)
    with gpu.guard("copying to the host") as driver:
        _copy(driver, place, _span(array.on(stream)), extent=_extent(array), stream=stream)
    gpu.graphs.count_to_host(array.nbytes, stream=stream.handle)


def copy_arrays(
    gpu: CudaDevice, arrays: Sequence[DeviceArray], targets: Sequence[DeviceArray], *, stream: DeviceStream
) -> list[DeviceArray]:
    """Copy arrays of the GPU into others of the same shapes, behind what makes their content."""
    _check_alike(arrays, targets)
    with gpu.guard("copying on the GPU") as driver:
        for array, target in zip(arrays, targets, strict=True):
            target.owner.used_on(stream)
            _copy(driver, _span(target), _span(array.on(stream)), extent=_extent(array, target), stream=stream)
        event = stream.record()
        return [target.written(event) for target in targets]


def _view(staging: PinnedBuffer, array: DeviceArray, offset_bytes: int) -> npt.NDArray[Any]:
    view = staging.array(array.shape, dtype=array.dtype, offset_bytes=offset_bytes)
    view.setflags(write=False)
    return view


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _STAGED_AT_BYTES) * _STAGED_AT_BYTES


def _span(array: DeviceArray) -> Span:
    return Span(array.address, array.pitch_bytes)


def _extent(array: DeviceArray, *others: DeviceArray) -> tuple[int, int]:
    """How wide in bytes and how high a copy of it is: one row where there are no gaps on either side."""
    if array.is_dense and all(other.is_dense for other in others):
        return array.nbytes, 1
    return array.row_bytes, array.shape[0]


def _copy(driver: Driver, target: Span, source: Span, *, extent: tuple[int, int], stream: DeviceStream) -> None:
    width_bytes, rows = extent
    if width_bytes and rows:
        driver.copy(target, source, width_bytes=width_bytes, rows=rows, stream=stream.handle)


def _check_alike(arrays: Sequence[Alike], targets: Sequence[Alike]) -> None:
    """Raises ValueError for a copy into something of another shape or type."""
    for array, target in zip(arrays, targets, strict=True):
        if (array.shape, array.dtype) != (target.shape, target.dtype):
            raise ValueError(
                f"{array.dtype} of shape {array.shape} cannot be copied into {target.dtype} of shape {target.shape}"
            )
