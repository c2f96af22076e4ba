"""Arrays in a GPU's memory: what the planes of a surface there are, and what kernels take and give."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from sightline.media.device_memory import DeviceEvent, DeviceMemory, DeviceStream, dense_strides, row_bytes
from sightline.media.dlpack import CUDA, dlpack_capsule


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """An array in a GPU's memory; the host cannot look into it, only copy it (`to_host`).

    `shape` counts elements and `strides` bytes, as in NumPy; rows (the first axis) may be padded, a row is dense.
    `owner` holds the memory: while an array is there, nobody else gets it, and after an explicit release every use
    raises SurfaceReleased. `ready` is the point from which the content is there; None when it is there already.
    Work on another stream begins with `on(stream)`, which waits for that point on the GPU.

    torch, CuPy and others take it as it is, through DLPack or `__cuda_array_interface__`, and keep its memory alive.
    They may write to it where they should not: what is shared is only read.
    """

    base_address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: DeviceMemory
    strides: tuple[int, ...] = ()
    ready: DeviceEvent | None = None

    def __post_init__(self) -> None:
        if not self.strides:
            object.__setattr__(self, "strides", dense_strides(self.shape, item_bytes=self.dtype.itemsize))
        if len(self.strides) != len(self.shape):
            raise ValueError(f"an array of shape {self.shape} has {len(self.shape)} strides, not {len(self.strides)}")
        dense = dense_strides(self.shape, item_bytes=self.dtype.itemsize)
        if self.strides[1:] != dense[1:] or (self.strides and self.strides[0] < dense[0]):
            raise ValueError(f"strides {self.strides} of shape {self.shape}: rows must be dense and not overlap")

    @property
    def address(self) -> int:
        """Where its first byte lies. Raises SurfaceReleased when the memory was given back."""
        self.owner.check()
        return self.base_address

    @property
    def nbytes(self) -> int:
        """How many bytes its elements take, without the padding of rows."""
        return self.shape[0] * self.row_bytes if self.shape else self.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """How many bytes of a row are its own."""
        return row_bytes(self.shape, dtype=self.dtype) if self.shape else self.dtype.itemsize

    @property
    def pitch_bytes(self) -> int:
        """How many bytes one row stands behind the row before it."""
        return self.strides[0] if self.shape else self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether there is nothing between its rows."""
        return self.pitch_bytes == self.row_bytes

    def on(self, stream: DeviceStream) -> DeviceArray:
        """The same array for work on that stream, to be queued after this call and before the array is let go of.

        The stream waits for the content, and the memory is not given to others before the stream has done what is
        queued there when the array is let go of.
        """
        use_on(stream, (self,))
        return self

    def written(self, event: DeviceEvent) -> DeviceArray:
        """The same array with other content, which is there from that point on."""
        return dataclasses.replace(self, ready=event)

    def rows(self, start: int, stop: int) -> DeviceArray:
        """The rows from `start` to before `stop`, as an array that shares the memory."""
        if not 0 <= start <= stop <= self.shape[0]:
            raise ValueError(f"rows {start} to {stop} are not all among the {self.shape[0]} rows of the array")
        address = self.base_address + start * self.pitch_bytes
        return dataclasses.replace(self, base_address=address, shape=(stop - start, *self.shape[1:]))

    def to_host(self) -> npt.NDArray[Any]:
        """A copy in host memory, read-only; counted. Waits, without the GIL."""
        return self.owner.gpu.download([self]).wait()[0]

    def __array__(self, *args: object, **options: object) -> NoReturn:
        raise TypeError("this array lies in a GPU's memory, where NumPy cannot read: to_host() gives a copy of it")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3. Its `stream` is the one on which the content is written; who takes it lets his own wait."""
        return {
            "shape": self.shape,
            "strides": None if self.is_dense else self.strides,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "stream": None if self.ready is None else self.ready.stream.handle,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.owner.gpu.index

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule, whose memory is kept until the consumer lets it go.

        `stream` is the consumer's: it waits for the content (-1: it does not, None is the legacy default stream).
        """
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("the array stays where it is: to_host() gives a copy in host memory")
        if stream == 0:
            raise ValueError("DLPack does not allow stream 0: 1 is the legacy default stream, 2 that of the thread")
        if stream != -1:
            self.on(self.owner.gpu.stream_of(stream or 1))
        return dlpack_capsule(self, is_versioned=max_version is not None and max_version >= (1, 0))


def use_on(stream: DeviceStream, arrays: Sequence[DeviceArray]) -> None:
    """`DeviceArray.on` for several, such as the planes of an image: what they have in common is done once."""
    owners = {id(array.owner): array.owner for array in arrays}.values()
    for owner in owners:
        owner.check()
    for event in {id(array.ready): array.ready for array in arrays}.values():
        if event is not None:
            stream.wait(event)
    for owner in owners:
        owner.used_on(stream)
