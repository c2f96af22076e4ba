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
from sightline_plugins.testing.nvdec_names import (
    Caps,
    NvdecFaults,
    PacketData,
    PixelFormat,
    PyNvVCException,
    PyNvVCExceptionUnsupported,
    VideoPacketFlag,
)
from sightline_plugins.testing.nvdec_pictures import HostPicture, HostPictures, resized

_MOST_STAGED = 16
_PADDED_TO = 64
_FFMPEG_NAMES = {"AV1": "libdav1d"}


class DecodedFrame:
    """A picture in the decoder's memory, until the next packet goes in."""

    def __init__(self, address: int, picture: HostPicture, event: int) -> None:
        self.timestamp = picture.timestamp
        self.format = PixelFormat[picture.layout]
        self.decoder_stream_event = event
        rows, row_bytes = picture.extent
        luma_rows = picture.size_wh[1]
        starts = [0, luma_rows, 2 * luma_rows] if picture.chroma == "444" else [0, luma_rows]
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
        self._pictures = HostPictures(_FFMPEG_NAMES.get(codec, codec.lower()), is_immediate=is_low)
        self._first: HostPicture | None = None
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
            pictures = [] if is_left_out else self._fed(packet)
            return [self._given(slot, picture) for slot, picture in enumerate(pictures)]
        except (PyNvVCException, PyNvVCExceptionUnsupported):
            self._is_spoilt = True
            raise

    def GetWidth(self) -> int:
        """The width of its pictures: even where chroma is interleaved."""
        first = self._known()
        width = first.extent[1] // (1 if first.bit_depth == 8 else 2)
        return -(-width // _PADDED_TO) * _PADDED_TO if self._faults.is_padded else width

    def GetHeight(self) -> int:
        """The height of its pictures."""
        return self._known().size_wh[1]

    def GetPixelFormat(self) -> PixelFormat:
        """How its pictures lie."""
        return PixelFormat[self._known().layout]

    def __del__(self) -> None:
        with suppress(GpuFailed), self._gpu.guard("letting go of a decoder") as driver:  # as C++: it is silent
            for address, event in self._staged:
                driver.free_pinned(address)
                driver.destroy_event(event)
            for address in self._slots:
                driver.free(address)

    def _fed(self, packet: PacketData) -> list[HostPicture]:
        if not packet.bsl:
            return self._pictures.finish()
        data = ctypes.string_at(packet.bsl_data, packet.bsl)
        ends = self._is_low and packet.decode_flag == VideoPacketFlag.ENDOFPICTURE
        return self._pictures.feed(data, packet.pts, is_whole=ends)

    def _given(self, slot: int, picture: HostPicture) -> DecodedFrame:
        picture = self._sized(picture)
        with self._gpu.guard("decoding") as driver:
            if slot == len(self._slots):
                self._slots.append(driver.allocate(picture.rows.nbytes))
            event = self._write(driver, self._slots[slot], picture)
        return DecodedFrame(self._slots[slot], picture, event)

    def _sized(self, picture: HostPicture) -> HostPicture:
        if self._first is None:
            _check(picture, self._caps)
            self._first = picture
        first = self._first
        if picture.size_wh == first.size_wh:
            return picture
        if picture.size_wh[0] > first.size_wh[0] or picture.size_wh[1] > first.size_wh[1]:
            raise PyNvVCException("the picture is larger than maxwidth x maxheight\n\nat NvDecoder.cpp:2")
        return resized(picture, first.size_wh)

    def _write(self, driver: Driver, address: int, picture: HostPicture) -> int:
        """Queue that a picture is written; returns the event behind it."""
        rows, row_bytes = picture.extent
        staged, event = self._staging(driver, picture.rows.nbytes)
        ctypes.memmove(staged, picture.rows.ctypes.data, picture.rows.nbytes)
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

    def _known(self) -> HostPicture:
        if self._first is None:
            raise PyNvVCException("no picture was decoded yet\n\nat NvDecoder.cpp:3")
        return self._first


def _check(picture: HostPicture, caps: Caps | None) -> None:
    """Raise when the GPU does not decode such pictures."""
    if caps is None or picture.bit_depth not in caps.depths.get(picture.chroma, ()):
        raise PyNvVCExceptionUnsupported("Codec not supported on this GPU\n\nat NvDecoder.cpp:4")
    if picture.size_wh[0] > caps.max_size_wh[0] or picture.size_wh[1] > caps.max_size_wh[1]:
        raise PyNvVCException("Resolution not supported on this GPU\n\nat NvDecoder.cpp:5")
