"""Names, numbers and errors of PyNvVideoCodec, and what a GPU decodes, as its double has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType


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
    decoders; decoders that give no image; decoders whose rows are longer than images are wide.
    """

    fail_at: frozenset[int] = frozenset()
    pass_over: frozenset[int] = frozenset()
    is_mute: bool = False
    is_padded: bool = False


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
