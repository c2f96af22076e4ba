"""PyNvVideoCodec's decoder, and what it needs to know of a stream.

Colour matrix and range, which way up an image is, and whether it is interlaced, come from the container and from the
stream in a dozen ways that FFmpeg knows. So the first key frame, and each that brings another configuration, is
decoded on the CPU as well, and what the CPU says of it holds for the images of NVDEC.

What it does not do: it owns no image (the next packet overwrites what the last one gave), it waits for nothing (the
images are there in the order of the stream that it was given), and it does not survive a GPU that does not work (it
ends the process). Tested with PyNvVideoCodec 2.2.4 on a fake driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.libcuda import (
    NVDEC_LIBRARY,
    DecoderSupport,
    decoder_support,
    extra_for_driver,
    nvdec_library,
)
from sightline.media import ColorMatrix, ColorRange, PixelFormat
from sightline_plugins.codecs.packet import packet_of
from sightline_plugins.codecs.sps import Crop
from sightline_plugins.decode.orientation import Orientation, orientation_of
from sightline_plugins.decode.surfaces import layout_of

_FORMATS: Mapping[str, tuple[PixelFormat, str, int]] = MappingProxyType(
    {
        "gray": (PixelFormat.GRAY8, "400", 8),
        "gray10le": (PixelFormat.GRAY8, "400", 10),
        "gray12le": (PixelFormat.GRAY8, "400", 12),
        "yuv420p": (PixelFormat.NV12, "420", 8),
        "yuvj420p": (PixelFormat.NV12, "420", 8),
        "yuv420p10le": (PixelFormat.NV12, "420", 10),
        "yuv420p12le": (PixelFormat.NV12, "420", 12),
        "yuv444p": (PixelFormat.I444, "444", 8),
        "yuvj444p": (PixelFormat.I444, "444", 8),
        "yuv444p10le": (PixelFormat.I444, "444", 10),
        "yuv444p12le": (PixelFormat.I444, "444", 12),
    }
)
"""FFmpeg's formats that NVDEC may give: the format of the surface, the chroma layout and the depth."""
_PROGRESSIVE = (0, 1)
"""FFmpeg's orders of fields: unknown, and none."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What holds for the images from one key frame on; `size_wh` is that before a turn.

    `crops` are those of the SPSs that came with it: more than one only where SPSs differ.

    `pixel_format` is that of surfaces in GPU memory, None when NVDEC never gives the format that FFmpeg calls `coded`.
    """

    coded: str
    size_wh: tuple[int, int]
    matrix: ColorMatrix
    range: ColorRange
    orientation: Orientation
    is_interlaced: bool
    crops: tuple[Crop, ...] = ()

    @property
    def pixel_format(self) -> PixelFormat | None:
        """The format of surfaces in GPU memory."""
        return _FORMATS[self.coded][0] if self.coded in _FORMATS else None

    @property
    def origin(self) -> tuple[int, int]:
        """Column and row of the coded image at which the video begins."""
        return (self.crops[0].left, self.crops[0].top) if self.crops else (0, 0)

    @property
    def chroma(self) -> str:
        """The layout of chroma, `420`."""
        return _FORMATS[self.coded][1]

    @property
    def bit_depth(self) -> int:
        """How many bits a sample has."""
        return _FORMATS[self.coded][2]


def facts_of(
    data: bytes, *, video: VideoStream, orientation: Orientation | None
) -> tuple[ImageFacts, VideoFrame] | None:
    """The facts that begin with this encoded image, and the image; None when it cannot be decoded by itself.

    `orientation` overrides what the stream says. The stream's own decoder is used, and left as if it had seen nothing.
    Raises what PyAV raises when the image is damaged.
    """
    context = video.codec_context
    try:
        frames = [*context.decode(packet_of(data)), *context.decode(None)]
    finally:
        context.flush_buffers()
    if not frames:
        return None
    return _facts(frames[0], field_order=context.field_order, orientation=orientation), frames[0]


def _facts(frame: VideoFrame, *, field_order: int, orientation: Orientation | None) -> ImageFacts:
    layout = layout_of(frame)
    return ImageFacts(
        coded=frame.format.name,
        size_wh=layout.size_wh,
        matrix=layout.matrix,
        range=layout.range,
        orientation=orientation_of(frame) if orientation is None else orientation,
        is_interlaced=frame.interlaced_frame or field_order not in _PROGRESSIVE,
    )


CODECS: Mapping[str, str] = MappingProxyType({"h264": "H264", "hevc": "HEVC", "vp8": "VP8", "vp9": "VP9", "av1": "AV1"})
"""PyNvVideoCodec's names of codecs, by FFmpeg's: those whose images are the same, bit for bit, whatever decodes them.
MPEG-1, 2 and 4, VC-1 and JPEG leave the rounding of their transform open, and decoders differ by some levels.
"""


class NvdecError(Exception):
    """NVDEC is not there, or did not do what it was asked to; the message is the reason, without the stream's name."""


class NvdecLibrary:
    """PyNvVideoCodec on one GPU, which works: that is asked of its driver whenever a decoder is made."""

    def __init__(self, module: Any, *, driver: Any, gpu: CudaDevice) -> None:
        self._module = module
        self._driver = driver
        self._gpu = gpu
        self._errors = (module.PyNvVCException, module.PyNvVCExceptionUnsupported, RuntimeError, MemoryError)

    def support(self, codec: str, *, chroma: str, bit_depth: int) -> DecoderSupport:
        """What the GPU decodes of a codec (FFmpeg's name), a chroma layout (`420`) and a depth. Raises CudaError.

        The driver's library is asked: PyNvVideoCodec would make another context of the GPU for each question.
        """
        with self._gpu.guard("asking for its video decoder"):
            return decoder_support(self._driver, codec, chroma=chroma, bit_depth=bit_depth)

    def check_room(self, needed_bytes: int) -> None:
        """Raise NvdecError where the GPU has less memory free than a decoder is likely to take: its library ends the
        process, or all other users of the GPU fail, when it lacks some later. Raises CudaError.
        """
        free = self._free_bytes()
        if free < needed_bytes and self._gpu.budget.trim():
            free = self._free_bytes()
        if free < needed_bytes:
            raise NvdecError(f"it takes about {needed_bytes >> 20} MiB, and {self._gpu} has {free >> 20} MiB free")

    def _free_bytes(self) -> int:
        with self._gpu.guard("asking for its memory") as driver:
            return driver.free_memory_bytes()[0]

    def decoder(self, codec: str, *, stream_handle: int, is_immediate: bool) -> HardwareDecoder:
        """A decoder that works on that stream of the GPU's primary context. Ask for its `support` before.

        `is_immediate` gives every image with its own packet, and is for streams whose images are shown in the order
        in which they are decoded. Raises NvdecError, CudaError when the GPU does not work.
        """
        with self._gpu.guard("making a video decoder") as driver:
            driver.free_memory_bytes()
        module = self._module
        latency = module.DisplayDecodeLatencyType
        try:
            made = module.CreateDecoder(
                gpuid=self._gpu.index,
                codec=getattr(module.cudaVideoCodec, CODECS[codec]),
                cudacontext=self._gpu.foreign_context,
                cudastream=stream_handle,
                usedevicememory=True,
                latency=latency.LOW if is_immediate else latency.NATIVE,
            )
        except self._errors as error:
            raise NvdecError(gist(error)) from error
        packet = module.PacketData()
        if is_immediate:
            packet.decode_flag = module.VideoPacketFlag.ENDOFPICTURE
        return HardwareDecoder(made, packet=packet, flush=module.PacketData(), errors=self._errors)


class HardwareDecoder:
    """One decoder of the library; for one thread."""

    def __init__(self, made: Any, *, packet: Any, flush: Any, errors: tuple[type[Exception], ...]) -> None:
        self._made = made
        self._packet = packet
        self._flush = flush
        self._errors = errors

    def decode(self, address: int, *, size_bytes: int, timestamp: int) -> list[tuple[int, int]]:
        """What comes out when this packet goes in: timestamp and address of each image, in presentation order.

        The packet is read before this returns; timestamps come out as they went in. Raises NvdecError, after which the
        decoder is of no use.
        """
        packet = self._packet
        packet.bsl_data, packet.bsl, packet.pts = address, size_bytes, timestamp
        return self._decode(packet)

    def flush(self) -> list[tuple[int, int]]:
        """What is left, at the end of the stream. Raises NvdecError."""
        return self._decode(self._flush)

    @property
    def layout(self) -> tuple[str, tuple[int, int]]:
        """How its images lie: `NV12`, `P016`, `YUV444` or `YUV444_16Bit`, and width and height; known from the first
        image on. Planes lie one behind the other, and rows have no padding.
        """
        return self._made.GetPixelFormat().name, (self._made.GetWidth(), self._made.GetHeight())

    def _decode(self, packet: Any) -> list[tuple[int, int]]:
        try:
            return [(frame.timestamp, frame.GetPtrToPlane(0)) for frame in self._made.Decode(packet)]
        except self._errors as error:
            raise NvdecError(gist(error)) from error


def library_for(gpu: CudaDevice) -> NvdecLibrary:
    """Return PyNvVideoCodec for a GPU. Raises NvdecError where it is missing, or the driver has no decoder."""
    module, driver = _installed()
    return NvdecLibrary(module, driver=driver, gpu=gpu)


@lru_cache(maxsize=1)
def _installed() -> tuple[Any, Any]:
    """The package, and the driver's library."""
    try:
        driver = nvdec_library()
    except OSError as error:
        raise NvdecError(f"the driver brings no video decoder ({NVDEC_LIBRARY} is missing)") from error
    try:
        return import_module("PyNvVideoCodec"), driver
    except ModuleNotFoundError as error:
        install = f"pip install 'sightline[{extra_for_driver()}]'"
        raise NvdecError(f"the package PyNvVideoCodec is missing: {install}") from error
    except (ImportError, RuntimeError) as error:
        raise NvdecError(f"PyNvVideoCodec cannot be imported: {gist(error)}") from error


def gist(error: Exception) -> str:
    """What an error of PyNvVideoCodec says, without its place in the sources of that."""
    said = str(error).partition("\nat ")[0].partition("\n\n")[0]
    return " ".join(said.split()) or type(error).__name__
