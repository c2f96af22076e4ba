"""A decoder of the double of PyNvVideoCodec."""
# ruff: noqa: N802  the names are PyNvVideoCodec's

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from sightline.devices.gpu.driver import Driver, Span
from sightline.devices.gpu.gpu import Gpu
from sightline.errors import GpuFailed
from sightline_plugins.testing.nvdec_images import HostImage, HostImages, resized
from sightline_plugins.testing.nvdec_names import (
    Caps,
    NvdecFaults,
    PacketData,
    PixelFormat,
    PyNvVCException,
    PyNvVCExceptionUnsupported,
    VideoPacketFlag,
)

_MOST_STAGED = 16
_PADDED_TO = 64
_FFMPEG_NAMES = {"AV1": "libdav1d"}


class DecodedFrame:
    """An image in the decoder's memory, until the next packet goes in."""

    def __init__(self, address: int, image: HostImage, event: int) -> None:
        self.timestamp = image.timestamp
        self.format = PixelFormat[image.layout]
        self.decoder_stream_event = event
        rows, row_bytes = image.extent
        luma_rows = image.size_wh[1]
        starts = [0, luma_rows, 2 * luma_rows] if image.chroma == "444" else [0, luma_rows]
        self._planes = [address + start * row_bytes for start in starts]
        self._bytes = rows * row_bytes

    def GetPtrToPlane(self, index: int, /) -> int:
        """The address of a plane."""
        return self._planes[index]

    def getPTS(self) -> int:
        """The timestamp of its packet."""
        return self.timestamp

    def framesize(self) -> int:
        """How many bytes it has."""
        return self._bytes


class PyNvDecoder:
    """One decoder. It lets go of its memory when nobody holds it, and does not wait for anybody before."""

    def __init__(
        self,
        gpu: Gpu,
        codec: str,
        *,
        caps: Caps | None,
        stream: int,
        is_low: bool,
        faults: NvdecFaults,
        number_of_call: Callable[[], int],
    ) -> None:
        self._gpu, self._caps, self._stream = gpu, caps, stream
        self._faults, self._number_of_call = faults, number_of_call
        self._is_low = is_low
        self._images = HostImages(_FFMPEG_NAMES.get(codec, codec.lower()), is_immediate=is_low)
        self._first: HostImage | None = None
        self._slots: list[int] = []
        self._staged: deque[tuple[int, int]] = deque()
        self._is_spoilt = False

    def Decode(self, packet: PacketData, /) -> list[DecodedFrame]:
        """Feed a packet, an empty one at the end; what comes out is overwritten by the next call."""
        if self._is_spoilt:
            raise PyNvVCException("the decoder failed before\n\nat NvDecoder.cpp:1")
        try:
            number = self._number_of_call()
            if number in self._faults.fail_at:
                raise PyNvVCException("Error code : 719\nError Type : CUDA_ERROR_LAUNCH_FAILED\n\nat NvDecoder.cpp:6")
            is_left_out = self._faults.is_mute or number in self._faults.pass_over
            images = [] if is_left_out else self._fed(packet)
            return [self._given(slot, image) for slot, image in enumerate(images)]
        except (PyNvVCException, PyNvVCExceptionUnsupported):
            self._is_spoilt = True
            raise

    def GetWidth(self) -> int:
        """The width of its images: even where chroma is interleaved."""
        first = self._known()
        width = first.extent[1] // (1 if first.bit_depth == 8 else 2)
        return -(-width // _PADDED_TO) * _PADDED_TO if self._faults.is_padded else width

    def GetHeight(self) -> int:
        """The height of its images."""
        return self._known().size_wh[1]

    def GetPixelFormat(self) -> PixelFormat:
        """How its images lie."""
        return PixelFormat[self._known().layout]

    def __del__(self) -> None:
        with suppress(GpuFailed), self._gpu.guard("letting go of a decoder") as driver:  # as C++: it is silent
            for address, event in self._staged:
                driver.free_pinned(address)
                driver.destroy_event(event)
            for address in self._slots:
                driver.free(address)

    def _fed(self, packet: PacketData) -> list[HostImage]:
        if not packet.bsl:
            return self._images.finish()
        data = ctypes.string_at(packet.bsl_data, packet.bsl)
        ends = self._is_low and packet.decode_flag == VideoPacketFlag.ENDOFPICTURE
        return self._images.feed(data, packet.pts, is_whole=ends)

    def _given(self, slot: int, image: HostImage) -> DecodedFrame:
        image = self._sized(image)
        with self._gpu.guard("decoding") as driver:
            if slot == len(self._slots):
                self._slots.append(driver.allocate(image.rows.nbytes))
            event = self._write(driver, self._slots[slot], image)
        return DecodedFrame(self._slots[slot], image, event)

    def _sized(self, image: HostImage) -> HostImage:
        if self._first is None:
            _check(image, self._caps)
            self._first = image
        first = self._first
        if image.size_wh == first.size_wh:
            return image
        if image.size_wh[0] > first.size_wh[0] or image.size_wh[1] > first.size_wh[1]:
            raise PyNvVCException("the image is larger than maxwidth x maxheight\n\nat NvDecoder.cpp:2")
        return resized(image, first.size_wh)

    def _write(self, driver: Driver, address: int, image: HostImage) -> int:
        """Queue that an image is written; returns the event behind it."""
        rows, row_bytes = image.extent
        staged, event = self._staging(driver, image.rows.nbytes)
        ctypes.memmove(staged, image.rows.ctypes.data, image.rows.nbytes)
        source, target = Span(staged, row_bytes, on_host=True), Span(address, row_bytes)
        driver.copy(target, source, width_bytes=row_bytes, rows=rows, stream=self._stream)
        driver.record(event, stream=self._stream)
        self._staged.append((staged, event))
        return event

    def _staging(self, driver: Driver, size_bytes: int) -> tuple[int, int]:
        """Pinned memory that nothing queued reads any more, and an event."""
        if self._staged and (driver.is_done(self._staged[0][1]) or len(self._staged) >= _MOST_STAGED):
            address, event = self._staged.popleft()
            driver.synchronize_event(event)
            return address, event
        return driver.allocate_pinned(size_bytes), driver.create_event()

    def _known(self) -> HostImage:
        if self._first is None:
            raise PyNvVCException("no image was decoded yet\n\nat NvDecoder.cpp:3")
        return self._first


def _check(image: HostImage, caps: Caps | None) -> None:
    """Raise when the GPU does not decode such images."""
    if caps is None or image.bit_depth not in caps.depths.get(image.chroma, ()):
        raise PyNvVCExceptionUnsupported("Codec not supported on this GPU\n\nat NvDecoder.cpp:4")
    if image.size_wh[0] > caps.max_size_wh[0] or image.size_wh[1] > caps.max_size_wh[1]:
        raise PyNvVCException("Resolution not supported on this GPU\n\nat NvDecoder.cpp:5")
