"""PyNvVideoCodec in this project's words: the only module that knows its names.

What it does not do: it owns no image (the next packet overwrites what the last one gave), it waits for nothing (the
images are there in the order of the stream that it was given), and it does not survive a GPU that does not work (it
ends the process). Tested with PyNvVideoCodec 2.2.4 on a fake driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.nvdec import LIBRARY, DecoderSupport, decoder_support, nvdec_library

CODECS: Mapping[str, str] = MappingProxyType({"h264": "H264", "hevc": "HEVC", "vp8": "VP8", "vp9": "VP9", "av1": "AV1"})
"""PyNvVideoCodec's names of codecs, by FFmpeg's: those whose images are the same, bit for bit, whatever decodes them.
MPEG-1, 2 and 4, VC-1 and JPEG leave the rounding of their transform open, and decoders differ by some levels.
"""


class NvdecError(Exception):
    """NVDEC is not there, or did not do what it was asked to; the message is the reason, without the stream's name."""


class NvdecLibrary:
    """PyNvVideoCodec on one GPU, which works: that is asked of its driver whenever a decoder is made."""

    def __init__(self, module: Any, *, driver: Any, gpu: Gpu) -> None:
        self._module = module
        self._driver = driver
        self._gpu = gpu
        self._errors = (module.PyNvVCException, module.PyNvVCExceptionUnsupported, RuntimeError, MemoryError)

    def support(self, codec: str, *, chroma: str, bit_depth: int) -> DecoderSupport:
        """What the GPU decodes of a codec (FFmpeg's name), a chroma layout (`420`) and a depth. Raises GpuError.

        The driver's library is asked: PyNvVideoCodec would make another context of the GPU for each question.
        """
        with self._gpu.guard("asking for its video decoder"):
            return decoder_support(self._driver, codec, chroma=chroma, bit_depth=bit_depth)

    def decoder(self, codec: str, *, stream_handle: int, is_immediate: bool) -> HardwareDecoder:
        """A decoder that works on that stream of the GPU's primary context. Ask for its `support` before.

        `is_immediate` gives every image with its own packet, and is for streams whose images are shown in the order
        in which they are decoded. Raises NvdecError, GpuError when the GPU does not work.
        """
        with self._gpu.guard("making a video decoder") as driver:
            driver.free_memory_bytes()
        module = self._module
        latency = module.DisplayDecodeLatencyType
        try:
            made = module.CreateDecoder(
                gpuid=self._gpu.index,
                codec=getattr(module.cudaVideoCodec, CODECS[codec]),
                cudacontext=0,
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


def library_for(gpu: Gpu) -> NvdecLibrary:
    """PyNvVideoCodec, or what stands in for it on that GPU. Raises NvdecError where there is none."""
    double = gpu.stand_ins.get(NvdecLibrary)
    module, driver = (double, double) if double is not None else _installed()
    return NvdecLibrary(module, driver=driver, gpu=gpu)


@lru_cache(maxsize=1)
def _installed() -> tuple[Any, Any]:
    """The package, and the driver's library."""
    try:
        driver = nvdec_library()
    except OSError as error:
        raise NvdecError(f"the driver brings no video decoder ({LIBRARY} is missing)") from error
    try:
        return import_module("PyNvVideoCodec"), driver
    except ModuleNotFoundError as error:
        raise NvdecError("the package PyNvVideoCodec is missing: pip install 'sightline[gpu]'") from error
    except (ImportError, RuntimeError) as error:
        raise NvdecError(f"PyNvVideoCodec cannot be imported: {gist(error)}") from error


def gist(error: Exception) -> str:
    """What an error of PyNvVideoCodec says, without its place in the sources of that."""
    said = str(error).partition("\nat ")[0].partition("\n\n")[0]
    return " ".join(said.split()) or type(error).__name__
