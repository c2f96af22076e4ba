"""One NVDEC session: packets submitted, surfaces copied into leased memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import cast

import numpy as np
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Span
from sightline.devices.cuda.memory import BorrowedMemory
from sightline.devices.cuda.pools import CudaPool
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import CudaError, SurfaceReleased
from sightline.media import ColorRange, PixelFormat, Surface
from sightline.media.device_array import DeviceArray, dense_strides
from sightline_plugins.codecs.sps import with_origin_uncropped
from sightline_plugins.cuda.decoded import SOURCE, Turn, place_decoded
from sightline_plugins.decode.decoder import Image
from sightline_plugins.decode.nvdec_library import HardwareDecoder, ImageFacts, NvdecError, NvdecLibrary
from sightline_plugins.decode.orientation import UPRIGHT, Orientation

_FIRST_MARK = -(2**63) + 1
"""Packets without a timestamp carry marks that no timestamp is."""
LONGEST_STAY = 64
"""A packet whose image has not come out when so many others have gone in gives none; no codec waits for more."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What a packet says of its image; `number` is its own where encoded images are kept."""

    pts: int | None
    dts: int | None
    is_discard: bool
    number: int | None

    @classmethod
    def of(cls, packet: Packet[VideoStream]) -> Submission:
        """What this packet says."""
        number = packet.opaque if isinstance(packet.opaque, int) else None
        return cls(packet.pts, packet.dts, packet.is_discard, number)


class Submitted:
    """The packets that are in one decoder.

    `reorder_depth` is by how many packets FFmpeg's decoder is behind: images without a presentation time are timed by
    the decoding time of the packet that went in when FFmpeg's comes out, so that both decoders time them alike.
    """

    def __init__(self, *, reorder_depth: int) -> None:
        self._depth = reorder_depth
        self._inside: dict[int, deque[tuple[int, Submission]]] = {}
        self._decoding_times: deque[int | None] = deque(maxlen=2 * LONGEST_STAY)
        self._put = 0
        self._highest: int | None = None
        self.is_reordered = False
        """Whether a packet came with a lower presentation time than one before it: there are B-frames."""
        self.without_image = 0
        """How many packets in a row gave no image."""

    def put(self, submission: Submission) -> int:
        """A packet goes in; returns the timestamp that it is to carry."""
        pts = submission.pts
        mark = _FIRST_MARK + self._put if pts is None else pts
        self._inside.setdefault(mark, deque()).append((self._put, submission))
        self._decoding_times.append(submission.dts)
        self._put += 1
        self.without_image += 1
        if pts is not None:
            self.is_reordered |= self._highest is not None and pts < self._highest
            self._highest = pts if self._highest is None else max(pts, self._highest)
        return mark

    def take(self, timestamp: int) -> Submission:
        """An image came out with that timestamp; one that no packet carried says nothing of its packet."""
        self.without_image = 0
        dts = self._decoding_times[self._depth] if self._depth < len(self._decoding_times) else None
        if self._decoding_times:
            self._decoding_times.popleft()
        known = self._inside.get(timestamp)
        if known is None:
            return Submission(None, dts, is_discard=False, number=None)
        _, found = known.popleft()
        if not known:
            del self._inside[timestamp]
        return replace(found, dts=dts) if found.pts is None else found

    def overdue(self) -> int:
        """How many packets have given no image although so many others went in after them; they are forgotten."""
        if self._put % LONGEST_STAY:
            return 0
        late = [mark for mark, waiting in self._inside.items() if waiting[0][0] < self._put - LONGEST_STAY]
        return sum(len(self._inside.pop(mark)) for mark in late)

    def left(self) -> int:
        """How many packets have given no image, when all images are out."""
        return sum(len(waiting) for waiting in self._inside.values())


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
        buffer = self._pool.lease(self._surface_bytes, stream=stream)
        start = buffer.address
        with self._gpu.guard("copying a decoded image") as driver:
            for one in self._copies:
                source = Span(address + one.source_offset, self._pitch_bytes)
                target = Span(start + one.target_offset, self._surface_pitch_bytes)
                driver.copy(target, source, width_bytes=one.width_bytes, rows=one.rows, stream=stream.handle)
        ready = stream.record()
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


class Session:
    """Decodes images of one size; for one thread. Raises NvdecError when the decoder cannot be made.

    What it gives lies in the decoder's memory until the next packet goes in; `Image.surface` copies it into the pool
    before that, and raises SurfaceReleased afterwards.

    PyNvVideoCodec gives images of the cropped size, but always from the corner of the coded image on. So the decoder
    of a stream that crops left or top gets SPSs that do not, and the copy begins where the video does.
    """

    def __init__(
        self,
        library: NvdecLibrary,
        *,
        codec: str,
        facts: ImageFacts,
        gpu: CudaDevice,
        stream: CudaStream,
        pool: CudaPool,
        submitted: Submitted,
        is_immediate: bool,
    ) -> None:
        self._is_immediate = is_immediate
        self.submitted = submitted
        self._codec, self._facts = codec, facts
        self._gpu, self._stream, self._pool = gpu, stream, pool
        self._surfaces: ImageSurfaces | None = None
        self._calls = 0
        self._hardware: HardwareDecoder | None = library.decoder(
            codec, stream_handle=stream.handle, is_immediate=is_immediate
        )

    def decode(self, packet: Packet[VideoStream], submission: Submission) -> list[Image]:
        """The images that come out when this packet, a byte stream, goes in. Raises NvdecError."""
        assert self._hardware is not None
        self._calls += 1
        if self._facts.origin != (0, 0):
            packet = cast("Packet[VideoStream]", Packet(with_origin_uncropped(self._codec, bytes(packet))))
        timestamp = self.submitted.put(submission)
        given = self._hardware.decode(packet.buffer_ptr, size_bytes=packet.size, timestamp=timestamp)
        return self._images(given)

    @property
    def is_misjudged(self) -> bool:
        """Whether there are B-frames after all, and images must not be given with their own packets."""
        return self._is_immediate and self.submitted.is_reordered

    def finish(self) -> list[Image]:
        """The images that are left. Raises NvdecError."""
        assert self._hardware is not None
        self._calls += 1
        return self._images(self._hardware.flush())

    def close(self) -> None:
        """Let go of the decoder, and before that of its memory: what copies from there is waited for."""
        self._calls += 1
        if self._hardware is not None:
            with suppress(CudaError):  # the guard keeps the cause
                self._stream.synchronize()
            self._hardware = self._surfaces = None

    def _images(self, given: list[tuple[int, int]]) -> list[Image]:
        images = []
        for timestamp, address in given:
            submission = self.submitted.take(timestamp)
            if submission.is_discard:
                continue
            images.append(
                Image(
                    submission.pts,
                    submission.dts,
                    is_corrupt=False,
                    packet=submission.number,
                    surface=partial(self._surface, self._surfaces_of_decoder(), address, call=self._calls),
                    is_turned=self._facts.orientation != UPRIGHT,
                )
            )
        return images

    def _surfaces_of_decoder(self) -> ImageSurfaces:
        if self._surfaces is None:
            assert self._hardware is not None
            self._surfaces = ImageSurfaces(
                self._facts, layout=self._hardware.layout, gpu=self._gpu, stream=self._stream, pool=self._pool
            )
        return self._surfaces

    def _surface(self, surfaces: ImageSurfaces, address: int, *, call: int) -> Surface:
        if call != self._calls:
            raise SurfaceReleased("the decoder has had another packet: this image is gone")
        return surfaces.surface(address)
