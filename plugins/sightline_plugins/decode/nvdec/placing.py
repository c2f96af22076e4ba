"""From a decoder's own memory into surfaces that are ours: one copy on the GPU, which is all that a picture costs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.memory import BorrowedMemory
from sightline.devices.gpu.pools import DevicePool
from sightline.devices.gpu.streams import GpuStream
from sightline.media import ColorRange, PixelFormat, Surface
from sightline.media.device_array import DeviceArray
from sightline.media.device_memory import dense_strides
from sightline_plugins.decode.nvdec.library import NvdecError
from sightline_plugins.decode.nvdec.picture_facts import PictureFacts
from sightline_plugins.decode.orientation import UPRIGHT, Orientation
from sightline_plugins.kernels.decoded import SOURCE, Turn, place_decoded

_GIVEN: Mapping[tuple[str, bool], str] = MappingProxyType(
    {("400", False): "NV12", ("400", True): "P016", ("420", False): "NV12", ("420", True): "P016"}
    | {("444", False): "YUV444", ("444", True): "YUV444_16Bit"}
)
"""How the library gives pictures of a chroma layout, with 8 bits and with more."""
_PADDED = ("NV12", "P016")


class Places:
    """Makes surfaces of the pictures that one decoder gives; for the thread that decodes.

    Pictures of 8 bits that stand upright are copied by the GPU's copy engine; a kernel makes 8 bits of more, and turns.
    Both work on the decoder's stream, so that they are done before the decoder writes there again.
    """

    def __init__(
        self,
        facts: PictureFacts,
        *,
        layout: tuple[str, tuple[int, int]],
        gpu: Gpu,
        stream: GpuStream,
        pool: DevicePool,
    ) -> None:
        """Raises NvdecError when pictures do not lie as the facts let expect."""
        assert facts.pixel_format is not None
        self._facts, self._gpu, self._stream, self._pool = facts, gpu, stream, pool
        self._format = facts.pixel_format
        self._sample = np.dtype(np.uint8 if facts.bit_depth == 8 else np.uint16)
        width, height = facts.size_wh
        self._pitch_bytes = self._sample.itemsize * _check_layout(facts, layout)
        self._shapes = self._format.plane_shapes(facts.size_wh)
        self._height = height
        rows = sum(shape[0] for shape in self._shapes)
        self._size_bytes = self._pitch_bytes * rows
        self._turn = _turn_of(facts.orientation)
        self._is_copied = facts.bit_depth == 8 and facts.orientation == UPRIGHT
        self._whole = (rows, width) if self._is_copied and width * self._sample.itemsize == self._pitch_bytes else None
        self._turned_wh = (height, width) if facts.orientation.transposed else (width, height)

    def surface(self, address: int) -> Surface:
        """The picture at that address as a surface of the pool, ready when the decoder's stream has come so far.

        Raises GpuError; GpuOutOfMemory when too many pictures are held.
        """
        stream, facts = self._stream, self._facts
        surface = self._gpu.new_surface(
            self._format,
            size_wh=self._turned_wh,
            stream=stream,
            matrix=facts.matrix,
            color_range=facts.range,
            pool=self._pool,
        )
        memory = BorrowedMemory(self._gpu, address, size_bytes=self._size_bytes, what="a picture in a decoder's memory")
        if self._whole is not None:
            source = DeviceArray(address, self._whole, self._sample, memory)
            [copied] = self._gpu.copy([source], [surface.whole], stream=stream)
            assert copied.ready is not None
            return surface.written(copied.ready)
        sources = self._planes(memory, address)
        if self._is_copied:
            self._gpu.copy(sources, surface.arrays, stream=stream)
        else:
            self._place(sources, surface.arrays)
        return surface.written(stream.record())

    def _place(self, sources: list[DeviceArray], targets: tuple[DeviceArray, ...]) -> None:
        facts = self._facts
        place_decoded(
            self._gpu.kernels(SOURCE),
            sources,
            targets=targets,
            bits=facts.bit_depth,
            turn=self._turn,
            is_luma_scaled=facts.range is ColorRange.FULL or self._format is PixelFormat.GRAY8,
            stream=self._stream,
        )

    def _planes(self, memory: BorrowedMemory, address: int) -> list[DeviceArray]:
        arrays = []
        for shape in self._shapes:
            strides = dense_strides(shape, item_bytes=self._sample.itemsize, pitch_bytes=self._pitch_bytes)
            arrays.append(DeviceArray(address, shape, self._sample, memory, strides))
            address += self._pitch_bytes * shape[0]
        return arrays


def _check_layout(facts: PictureFacts, layout: tuple[str, tuple[int, int]]) -> int:
    """The samples of a row. NV12 and P016 have an even number, whatever the picture has."""
    name, size_wh = layout
    expected = _GIVEN[facts.chroma, facts.bit_depth > 8]
    width, height = facts.size_wh
    row = width + width % 2 if name in _PADDED else width
    if name != expected or size_wh != (row, height):
        raise NvdecError(
            f"it gives pictures as {name} of {size_wh[0]}x{size_wh[1]}, not as {expected} of {row}x{height}"
        )
    return row


def _turn_of(orientation: Orientation) -> Turn:
    turn = Turn.TRANSPOSED if orientation.transposed else Turn.NONE
    turn |= Turn.FLIP_X if orientation.flip_x else Turn.NONE
    return turn | (Turn.FLIP_Y if orientation.flip_y else Turn.NONE)
