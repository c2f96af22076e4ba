"""Surfaces: the pixels of one frame, in host or CUDA memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.media.arrays import read_only
from sightline.media.color import ColorMatrix, ColorRange
from sightline.media.device_array import DeviceArray, DeviceEvent, DeviceStream, Download, PixelDevice, use_on

T = TypeVar("T")


class DeferredCopy(Generic[T]):
    """What a copy that was begun will give. From any thread; `finish` is called once, by the first that waits."""

    __slots__ = ("_finish", "_lock", "_there")

    def __init__(self, finish: Callable[[], T]) -> None:
        self._lock = Lock()
        self._finish: Callable[[], T] | None = finish
        self._there: T | None = None

    @classmethod
    def there(cls, thing: T) -> DeferredCopy[T]:
        """What need not be waited for."""
        return cls(lambda: thing)

    def wait(self) -> T:
        """Wait, without the GIL. What fails is raised, and raised again to the next."""
        with self._lock:
            if self._finish is not None:
                self._there, self._finish = self._finish(), None
            return self._there  # type: ignore[return-value]


class CopyCache(Generic[T]):
    """Keeps the copies of `original`, by the place where each lies. For several threads: the first makes the copy, the
    others wait for it.
    """

    __slots__ = ("_copies", "_lock", "original")

    def __init__(self, original: object) -> None:
        self.original = original
        self._lock = Lock()
        self._copies: list[tuple[object, T]] = []

    def at(self, place: object, make: Callable[[], T]) -> T:
        """The copy in that place."""
        with self._lock:
            for known, copy in self._copies:
                if known is place:
                    return copy
            made = make()
            self._copies.append((place, made))
            return made


Plane = npt.NDArray[np.uint8]


class Memory(StrEnum):
    """Where a surface's pixels lie."""

    HOST = "host"
    CUDA = "cuda"


class PixelFormat(StrEnum):
    """How the pixels are laid out; 8 bits a sample. Odd sizes round chroma up."""

    I420 = "i420"
    I422 = "i422"
    I444 = "i444"
    NV12 = "nv12"
    GRAY8 = "gray8"
    RGB24 = "rgb24"
    BGR24 = "bgr24"

    @property
    def is_yuv(self) -> bool:
        """Whether the planes hold luma and chroma (or luma alone)."""
        return self not in (PixelFormat.RGB24, PixelFormat.BGR24)

    @property
    def chroma_shift(self) -> tuple[int, int]:
        """By how many bits chroma is narrower and lower than luma: (horizontal, vertical)."""
        return _CHROMA_SHIFT.get(self, (0, 0))

    def plane_shapes(self, size_wh: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
        """The shape of each plane for an image of that size."""
        return _plane_shapes(self, size_wh)


@lru_cache(maxsize=256)
def _plane_shapes(pixel_format: PixelFormat, size_wh: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
    width, height = size_wh
    if not pixel_format.is_yuv:
        return ((height, width, 3),)
    if pixel_format is PixelFormat.GRAY8:
        return ((height, width),)
    right, down = pixel_format.chroma_shift
    chroma = (-(-height >> down), -(-width >> right))
    if pixel_format is PixelFormat.NV12:
        return ((height, width), (*chroma, 2))
    return ((height, width), chroma, chroma)


_ATTACHING = Lock()
_CHROMA_SHIFT = {PixelFormat.I420: (1, 1), PixelFormat.NV12: (1, 1), PixelFormat.I422: (1, 0)}


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """The pixels of one image, in host memory or in a GPU's.

    `pixels` are views of shape `format.plane_shapes(size_wh)`: NumPy arrays, or `DeviceArray`s; rows may be padded
    (strided), samples of a row are contiguous. Who needs them in a certain memory says which: `planes` or `arrays`.
    `owner` is whatever must stay alive while planes are used: a decoder's frame, a lease of pinned memory (arrays
    have owners of their own). On a GPU, samples may have 16 bits of which the upper ones count (NVIDIA's P016); in host
    memory they have 8. A surface is shared unless `exclusive`; nobody writes to a shared one, because a decoder
    may still predict from it and other branches may still read it: its arrays in host memory are read-only.

    No copy between memories is hidden: `to_host` (or `begin_to_host`, which does not wait) and `to_device` make them,
    once however often they are asked, and they are counted.
    """

    format: PixelFormat
    size_wh: tuple[int, int]
    pixels: tuple[Plane, ...] | tuple[DeviceArray, ...]
    matrix: ColorMatrix = ColorMatrix.BT601
    range: ColorRange = ColorRange.LIMITED
    owner: object = None
    exclusive: bool = False
    _twin: CopyCache[DeferredCopy[Surface]] | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        shapes = tuple([plane.shape for plane in self.pixels])
        expected = _plane_shapes(self.format, self.size_wh)
        if shapes != expected:
            raise ValueError(f"{self.format} of {self.size_wh} needs planes of {expected}, not {shapes}")
        if not self.exclusive and any(isinstance(one, np.ndarray) and one.flags.writeable for one in self.pixels):
            object.__setattr__(self, "pixels", tuple(map(read_only, self.planes)))
        twin = self._twin
        if twin is not None and twin.original is not self.pixels:
            object.__setattr__(self, "_twin", None)  # made by `replace`, with other pixels
        if self._twin is None and type(self.pixels[0]) is DeviceArray:
            object.__setattr__(self, "_twin", CopyCache(self.pixels))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle (and copy) it with its pixels, in host memory, without what keeps them alive here."""
        planes = tuple(plane.copy() for plane in self.to_host().planes)
        return Surface, (self.format, self.size_wh, planes, self.matrix, self.range)

    @classmethod
    def allocate(
        cls,
        pixel_format: PixelFormat,
        *,
        size_wh: tuple[int, int],
        matrix: ColorMatrix = ColorMatrix.BT601,
        color_range: ColorRange = ColorRange.LIMITED,
    ) -> Surface:
        """A new surface in host memory, exclusive, its pixels not initialised."""
        planes = tuple(np.empty(shape, np.uint8) for shape in pixel_format.plane_shapes(size_wh))
        return cls(pixel_format, size_wh, planes, matrix, color_range, exclusive=True)

    @property
    def memory(self) -> Memory:
        """Where the pixels lie."""
        return Memory.CUDA if type(self.pixels[0]) is DeviceArray else Memory.HOST

    @property
    def is_wide(self) -> bool:
        """Whether samples have 16 bits; only on a GPU."""
        return self.pixels[0].dtype.itemsize == 2

    @property
    def planes(self) -> tuple[Plane, ...]:
        """The pixels in host memory. Raises TypeError when they lie in a GPU's."""
        pixels = self.pixels
        if type(pixels[0]) is DeviceArray:
            raise TypeError("the pixels of this surface lie in a GPU's memory: to_host() gives a copy in host memory")
        return pixels  # type: ignore[return-value]

    @property
    def arrays(self) -> tuple[DeviceArray, ...]:
        """The pixels in a GPU's memory. Raises TypeError when they lie in host memory."""
        if type(self.pixels[0]) is not DeviceArray:
            raise TypeError("the pixels of this surface lie in host memory: to_device(gpu) gives a copy on the GPU")
        return self.pixels

    def arrays_on(self, stream: DeviceStream) -> tuple[DeviceArray, ...]:
        """The pixels for work on that stream, which waits until they are there; see `DeviceArray.on`."""
        use_on(stream, self.arrays)
        return self.arrays

    def writable(self, *, stream: DeviceStream | None = None) -> Surface:
        """This surface if it is exclusive, else an exclusive copy of it in the same memory.

        In a GPU's memory it is there in the order of `stream` (one of the GPU's own when None), behind everything that
        is queued so far and reads it. Work that writes takes its arrays with `arrays_on`, and when that is queued,
        `written` gives the surface with the new content.
        """
        if type(self.pixels[0]) is DeviceArray:
            make = self._gpu.settle if self.exclusive else self._gpu.duplicate
            return self._with_pixels(tuple(make(self.arrays, stream=stream)), exclusive=True)
        if self.exclusive:
            return self if self._twin is None else dataclasses.replace(self, _twin=None)
        return self._with_pixels(tuple(plane.copy() for plane in self.planes), exclusive=True)

    def written(self, event: DeviceEvent) -> Surface:
        """This surface, in GPU memory, with what was drawn on it up to that point in the work of a stream."""
        arrays = tuple(array.written(event) for array in self.arrays)
        return dataclasses.replace(self, pixels=arrays)

    def shared(self) -> Surface:
        """The same pixels, no longer exclusive: what several holders get."""
        return dataclasses.replace(self, exclusive=False) if self.exclusive else self

    def to_host(self) -> Surface:
        """This image in host memory: the surface itself when it is there, else a copy in pinned memory, read-only;
        samples of 16 bits become 8, rounded as kernels do.

        The copy waits for the pixels, without the GIL; it is counted, and kept with the surface, so that several
        takers pay once.
        """
        return self if self.memory is Memory.HOST else self.begin_to_host().wait()

    def begin_to_host(self) -> DeferredCopy[Surface]:
        """Begin what `to_host` does: `wait()` of what is returned gives the image, and waits until it is there. Who
        holds that holds no memory of the GPU.
        """
        if self.memory is Memory.HOST:
            return DeferredCopy.there(self)
        return self._own_twin().at(None, self._download)

    def to_device(self, gpu: PixelDevice, *, stream: DeviceStream | None = None) -> Surface:
        """This image in that GPU's memory: the surface itself when it is there, else a copy, ready in the order of
        `stream` (the GPU's own when None); counted, and kept with the surface, so that several takers pay once.
        """
        if self.memory is Memory.CUDA and self._gpu is gpu:
            return self
        return self._own_twin().at(gpu, lambda: DeferredCopy.there(self._upload(gpu, stream))).wait()

    @property
    def whole(self) -> DeviceArray:
        """All pixels in GPU memory as one array: of NV12 (height * 3/2, width), the rows of chroma below those of luma.

        Raises TypeError for pixels in host memory, ValueError where the planes do not lie one behind the other with
        rows of the same length (odd widths).
        """
        first, *rest = self.arrays
        rows = first.shape[0]
        for plane in rest:
            behind = first.base_address + rows * first.pitch_bytes
            if (plane.base_address, plane.row_bytes, plane.pitch_bytes) != (behind, first.row_bytes, first.pitch_bytes):
                raise ValueError(f"the planes of this {self.format} surface of {self.size_wh} are not one array")
            rows += plane.shape[0]
        shape = (rows, *first.shape[1:])
        return dataclasses.replace(first, shape=shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.whole.__cuda_array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.whole.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> object:
        """A DLPack capsule of the `whole` image in GPU memory, see `DeviceArray`."""
        return self.whole.__dlpack__(**options)

    @property
    def _gpu(self) -> PixelDevice:
        return self.arrays[0].owner.gpu

    def _with_pixels(
        self, pixels: tuple[Plane, ...] | tuple[DeviceArray, ...], *, owner: object = None, exclusive: bool
    ) -> Surface:
        return dataclasses.replace(self, pixels=pixels, owner=owner, exclusive=exclusive)

    def _own_twin(self) -> CopyCache[DeferredCopy[Surface]]:
        with _ATTACHING:
            if self._twin is None:
                object.__setattr__(self, "_twin", CopyCache(self.pixels))
            assert self._twin is not None
            return self._twin

    def _download(self) -> DeferredCopy[Surface]:
        """One copy where the planes are one array, else one for each."""
        try:
            arrays: tuple[DeviceArray, ...] = (self.whole,)
        except ValueError:
            arrays = self.arrays
        copies = self._gpu.download(arrays)
        return DeferredCopy(partial(_downloaded, copies, self.format, self.size_wh, self.matrix, self.range))

    def _upload(self, gpu: PixelDevice, stream: DeviceStream | None) -> Surface:
        planes = self.to_host().planes
        return self._with_pixels(tuple(gpu.upload(planes, stream=stream)), exclusive=False)


def _downloaded(
    copies: Download, pixel_format: PixelFormat, size_wh: tuple[int, int], matrix: ColorMatrix, range_: ColorRange
) -> Surface:
    """The image, when its copies are there. It knows nothing of the GPU's memory, which others may have by now."""
    arrays, shapes = copies.wait(), _plane_shapes(pixel_format, size_wh)
    if len(arrays) < len(shapes):
        starts = np.cumsum([shape[0] for shape in shapes[:-1]])
        arrays = [rows.reshape(shape) for rows, shape in zip(np.split(arrays[0], starts), shapes, strict=True)]
    planes = tuple(_levels(plane) if plane.dtype.itemsize == 2 else plane for plane in arrays)
    return Surface(pixel_format, size_wh, planes, matrix, range_)


def _levels(samples: npt.NDArray[np.uint16]) -> Plane:
    """Samples of 16 bits as levels of 8, rounded to the nearest."""
    levels: Plane = (np.minimum(samples, 0xFF7F) + np.uint16(128) >> 8).astype(np.uint8)
    levels.setflags(write=False)
    return levels
