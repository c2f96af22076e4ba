"""Images in the memory of PyNvVideoCodec's decoder as surfaces of a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Span
from sightline.devices.cuda.memory import BorrowedMemory
from sightline.devices.cuda.pools import CudaPool
from sightline.devices.cuda.streams import CudaStream
from sightline.media import ColorRange, PixelFormat, Surface
from sightline.media.device_array import DeviceArray, dense_strides
from sightline_plugins.cuda.decoded import SOURCE, Turn, place_decoded
from sightline_plugins.decode.nvdec_library import ImageFacts, NvdecError
from sightline_plugins.decode.orientation import UPRIGHT, Orientation

_GIVEN: Mapping[tuple[str, bool], str] = MappingProxyType(
    {("400", False): "NV12", ("400", True): "P016", ("420", False): "NV12", ("420", True): "P016"}
    | {("444", False): "YUV444", ("444", True): "YUV444_16Bit"}
)
"""How the library gives images of a chroma layout, with 8 bits and with more."""
_PADDED = ("NV12", "P016")
_LEVEL = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class _Plane:
    """A plane of a surface, by where it begins in the surface's memory."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Copy:
    """What one copy moves: rows, from an offset in the decoder's memory to one in a surface's."""

    source_offset: int
    target_offset: int
    width_bytes: int
    rows: int


class ImageSurfaces:
    """Makes surfaces of the images that one decoder gives; for the thread that decodes.

    Images of 8 bits that stand upright are copied by the GPU's copy engine; a kernel makes 8 bits of more, and turns.
    Both work on the decoder's stream, so that they are done before the decoder writes there again.
    """

    def __init__(
        self,
        facts: ImageFacts,
        *,
        layout: tuple[str, tuple[int, int]],
        gpu: CudaDevice,
        stream: CudaStream,
        pool: CudaPool,
    ) -> None:
        """Raises NvdecError when images do not lie as the facts let expect."""
        assert facts.pixel_format is not None
        self._facts, self._gpu, self._stream, self._pool = facts, gpu, stream, pool
        self._format = facts.pixel_format
        self._sample = np.dtype(np.uint8 if facts.bit_depth == 8 else np.uint16)
        self._pitch_bytes = self._sample.itemsize * _check_layout(facts, layout)
        self._shapes = self._format.plane_shapes(facts.size_wh)
        given_shapes = self._format.plane_shapes(given_size_wh(facts))
        self._size_bytes = self._pitch_bytes * sum(shape[0] for shape in given_shapes)
        self._offsets = self._offsets_of(given_shapes)
        self._turn = _turn_of(facts.orientation)
        width, height = facts.size_wh
        self._size_wh = (height, width) if facts.orientation.transposed else (width, height)
        self._is_copied = facts.bit_depth == 8 and facts.orientation == UPRIGHT
        arrays = self._new_surface().arrays
        start = arrays[0].base_address
        self._planes_of_surface = tuple(_Plane(one.base_address - start, one.shape, one.strides) for one in arrays)
        self._surface_pitch_bytes = arrays[0].pitch_bytes
        self._surface_bytes = sum(one.pitch_bytes * one.shape[0] for one in arrays)
        self._copies = self._copies_of(arrays)

    def surface(self, address: int) -> Surface:
        """The image at that address as a surface of the pool, ready when the decoder's stream has come so far.

        Raises CudaError; GpuOutOfMemory when too many images are held.
        """
        return self._copied(address) if self._is_copied else self._placed(address)

    def _copied(self, address: int) -> Surface:
        """Made by hand: `CudaDevice.new_surface`, `CudaDevice.copy` and `Surface.written` take twice the time, for
        every frame.
        """
        stream, facts = self._stream, self._facts
        with self._gpu.guard("copying a decoded image") as driver:
            buffer = self._pool.lease(self._surface_bytes, stream=stream)
            start = buffer.address
            for one in self._copies:
                source = Span(address + one.source_offset, self._pitch_bytes)
                target = Span(start + one.target_offset, self._surface_pitch_bytes)
                driver.copy(target, source, width_bytes=one.width_bytes, rows=one.rows, stream=stream.handle)
            ready = stream.record_by(driver)
            buffer.used_until(ready)
        arrays = [
            DeviceArray(start + plane.offset, plane.shape, _LEVEL, buffer, plane.strides, ready)
            for plane in self._planes_of_surface
        ]
        return Surface(self._format, self._size_wh, tuple(arrays), facts.matrix, facts.range, exclusive=True)

    def _placed(self, address: int) -> Surface:
        facts, surface = self._facts, self._new_surface()
        memory = BorrowedMemory(self._gpu, address, size_bytes=self._size_bytes, what="an image in a decoder's memory")
        place_decoded(
            self._gpu.kernels(SOURCE),
            self._planes(memory, address),
            targets=surface.arrays,
            bits=facts.bit_depth,
            turn=self._turn,
            is_luma_scaled=facts.range is ColorRange.FULL or self._format is PixelFormat.GRAY8,
            stream=self._stream,
        )
        return surface.written(self._stream.record())

    def _new_surface(self) -> Surface:
        return self._gpu.new_surface(
            self._format,
            size_wh=self._size_wh,
            stream=self._stream,
            matrix=self._facts.matrix,
            color_range=self._facts.range,
            pool=self._pool,
        )

    def _copies_of(self, arrays: Sequence[DeviceArray]) -> tuple[_Copy, ...]:
        """One for all planes where rows of all are as long, else one for each."""
        widths, start = {array.row_bytes for array in arrays}, arrays[0].base_address
        copies = [
            _Copy(offset, array.base_address - start, array.row_bytes, array.shape[0])
            for offset, array in zip(self._offsets, arrays, strict=True)
        ]
        has_rows_between = self._facts.origin[1] > 0 and len(copies) > 1
        if len(widths) > 1 or has_rows_between:
            return tuple(copies)
        return (_Copy(copies[0].source_offset, 0, widths.pop(), sum(one.rows for one in copies)),)

    def _offsets_of(self, given_shapes: Sequence[tuple[int, ...]]) -> list[int]:
        """Where the first pixel of each plane lies in what the decoder gives, which begins before the video does."""
        offsets, row = [], 0
        (left, top), item_bytes = self._facts.origin, self._sample.itemsize
        for shape in given_shapes:
            is_halved = len(shape) == 3
            first_row = top // 2 if is_halved else top
            offsets.append((row + first_row) * self._pitch_bytes + left * item_bytes)
            row += shape[0]
        return offsets

    def _planes(self, memory: BorrowedMemory, address: int) -> list[DeviceArray]:
        arrays = []
        for shape, offset in zip(self._shapes, self._offsets, strict=True):
            strides = dense_strides(shape, item_bytes=self._sample.itemsize, pitch_bytes=self._pitch_bytes)
            arrays.append(DeviceArray(address + offset, shape, self._sample, memory, strides))
        return arrays


def given_size_wh(facts: ImageFacts) -> tuple[int, int]:
    """The size of images as the decoder gives them: from the corner of the coded image on."""
    (width, height), (left, top) = facts.size_wh, facts.origin
    return width + left, height + top


def _check_layout(facts: ImageFacts, layout: tuple[str, tuple[int, int]]) -> int:
    """The samples of a row. NV12 and P016 have an even number, whatever the image has."""
    name, size_wh = layout
    expected = _GIVEN[facts.chroma, facts.bit_depth > 8]
    width, height = given_size_wh(facts)
    row = width + width % 2 if name in _PADDED else width
    if name != expected or size_wh != (row, height):
        raise NvdecError(f"it gives images as {name} of {size_wh[0]}x{size_wh[1]}, not as {expected} of {row}x{height}")
    return row


def _turn_of(orientation: Orientation) -> Turn:
    turn = Turn.TRANSPOSED if orientation.transposed else Turn.NONE
    turn |= Turn.FLIP_X if orientation.flip_x else Turn.NONE
    return turn | (Turn.FLIP_Y if orientation.flip_y else Turn.NONE)
