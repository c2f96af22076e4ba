"""A fake PyNvVideoCodec decoder with the traps of the real one.

The traps, as PyNvVideoCodec 2.2.4 has them: the next `Decode` overwrites what the last one gave; rows have no padding;
the first size of a decoder stays, smaller images are scaled to it and larger ones raise; an image comes one packet
late; images of the cropped size are cut from the corner of the coded image, whatever the stream crops left and top;
damaged images are given all the same; interlaced ones are deinterlaced; after an exception a decoder is of no
use; and images are there in the order of the decoder's stream, not before.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, cast

import av.error
import numpy as np
import numpy.typing as npt
from av.codec import CodecContext
from av.codec.context import Flags
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Driver, Span
from sightline.errors import CudaFailed
from sightline_plugins.decode import nvdec_library
from sightline_plugins.decode.nvdec_library import NvdecLibrary
from tests.fakes.seams import Seam


class CudaVideoCodec(IntEnum):
    """Codecs."""

    MPEG1 = 0
    MPEG2 = 1
    MPEG4 = 2
    VC1 = 3
    H264 = 4
    JPEG = 5
    HEVC = 8
    VP8 = 9
    VP9 = 10
    AV1 = 11


class DisplayDecodeLatencyType(IntEnum):
    """When images come out."""

    NATIVE = 0
    LOW = 1
    ZERO = 2


class VideoPacketFlag(IntEnum):
    """What is said of a packet."""

    ENDOFSTREAM = 1
    TIMESTAMP = 2
    DISCONTINUITY = 4
    ENDOFPICTURE = 8
    NOTIFY_EOS = 16


class PixelFormat(IntEnum):
    """How images lie."""

    NV12 = 3
    YUV444 = 4
    P016 = 5
    YUV444_16Bit = 6


class PyNvVCException(Exception):
    """Something failed."""


class PyNvVCExceptionUnsupported(Exception):
    """The GPU does not decode it. It is not a PyNvVCException."""


@dataclass(slots=True, eq=False)
class PacketData:
    """A packet; `bsl_data` is its address."""

    bsl_data: int = 0
    bsl: int = 0
    pts: int = 0
    dts: int = 0
    decode_flag: int = 0


@dataclass(frozen=True, slots=True)
class Caps:
    """What the GPU decodes of one codec: depths by chroma layout, and the sizes."""

    depths: Mapping[str, tuple[int, ...]]
    min_size_wh: tuple[int, int] = (48, 16)
    max_size_wh: tuple[int, int] = (4096, 4096)
    max_macroblocks: int = 65536


@dataclass(frozen=True, slots=True)
class NvdecFaults:
    """What goes wrong: calls of `Decode` that raise, and calls whose packet is passed over, numbered from 0 over all
    decoders; decoders that give no image; decoders whose rows are longer than images are wide; calls whose images are
    shifted by two columns; decoders that give images without the timestamps of their packets. An image comes out
    `late_by` packets after FFmpeg's: 2 is what an H200 did with B-frames (2026-11-26).
    """

    fail_at: frozenset[int] = frozenset()
    pass_over: frozenset[int] = frozenset()
    is_mute: bool = False
    is_padded: bool = False
    shifted: Container[int] = ()
    is_untimed: bool = False
    late_by: int = 1


HOPPER: Mapping[str, Caps] = MappingProxyType(
    {
        "MPEG1": Caps({"420": (8,)}),
        "MPEG2": Caps({"420": (8,)}),
        "MPEG4": Caps({"420": (8,)}, max_size_wh=(2032, 2032), max_macroblocks=8192),
        "H264": Caps({"420": (8,)}),
        "HEVC": Caps({"420": (8, 10, 12), "444": (8, 10, 12)}, (144, 144), (8192, 8192), 262144),
        "VP8": Caps({"420": (8,)}),
        "VP9": Caps({"420": (8, 10, 12)}, (128, 128), (8192, 8192), 262144),
    }
)
"""What an H200 is said to decode; no AV1."""


_NEUTRAL = 128


@dataclass(frozen=True, slots=True, eq=False)
class HostImage:
    """An image with the timestamp of its packet. `rows` are those of all planes, (rows, bytes), without padding."""

    timestamp: int
    layout: str
    chroma: str
    bit_depth: int
    size_wh: tuple[int, int]
    rows: npt.NDArray[np.uint8]

    @property
    def extent(self) -> tuple[int, int]:
        """How many rows there are, and how many bytes in each."""
        count, row_bytes = self.rows.shape
        return int(count), int(row_bytes)


class HostImages:
    """Decodes one stream as NVDEC's parser would have it; for one thread.

    An image comes out some packets late, as NVDEC's parser gives it when it knows that it is whole; with `is_immediate`
    it comes with its own packet, B-frames in the order in which they are decoded. A packet that does not decode gives
    the image before it once more.
    """

    def __init__(self, codec: str, *, is_immediate: bool, late_by: int) -> None:
        self._late_by = late_by
        context = CodecContext.create(codec, "r")
        assert isinstance(context, VideoCodecContext)
        context.thread_count = 1
        context.options = {"apply_cropping": "0"}
        if is_immediate:
            context.flags |= Flags.low_delay
        self._context = context
        self._timestamps: dict[int, int] = {}
        self._number = 0
        self._ready: deque[HostImage] = deque()
        self._last: HostImage | None = None

    def feed(self, data: bytes, timestamp: int, *, is_whole: bool) -> list[HostImage]:
        """The images that come out; `is_whole` says that the packet ends with its image."""
        packet = Packet(data)
        packet.pts = self._number
        self._timestamps[self._number] = timestamp
        self._number += 1
        try:
            self._take(self._context.decode(packet))
        except (av.error.FFmpegError, OSError):
            self._conceal(timestamp)
        return self._given(leave=0 if is_whole else self._late_by)

    def finish(self) -> list[HostImage]:
        """The images that are left."""
        try:
            self._take(self._context.decode(None))
        finally:
            self._context.flush_buffers()
        return self._given(leave=0)

    def _take(self, frames: list[VideoFrame]) -> None:
        for frame in frames:
            timestamp = self._timestamps.pop(cast("int", frame.pts))
            self._last = _image(frame, timestamp, size_wh=self._size_wh_of(frame))
            self._ready.append(self._last)

    def _size_wh_of(self, frame: VideoFrame) -> tuple[int, int]:
        """The size that the stream crops an image to, which was not cropped itself."""
        if self._context.name not in ("h264", "hevc"):
            return frame.width, frame.height
        return self._context.width, self._context.height

    def _conceal(self, timestamp: int) -> None:
        last = self._last
        if last is not None:
            again = HostImage(timestamp, last.layout, last.chroma, last.bit_depth, last.size_wh, last.rows)
            self._ready.append(again)

    def _given(self, *, leave: int) -> list[HostImage]:
        return [self._ready.popleft() for _ in range(len(self._ready) - leave)]


def resized(image: HostImage, size_wh: tuple[int, int]) -> HostImage:
    """An image of 8 bits with 4:2:0 in another size: what NVDEC does when the size changes under a decoder."""
    width, height = image.size_wh
    frame = VideoFrame.from_ndarray(image.rows[: height * 3 // 2], "nv12")
    assert (frame.width, frame.height) == (width, height)
    other = VideoReformatter().reformat(frame, *size_wh, "yuv420p")
    other.pts = 0
    return _image(other, image.timestamp, size_wh=size_wh)


def _image(frame: VideoFrame, timestamp: int, *, size_wh: tuple[int, int]) -> HostImage:
    planes, bit_depth = _planes(frame), frame.format.components[0].bits
    planes = [_cut(plane, planes[0], size_wh) for plane in planes]
    chroma = {1: "400", 3: "420"}[len(planes)] if planes[-1].shape != planes[0].shape or len(planes) == 1 else "444"
    if frame.interlaced_frame:
        planes = [_deinterlaced(plane) for plane in planes]
    if bit_depth > 8:
        planes = [plane << np.uint16(16 - bit_depth) for plane in planes]
    rows = np.concatenate(planes if chroma == "444" else _as_nv12(planes, bit_depth=bit_depth))
    names = {"444": ("YUV444", "YUV444_16Bit")}.get(chroma, ("NV12", "P016"))
    lying = np.ascontiguousarray(rows).view(np.uint8)
    return HostImage(timestamp, names[bit_depth > 8], chroma, bit_depth, size_wh, lying)


def _cut(plane: npt.NDArray[Any], luma: npt.NDArray[Any], size_wh: tuple[int, int]) -> npt.NDArray[Any]:
    """The corner of a plane that an image of that size takes."""
    width, height = size_wh
    across, down = -(-luma.shape[1] // plane.shape[1]), -(-luma.shape[0] // plane.shape[0])
    return plane[: -(-height // down), : -(-width // across)]


def _as_nv12(planes: list[npt.NDArray[Any]], *, bit_depth: int) -> list[npt.NDArray[Any]]:
    """Luma with an even number of columns, and chroma interleaved; neutral chroma where there is none."""
    luma = planes[0]
    height, width = luma.shape
    if width % 2:
        luma = np.pad(luma, ((0, 0), (0, 1)), mode="edge")
    if len(planes) == 1:
        neutral = _NEUTRAL << (8 if bit_depth > 8 else 0)
        return [luma, np.full((-(-height // 2), luma.shape[1]), neutral, luma.dtype)]
    return [luma, np.stack(planes[1:], axis=-1).reshape(planes[1].shape[0], -1)]


def _planes(frame: VideoFrame) -> list[npt.NDArray[Any]]:
    sample = np.dtype(np.uint8 if frame.format.components[0].bits == 8 else "<u2")
    return [
        np.ndarray((plane.height, plane.width), sample, plane, 0, (plane.line_size, sample.itemsize)).copy()  # type: ignore[arg-type]
        for plane in frame.planes
    ]


def _deinterlaced(plane: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One field, doubled."""
    return np.repeat(plane[::2], 2, axis=0)[: len(plane)]


# ruff: noqa: N802  the names are PyNvVideoCodec's


_MOST_STAGED = 16
_NO_TIME = -(2**40)
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
        gpu: CudaDevice,
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
        self._images = HostImages(_FFMPEG_NAMES.get(codec, codec.lower()), is_immediate=is_low, late_by=faults.late_by)
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
            if number in self._faults.shifted:
                images = [replace(one, rows=np.roll(one.rows, 2 * (1 + (one.bit_depth > 8)), axis=1)) for one in images]
            if self._faults.is_untimed:
                images = [replace(one, timestamp=_NO_TIME) for one in images]
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
        with suppress(CudaFailed), self._gpu.guard("letting go of a decoder") as driver:  # as C++: it is silent
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


# ruff: noqa: N802, N815  the names are PyNvVideoCodec's; ctypes hides what it passes by reference


_CHROMA = ("400", "420", "422", "444")
_NO_FAULTS = NvdecFaults()
_Latency = DisplayDecodeLatencyType


class FakeNvdec:
    """Stands for the module PyNvVideoCodec and for libnvcuvid, with one GPU, which it does not keep alive.

    `caps` is what that GPU decodes.
    """

    cudaVideoCodec = CudaVideoCodec
    DisplayDecodeLatencyType = DisplayDecodeLatencyType
    VideoPacketFlag = VideoPacketFlag
    PacketData = PacketData
    PyNvVCException = PyNvVCException
    PyNvVCExceptionUnsupported = PyNvVCExceptionUnsupported

    def __init__(self, gpu: CudaDevice, *, caps: Mapping[str, Caps] = HOPPER, faults: NvdecFaults = _NO_FAULTS) -> None:
        self._gpu = weakref.ref(gpu)
        self._caps = caps
        self._faults = faults
        self._calls = 0
        self._open: weakref.WeakSet[PyNvDecoder] = weakref.WeakSet()
        self.made: list[tuple[str, str]] = []
        """Codec and latency of every decoder that was made."""

    @property
    def open_count(self) -> int:
        """How many decoders there are."""
        return len(self._open)

    def cuvidGetDecoderCaps(self, asked: Any) -> int:
        """What the GPU decodes of a codec, as the driver's own library tells it."""
        told = asked._obj
        caps = self._caps.get(CudaVideoCodec(told.codec).name)
        told.engines = 7
        told.is_supported = caps is not None and told.bit_depth_minus_8 + 8 in caps.depths.get(_CHROMA[told.chroma], ())
        if caps is not None:
            (told.min_width, told.min_height), (told.max_width, told.max_height) = caps.min_size_wh, caps.max_size_wh
            told.max_macroblocks = caps.max_macroblocks
        return 0

    def CreateDecoder(
        self,
        *,
        gpuid: int = 0,
        codec: CudaVideoCodec = CudaVideoCodec.H264,
        cudacontext: int = 0,
        cudastream: int = 0,
        usedevicememory: bool = False,
        latency: _Latency = _Latency.NATIVE,
    ) -> PyNvDecoder:
        """A decoder on a stream."""
        gpu = self._gpu()
        assert gpu is not None, "the GPU is gone"
        assert (gpu.index, cudacontext, usedevicememory) == (gpuid, gpu.foreign_context, True), (
            "not our GPU, context or memory"
        )
        assert gpu.guard.cause is None, "making a decoder on a broken GPU ends the process"
        decoder = PyNvDecoder(
            gpu,
            codec.name,
            caps=self._caps.get(codec.name),
            stream=cudastream,
            is_low=latency is _Latency.LOW,
            faults=self._faults,
            number_of_call=self._number_of_call,
        )
        self._open.add(decoder)
        self.made.append((codec.name, latency.name))
        return decoder

    def _number_of_call(self) -> int:
        number, self._calls = self._calls, self._calls + 1
        return number


_LIBRARY = Seam(nvdec_library, "library_for")


def fake_nvdec(gpu: CudaDevice, *, caps: Mapping[str, Caps] = HOPPER, faults: NvdecFaults = _NO_FAULTS) -> FakeNvdec:
    """Let a fake of PyNvVideoCodec take its place on a GPU, which is a fake itself."""
    double = FakeNvdec(gpu, caps=caps, faults=faults)
    _LIBRARY.install(gpu, lambda gpu: NvdecLibrary(double, driver=double, gpu=gpu))
    return double
