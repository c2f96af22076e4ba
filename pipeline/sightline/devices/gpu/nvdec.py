"""What a GPU's video decoders (NVDEC) can do, asked of the driver's own library, before any decoder is made.

Making a decoder that the GPU does not have can end the process in other libraries; asking here cannot.
The structure is that of `cuviddec.h` of NVIDIA's Video Codec SDK 13.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, ClassVar

LIBRARY = "libnvcuvid.so.1"
CODECS = {
    "mpeg1video": 0,
    "mpeg2video": 1,
    "mpeg4": 2,
    "vc1": 3,
    "h264": 4,
    "mjpeg": 5,
    "hevc": 8,
    "vp8": 9,
    "vp9": 10,
    "av1": 11,
}
"""NVIDIA's numbers of codecs, by FFmpeg's names."""
_CHROMA = {"400": 0, "420": 1, "422": 2, "444": 3}


class _Caps(ctypes.Structure):
    _fields_: ClassVar = [
        ("codec", ctypes.c_int),
        ("chroma", ctypes.c_int),
        ("bit_depth_minus_8", ctypes.c_uint),
        ("reserved1", ctypes.c_uint * 3),
        ("is_supported", ctypes.c_ubyte),
        ("engines", ctypes.c_ubyte),
        ("output_format_mask", ctypes.c_ushort),
        ("max_width", ctypes.c_uint),
        ("max_height", ctypes.c_uint),
        ("max_macroblocks", ctypes.c_uint),
        ("min_width", ctypes.c_ushort),
        ("min_height", ctypes.c_ushort),
        ("is_histogram_supported", ctypes.c_ubyte),
        ("counter_bit_depth", ctypes.c_ubyte),
        ("max_histogram_bins", ctypes.c_ushort),
        ("reserved3", ctypes.c_uint * 10),
    ]


@dataclass(frozen=True, slots=True)
class DecoderSupport:
    """What the GPU decodes of one codec, chroma layout and depth; `engines` is the number of its NVDECs."""

    is_supported: bool
    engines: int = 0
    min_size_wh: tuple[int, int] = (0, 0)
    max_size_wh: tuple[int, int] = (0, 0)
    max_macroblocks: int = 0

    def reason_against(self, size_wh: tuple[int, int]) -> str | None:
        """Why it does not decode images of that size; None when it does."""
        if not self.is_supported:
            return "this GPU does not decode it"
        (width, height), low, high = size_wh, self.min_size_wh, self.max_size_wh
        macroblocks = -(-width // 16) * -(-height // 16)
        fits = low[0] <= width <= high[0] and low[1] <= height <= high[1]
        if fits and macroblocks <= self.max_macroblocks:
            return None
        return (
            f"this GPU decodes images from {low[0]}x{low[1]} to {high[0]}x{high[1]} with up to "
            f"{self.max_macroblocks} macroblocks, not {width}x{height}"
        )


def nvdec_library() -> Any:
    """The library. Raises OSError where the driver does not bring it."""
    return ctypes.CDLL(LIBRARY)


def decoder_support(library: Any, codec: str, *, chroma: str = "420", bit_depth: int = 8) -> DecoderSupport:
    """What the GPU whose context is current decodes of that codec (FFmpeg's name)."""
    if codec not in CODECS or chroma not in _CHROMA:
        return DecoderSupport(is_supported=False)
    caps = _Caps(codec=CODECS[codec], chroma=_CHROMA[chroma], bit_depth_minus_8=bit_depth - 8)
    if library.cuvidGetDecoderCaps(ctypes.byref(caps)) != 0 or not caps.is_supported:
        return DecoderSupport(is_supported=False, engines=caps.engines)
    return DecoderSupport(
        is_supported=True,
        engines=caps.engines,
        min_size_wh=(caps.min_width, caps.min_height),
        max_size_wh=(caps.max_width, caps.max_height),
        max_macroblocks=caps.max_macroblocks,
    )
